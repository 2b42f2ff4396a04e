//! One breaker as its users and its supplier share it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use semel_proto::v1::{BreakerPolicy, BreakerSnapshot, OutcomeCounts, OutcomeReport, ProbeResult};
use tokio::sync::Notify;

use super::gate::{Admission, Gate, Source, Standing};
use super::rules::Rules;
use super::settings::BreakerSettings;
use super::window::{Outcome, count};
use crate::clock::{Clock, Stopwatch};
use crate::connection::StickyChannel;
use crate::dice::Dice;
use crate::metrics::{BreakerState, DependencyMetrics};

/// Results of probes that wait for a report, at most, as in the contract.
const PROBES_MAX: usize = 100;

/// What all breakers of a client share.
pub(super) struct Shared {
    pub(super) channel: StickyChannel,
    pub(super) tenant: String,
    /// Who reports.
    pub(super) reporter: Bytes,
    pub(super) settings: BreakerSettings,
    pub(super) clock: Stopwatch,
    pub(super) dice: Dice,
    /// There is something to report.
    pub(super) outcomes: Notify,
    /// It should not wait for more.
    pub(super) is_urgent: AtomicBool,
}

impl Shared {
    pub(super) fn now_ms(&self) -> u64 {
        self.clock.monotonic_us() / 1_000
    }
}

/// One breaker.
pub(super) struct Entry {
    pub(super) dependency: String,
    pub(super) shared: Arc<Shared>,
    metrics: DependencyMetrics,
    state: Mutex<State>,
    /// While every call goes through, its generation and a lowest bit of 1: nothing else has to be looked at.
    plain: AtomicU64,
}

struct State {
    gate: Gate,
    tally: Tally,
    /// The version of the policy that the gate goes by.
    version: Option<u64>,
}

/// What is to be reported.
#[derive(Default)]
struct Tally {
    generation: u64,
    counts: OutcomeCounts,
    probes: Vec<ProbeResult>,
}

impl Entry {
    pub(super) fn new(dependency: String, shared: Arc<Shared>) -> Self {
        let metrics = shared.settings.metrics.dependency(&dependency);
        let state = State { gate: Gate::new(), tally: Tally::default(), version: None };
        Self { dependency, shared, metrics, state: Mutex::new(state), plain: AtomicU64::new(1) }
    }

    /// The generation, if every call goes through.
    pub(super) fn plain(&self) -> Option<u64> {
        let word = self.plain.load(Ordering::Relaxed);
        (word & 1 == 1).then_some(word >> 1)
    }

    pub(super) fn admit(&self) -> Admission {
        if let Some(generation) = self.plain() {
            return Admission::Pass(generation);
        }
        let (now_ms, roll) = (self.shared.now_ms(), self.shared.dice.roll());
        let admission = self.change(now_ms, |gate| gate.admit(now_ms, roll));
        if self.is_local() {
            self.metrics.degraded("breaker");
        }
        admission
    }

    pub(super) fn is_closed(&self) -> bool {
        self.plain().is_some() || self.lock().gate.is_closed(self.shared.now_ms())
    }

    pub(super) fn is_local(&self) -> bool {
        self.lock().gate.source() == Source::Local
    }

    /// A call ended that was made under this generation. An older generation says nothing any more.
    pub(super) fn record(&self, outcome: Outcome, took_us: u64, generation: u64) {
        let now_ms = self.shared.now_ms();
        let mut state = self.lock();
        if generation != state.gate.generation() {
            return;
        }
        let slow_us = state.gate.rules().slow_call.map_or(u128::MAX, |slow| slow.as_micros());
        let is_slow = u128::from(took_us) > slow_us;
        if state.tally.generation != generation {
            state.tally.counts = OutcomeCounts::default();
            state.tally.generation = generation;
        }
        let is_first = state.tally.is_empty();
        count(&mut state.tally.counts, outcome, is_slow);
        let before = state.gate.standing();
        state.gate.record(outcome, is_slow, now_ms, self.shared.dice.roll());
        self.settle(&state, before, now_ms);
        drop(state);
        if is_first {
            self.shared.outcomes.notify_one();
        }
    }

    /// A probe ended. With a permit, the node is told at once.
    pub(super) fn probed(&self, succeeded: Option<bool>, permit: Option<ProbeResult>) {
        let (now_ms, roll) = (self.shared.now_ms(), self.shared.dice.roll());
        self.change(now_ms, |gate| gate.probed(succeeded, now_ms, roll));
        if let Some(result) = permit {
            let mut state = self.lock();
            if state.tally.probes.len() < PROBES_MAX {
                state.tally.probes.push(result);
            }
            drop(state);
            self.shared.is_urgent.store(true, Ordering::Relaxed);
            self.shared.outcomes.notify_one();
        }
    }

    /// Whether there is something to report. Never, while no node is in reach.
    pub(super) fn has_report(&self) -> bool {
        self.lock().has_report()
    }

    /// What is to be reported; it is gone from here. Nothing, while no node is in reach.
    pub(super) fn take_report(&self) -> Option<OutcomeReport> {
        let mut state = self.lock();
        if !state.has_report() {
            return None;
        }
        let generation = state.tally.generation;
        let tally = std::mem::replace(&mut state.tally, Tally { generation, ..Tally::default() });
        let dependency = self.dependency.clone();
        let Tally { counts, probes, .. } = tally;
        Some(OutcomeReport { dependency, generation, counts: Some(counts), probes })
    }

    /// A node says where the breaker stands. Whether its policy has to be asked for.
    pub(super) fn hear(&self, told: &BreakerSnapshot) -> bool {
        let now_ms = self.shared.now_ms();
        let was_local = self.is_local();
        if was_local {
            // What came about without a node would count as if it were of now.
            self.lock().tally.counts = OutcomeCounts::default();
        }
        self.change(now_ms, |gate| gate.hear(told, now_ms));
        let state = self.lock();
        if was_local && !state.tally.is_empty() {
            // Probes that ended meanwhile: they could not be reported, and no later outcome is the first.
            self.shared.outcomes.notify_one();
        }
        state.version != Some(told.policy_version)
    }

    pub(super) fn learn(&self, policy: &BreakerPolicy, version: u64) {
        let mut state = self.lock();
        state.gate.learn(Rules::of(policy));
        state.version = Some(version);
    }

    pub(super) fn lose(&self) {
        let now_ms = self.shared.now_ms();
        self.change(now_ms, |gate| gate.lose(now_ms));
    }

    pub(super) fn wants_look(&self) -> bool {
        self.lock().gate.wants_look(self.shared.now_ms())
    }

    pub(super) fn isolate(&self, for_ms: u64) {
        let now_ms = self.shared.now_ms();
        self.change(now_ms, |gate| gate.isolate(for_ms, now_ms));
    }

    pub(super) fn ask_again_later(&self) {
        let now_ms = self.shared.now_ms();
        self.change(now_ms, |gate| gate.ask_again_later(now_ms));
    }

    fn change<T>(&self, now_ms: u64, change: impl FnOnce(&mut Gate) -> T) -> T {
        let mut state = self.lock();
        let before = state.gate.standing();
        let result = change(&mut state.gate);
        self.settle(&state, before, now_ms);
        result
    }

    fn settle(&self, state: &State, before: Standing, now_ms: u64) {
        let plain = state.gate.is_plain(now_ms).map_or(0, |generation| (generation << 1) | 1);
        self.plain.store(plain, Ordering::Relaxed);
        let name = |standing| match standing {
            Standing::Closed { .. } => BreakerState::Closed,
            Standing::HalfOpen { .. } => BreakerState::HalfOpen,
            Standing::Open { .. } => BreakerState::Open,
        };
        let after = name(state.gate.standing());
        if after != name(before) {
            let source = match state.gate.source() {
                Source::Fleet => "fleet",
                Source::Local => "local",
            };
            self.metrics.breaker(after, source);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn has_report(&self) -> bool {
        !self.tally.is_empty() && self.gate.source() == Source::Fleet
    }
}

impl Tally {
    fn is_empty(&self) -> bool {
        self.probes.is_empty() && self.counts == OutcomeCounts::default()
    }
}
