//! Where one breaker stands for this process, and whom it lets through. Pure: it is told the time, what
//! nodes said, and what became of calls.
//!
//! While a node is in reach the fleet's state decides, and nothing here changes it. When no node is, the gate
//! goes on from where the fleet left it, by the same rules, with this process's own calls: it opens, probes,
//! one call at a time, and recovers by itself. It is the fleet's again with the next word from a node.

use semel_proto::v1::{BreakerCondition, BreakerSnapshot};

use super::rules::{ALL, Rules};
use super::window::{Outcome, Window};
use crate::wire::{duration, millis};

/// When to look again at a breaker that says nothing of it.
const LOOK_AGAIN_MS: u64 = 1_000;
/// Between two questions for the permit to probe.
const ASK_PAUSE_MS: u64 = 100;

/// Who decides at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Fleet,
    Local,
}

/// Where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// This share of calls goes through, in thousandths, as the fleet says. If nobody does: as the rules
    /// have it since its last recovery.
    Closed { per_mille: u32, since_ms: Option<u64> },
    /// None goes through before this moment.
    Open { until_ms: u64 },
    /// Only probes go through, none before this moment.
    HalfOpen { from_ms: u64 },
}

/// May a call be made?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// Yes, under this generation.
    Pass(u64),
    /// As a probe, under this generation: no node is in reach to ask.
    Probe(u64),
    /// Perhaps as a probe: a node has to be asked. Nobody else asks meanwhile.
    Ask,
    /// No, and when to look again.
    Refuse { retry_after_ms: u64 },
}

/// One breaker.
#[derive(Debug)]
pub(super) struct Gate {
    rules: Rules,
    standing: Standing,
    source: Source,
    generation: u64,
    window: Window,
    /// Recoveries that failed one after another.
    level: u32,
    /// Probes that succeeded one after another.
    successes: u32,
    /// A probe, or the question for one, is under way: until it ends, but no longer than this.
    probing_until_ms: u64,
    /// Only this process fails, the node said.
    isolated_until_ms: u64,
    looked_ms: u64,
}

impl Gate {
    pub(super) fn new() -> Self {
        Self {
            rules: Rules::default(),
            standing: Standing::Closed { per_mille: ALL, since_ms: None },
            source: Source::Local,
            generation: 0,
            window: Window::default(),
            level: 0,
            successes: 0,
            probing_until_ms: 0,
            isolated_until_ms: 0,
            looked_ms: 0,
        }
    }

    pub(super) const fn rules(&self) -> &Rules {
        &self.rules
    }

    pub(super) const fn learn(&mut self, rules: Rules) {
        self.rules = rules;
    }

    pub(super) const fn generation(&self) -> u64 {
        self.generation
    }

    pub(super) const fn source(&self) -> Source {
        self.source
    }

    pub(super) const fn standing(&self) -> Standing {
        self.standing
    }

    /// The generation, if every call goes through.
    pub(super) fn is_plain(&self, now_ms: u64) -> Option<u64> {
        let all = matches!(self.standing, Standing::Closed { .. }) && self.share(now_ms) == ALL;
        (all && now_ms >= self.isolated_until_ms).then_some(self.generation)
    }

    /// May a call be made? `roll` is uniform, for the share.
    pub(super) fn admit(&mut self, now_ms: u64, roll: u64) -> Admission {
        if now_ms < self.isolated_until_ms {
            return Admission::Refuse { retry_after_ms: self.isolated_until_ms - now_ms };
        }
        match self.standing {
            Standing::Closed { .. } if roll % u64::from(ALL) < self.share(now_ms).into() => {
                Admission::Pass(self.generation)
            }
            Standing::Closed { .. } => {
                Admission::Refuse { retry_after_ms: self.rules.ramp_step_ms.min(LOOK_AGAIN_MS) }
            }
            Standing::Open { until_ms: u64::MAX } => {
                Admission::Refuse { retry_after_ms: LOOK_AGAIN_MS }
            }
            Standing::Open { until_ms: from_ms } | Standing::HalfOpen { from_ms } => {
                let free_ms = from_ms.max(self.probing_until_ms);
                if now_ms < free_ms {
                    return Admission::Refuse { retry_after_ms: free_ms - now_ms };
                }
                self.probe(now_ms)
            }
        }
    }

    fn probe(&mut self, now_ms: u64) -> Admission {
        self.probing_until_ms = now_ms.saturating_add(self.rules.probe_lease_ms);
        match self.source {
            Source::Fleet => Admission::Ask,
            Source::Local => {
                self.standing = Standing::HalfOpen { from_ms: now_ms };
                Admission::Probe(self.generation)
            }
        }
    }

    /// Whether an attempt that is about to be decided would be refused: nothing is asked for.
    pub(super) fn is_closed(&self, now_ms: u64) -> bool {
        matches!(self.standing, Standing::Closed { .. }) && now_ms >= self.isolated_until_ms
    }

    /// The node had no permit to give, or could not be asked.
    pub(super) fn ask_again_later(&mut self, now_ms: u64) {
        self.probing_until_ms = now_ms.saturating_add(ASK_PAUSE_MS);
    }

    /// A call ended that was made under this generation. `roll` is for the cool-down.
    pub(super) fn record(&mut self, outcome: Outcome, is_slow: bool, now_ms: u64, roll: u64) {
        self.window.add(outcome, is_slow, &self.rules, now_ms);
        let Standing::Closed { since_ms, .. } = self.standing else { return };
        if self.source == Source::Local
            && (outcome == Outcome::Failed || is_slow)
            && self.window.passes(&self.rules, now_ms)
        {
            let passed_ms = since_ms.map(|since_ms| now_ms.saturating_sub(since_ms));
            if !passed_ms.is_some_and(|passed_ms| self.rules.is_on_trial(passed_ms)) {
                self.level = 0;
            }
            self.open(now_ms, roll);
        }
    }

    fn open(&mut self, now_ms: u64, roll: u64) {
        let cool_down_ms = self.rules.cool_down_after(self.level, roll);
        self.level = self.level.saturating_add(1);
        self.standing = Standing::Open { until_ms: now_ms.saturating_add(cool_down_ms) };
        self.forget();
    }

    fn forget(&mut self) {
        self.window = Window::default();
        self.successes = 0;
        self.probing_until_ms = 0;
    }

    /// A probe ended. `None`: inconclusive.
    pub(super) fn probed(&mut self, succeeded: Option<bool>, now_ms: u64, roll: u64) {
        // The node is told; until it answers, nobody else asks.
        self.probing_until_ms = match self.source {
            Source::Fleet => now_ms.saturating_add(ASK_PAUSE_MS),
            Source::Local => 0,
        };
        if self.source == Source::Fleet || !matches!(self.standing, Standing::HalfOpen { .. }) {
            return;
        }
        match succeeded {
            None => {}
            Some(false) => self.open(now_ms, roll),
            Some(true) => {
                self.successes = self.successes.saturating_add(1);
                if self.successes >= self.rules.successes_to_close {
                    self.standing = Standing::Closed { per_mille: ALL, since_ms: Some(now_ms) };
                    self.forget();
                }
            }
        }
    }

    /// A node says where the fleet's breaker stands.
    pub(super) fn hear(&mut self, told: &BreakerSnapshot, now_ms: u64) {
        if told.generation < self.generation && self.source == Source::Fleet {
            return;
        }
        if told.generation != self.generation || self.source == Source::Local {
            self.forget();
        }
        self.generation = told.generation;
        self.source = Source::Fleet;
        let look_ms =
            told.look_again.as_ref().map(|wait| now_ms.saturating_add(millis(duration(wait))));
        let due_ms = if told.probe_due { now_ms } else { look_ms.unwrap_or(u64::MAX) };
        self.standing = match told.condition() {
            BreakerCondition::Open => Standing::Open { until_ms: due_ms },
            BreakerCondition::HalfOpen => {
                let latest_ms = now_ms.saturating_add(LOOK_AGAIN_MS);
                Standing::HalfOpen { from_ms: due_ms.min(latest_ms) }
            }
            BreakerCondition::Closed | BreakerCondition::Unspecified => {
                let per_mille = told.admitted_per_mille.min(ALL);
                let since_ms = now_ms.saturating_sub(self.rules.ramp_at(per_mille));
                Standing::Closed { per_mille, since_ms: (per_mille < ALL).then_some(since_ms) }
            }
        };
    }

    /// No node is in reach any more.
    pub(super) fn lose(&mut self, now_ms: u64) {
        self.source = Source::Local;
        self.probing_until_ms = 0;
        if self.standing == (Standing::Open { until_ms: u64::MAX }) {
            self.standing =
                Standing::Open { until_ms: now_ms.saturating_add(self.rules.cool_down_ms) };
        }
    }

    /// Whether a node should be asked if only this process fails: the fleet's breaker is closed, while the
    /// calls of this process would open it. At most once a second.
    pub(super) fn wants_look(&mut self, now_ms: u64) -> bool {
        let fails = self.source == Source::Fleet
            && self.is_closed(now_ms)
            && now_ms >= self.looked_ms
            && self.window.passes(&self.rules, now_ms);
        if fails {
            self.looked_ms = now_ms.saturating_add(LOOK_AGAIN_MS);
        }
        fails
    }

    /// Only this process fails: it holds back for so long.
    pub(super) fn isolate(&mut self, for_ms: u64, now_ms: u64) {
        self.isolated_until_ms = now_ms.saturating_add(for_ms);
        self.window = Window::default();
    }

    fn share(&self, now_ms: u64) -> u32 {
        match (self.standing, self.source) {
            (Standing::Closed { per_mille, .. }, Source::Fleet) => per_mille,
            (Standing::Closed { since_ms: Some(since_ms), .. }, Source::Local) => {
                self.rules.ramp(now_ms.saturating_sub(since_ms))
            }
            // It never recovered from anything.
            (Standing::Closed { since_ms: None, .. }, Source::Local) => ALL,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests;
