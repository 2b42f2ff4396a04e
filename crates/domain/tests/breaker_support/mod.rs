//! Words for the tests of breakers: records in every state, and what can be asked of them.
//!
//! Every record here is written out, never made by the rules that are tested. A story stands behind
//! them: under generation [`GENERATION`] something began at [`BEGAN`]; it is [`NOW`], ten seconds later.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::time::Duration;

use proptest::test_runner::{Config as ProptestConfig, FileFailurePersistence, RngAlgorithm};
use semel_domain::Change;
use semel_domain::breaker::{
    Absorb, Command, Counts, Force, ForceKind, NodeSeen, Outcome, Outcomes, Override, Permit,
    Policy, PolicySet, Probe, ProbeResult, Record, ReporterId, Ring, Settle, Slot, State, Tracked,
    Window, decide,
};
use semel_domain::time::Timestamp;

pub(crate) const BEGAN: Timestamp = Timestamp::from_micros(1_000_000_000_000_000);
pub(crate) const NOW: Timestamp = Timestamp::from_micros(1_000_000_010_000_000);
pub(crate) const MICROSECOND: Duration = Duration::from_micros(1);
pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const GENERATION: u64 = 7;

pub(crate) const A: ReporterId = ReporterId([0xa; 16]);
pub(crate) const B: ReporterId = ReporterId([0xb; 16]);
pub(crate) const C: ReporterId = ReporterId([0xc; 16]);
pub(crate) const NODE: [u8; 16] = [1; 16];
pub(crate) const PERMIT: [u8; 16] = [0xf; 16];
pub(crate) const QUESTION: [u8; 16] = [0xe; 16];
/// In the middle: no cool-down is made longer or shorter.
pub(crate) const RANDOM: u64 = 200;

/// Slots of a second, and at least 5 calls where one reporter is left out.
pub(crate) const POLICY: Policy = Policy {
    failure_per_mille: 500,
    window: Duration::from_secs(10),
    calls_min: 20,
    cool_down: Duration::from_secs(10),
    cool_down_max: Duration::from_secs(60),
    probes_max: 1,
    successes_to_close: 3,
    probe_lease: Duration::from_secs(5),
    ramp_step: Duration::from_secs(5),
    slow_call: None,
    slow_per_mille: 500,
};

// Records.

pub(crate) fn record(state: State) -> Record {
    let actor = "ops".into();
    Record {
        touched_at: BEGAN,
        policy: Some(PolicySet { policy: POLICY, version: 3, actor, set_at: BEGAN }),
        generation: GENERATION,
        state,
        window: Window::default(),
        force: None,
        forces: Vec::new(),
        nodes: vec![NodeSeen { node: NODE, seq: 4, at: BEGAN }],
    }
}

pub(crate) fn closed() -> Record {
    record(State::Closed { since: BEGAN, recovered: None })
}

pub(crate) fn recovered(level: u32) -> Record {
    record(State::Closed { since: BEGAN, recovered: Some(level) })
}

pub(crate) fn open_until(until: Timestamp, level: u32) -> Record {
    record(State::Open { since: BEGAN, until, level })
}

pub(crate) fn half_open(successes: u32, permits: Vec<Permit>) -> Record {
    record(State::HalfOpen { since: BEGAN, level: 1, successes, permits })
}

/// A permit, and its question, that are named by a byte.
pub(crate) fn permit(byte: u8, expires_at: Timestamp) -> Permit {
    Permit { id: [byte; 16], probe_id: [byte.wrapping_add(100); 16], expires_at }
}

pub(crate) fn forced(kind: ForceKind, expires_at: Option<Timestamp>) -> Record {
    let (actor, reason) = ("ops".into(), "drill".into());
    Record { force: Some(Force { kind, actor, reason, since: BEGAN, expires_at }), ..closed() }
}

pub(crate) fn with_policy(policy: Policy, mut record: Record) -> Record {
    if let Some(set) = &mut record.policy {
        set.policy = policy;
    }
    record
}

/// The record with these in its window, as of the newest slot.
pub(crate) fn reported(all: &[(ReporterId, Counts)], record: Record) -> Record {
    reported_at(NOW, all, record)
}

/// The same, of a slot that began then.
pub(crate) fn reported_at(
    starts_at: Timestamp,
    all: &[(ReporterId, Counts)],
    record: Record,
) -> Record {
    let slot = |counts| Ring(vec![Slot { starts_at, counts }]);
    let total = all.iter().fold(Counts::default(), |sum, (_, counts)| sum.plus(*counts));
    let tracked = |&(reporter, counts): &(ReporterId, Counts)| Tracked {
        reporter,
        ring: slot(counts),
        isolated_until: None,
    };
    let window = Window { totals: slot(total), reporters: all.iter().map(tracked).collect() };
    Record { window, touched_at: NOW, ..record }
}

pub(crate) fn counts(succeeded: u64, failed: u64) -> Counts {
    Counts { succeeded, failed, ..Counts::default() }
}

// Commands.

pub(crate) fn absorb(seq: u64, generation: u64, all: &[(ReporterId, Counts)]) -> Command {
    absorb_from(NODE, seq, generation, all)
}

pub(crate) fn absorb_from(
    node: [u8; 16],
    seq: u64,
    generation: u64,
    all: &[(ReporterId, Counts)],
) -> Command {
    let one =
        |&(reporter, counts): &(ReporterId, Counts)| Outcomes { reporter, generation, counts };
    Command::Absorb(Absorb { node, seq, outcomes: all.iter().map(one).collect() })
}

pub(crate) fn advance() -> Command {
    Command::Advance { random: RANDOM }
}

pub(crate) fn probe() -> Command {
    Command::Probe(Probe { permit: PERMIT, probe_id: QUESTION })
}

pub(crate) fn probe_of(byte: u8) -> Command {
    Command::Probe(Probe { permit: [byte; 16], probe_id: [byte.wrapping_add(100); 16] })
}

pub(crate) fn settle(byte: u8, result: ProbeResult) -> Command {
    Command::Settle(Settle { permit: [byte; 16], result, random: RANDOM })
}

pub(crate) fn force(byte: u8, kind: Option<ForceKind>, expires_in: Option<Duration>) -> Command {
    let (actor, reason) = ("ops".into(), "drill".into());
    Command::Override(Override { id: [byte; 16], kind, expires_in, actor, reason })
}

/// A record, and what decisions so far left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Desk(pub(crate) Option<Record>);

impl Desk {
    /// Decides, keeps what the decision leaves, and hands the answer over.
    pub(crate) fn ask(&mut self, command: &Command, now: Timestamp) -> Outcome {
        let (change, outcome) = decide(self.0.as_ref(), command, now);
        match change {
            Change::Keep => {}
            Change::Put(record) => self.0 = Some(record),
            Change::Delete => self.0 = None,
        }
        outcome
    }
}

/// So many cases, or as many times more as `PROPTEST_CASES` is more than its usual 256.
pub(crate) fn config(cases: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig {
        cases: (cases * default.cases).div_ceil(256),
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        rng_algorithm: RngAlgorithm::XorShift,
        ..default
    }
}
