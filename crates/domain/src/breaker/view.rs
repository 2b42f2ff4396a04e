//! A breaker at one moment: a function of its record and of the time, the same on every node.

use std::time::Duration;

use super::record::{Force, ForceKind, Permit, Record, State};
use super::window::{Counts, ReporterId};
use crate::time::Timestamp;

/// Where a breaker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Calls go through.
    Closed,
    /// Calls are not worth making.
    Open,
    /// Probes are under way; other calls are not worth making.
    HalfOpen,
}

/// A breaker at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Where it stands.
    pub condition: Condition,
    /// Its generation.
    pub generation: u64,
    /// The share of calls that should be made, in thousandths: 0 unless closed.
    pub admitted_per_mille: u32,
    /// When the next change of itself is due: a probe, a step of the ramp, the end of an override.
    pub look_again: Option<Duration>,
    /// Outcomes in the window.
    pub counts: Counts,
    /// How many reporters they are of, as far as they are told apart.
    pub reporters: usize,
    /// The operator's force, if any.
    pub force: Option<Force>,
    /// Since when it stands there; absent: since ever.
    pub since: Option<Timestamp>,
    /// The version of its policy; 0: the default policy.
    pub policy_version: u64,
    /// A probe would be permitted now.
    pub probe_due: bool,
}

/// The breaker of `record` (absent: `None`) at `now`.
#[must_use]
pub fn snapshot(record: Option<&Record>, now: Timestamp) -> Snapshot {
    let Some(record) = record else { return never_used() };
    let now = now.max(record.touched_at);
    let record = record.settled(now);
    let policy = record.policy();
    let stand = stand(&record, now);
    Snapshot {
        condition: stand.condition,
        generation: record.generation,
        admitted_per_mille: stand.admitted_per_mille,
        look_again: stand.next,
        counts: record.window.totals.sum(&policy, now),
        reporters: record.window.reporters(&policy, now),
        force: record.force.clone(),
        since: Some(stand.since),
        policy_version: record.policy_version(),
        probe_due: stand.probe_due,
    }
}

/// How long `reporter` is to hold back by itself, if it is.
#[must_use]
pub fn isolated_for(
    record: Option<&Record>,
    reporter: ReporterId,
    now: Timestamp,
) -> Option<Duration> {
    let record = record?;
    let now = now.max(record.touched_at);
    let record = record.settled(now);
    let mut known = record.window.reporters.iter();
    let tracked = known.find(|tracked| tracked.reporter == reporter)?;
    tracked.isolated_until.map(|until| until.since(now)).filter(|left| !left.is_zero())
}

fn never_used() -> Snapshot {
    Snapshot {
        condition: Condition::Closed,
        generation: 0,
        admitted_per_mille: 1_000,
        look_again: None,
        counts: Counts::default(),
        reporters: 0,
        force: None,
        since: None,
        policy_version: 0,
        probe_due: false,
    }
}

/// Where a breaker stands, without its counts.
struct Stand {
    condition: Condition,
    admitted_per_mille: u32,
    since: Timestamp,
    next: Option<Duration>,
    probe_due: bool,
}

fn stand(record: &Record, now: Timestamp) -> Stand {
    if let Some(force) = &record.force {
        let (condition, admitted_per_mille) = match force.kind {
            ForceKind::Open => (Condition::Open, 0),
            ForceKind::Closed | ForceKind::MetricsOnly => (Condition::Closed, 1_000),
        };
        let next = force.expires_at.map(|end| end.since(now));
        return Stand { condition, admitted_per_mille, since: force.since, next, probe_due: false };
    }
    match &record.state {
        State::Closed { since, recovered } => {
            let (share, next) = match recovered {
                None => (1_000, None),
                Some(_) => record.policy().ramp(now.since(*since)),
            };
            let condition = Condition::Closed;
            Stand { condition, admitted_per_mille: share, since: *since, next, probe_due: false }
        }
        State::Open { since, until, .. } => held_back(Condition::Open, *since, until.since(now)),
        State::HalfOpen { since, permits, .. } => {
            let left = free_in(permits, record.policy().probes_max, now);
            held_back(Condition::HalfOpen, *since, left)
        }
    }
}

/// A probe is due once nothing is `left` to wait for.
fn held_back(condition: Condition, since: Timestamp, left: Duration) -> Stand {
    let next = (!left.is_zero()).then_some(left);
    Stand { condition, admitted_per_mille: 0, since, next, probe_due: next.is_none() }
}

/// How long it is until there is a slot for a probe.
fn free_in(permits: &[Permit], probes_max: u32, now: Timestamp) -> Duration {
    let places = usize::try_from(probes_max).unwrap_or(usize::MAX);
    let live = permits.iter().map(|permit| permit.expires_at).filter(|end| *end > now);
    if live.clone().count() < places {
        return Duration::ZERO;
    }
    live.min().map_or(Duration::ZERO, |end| end.since(now))
}
