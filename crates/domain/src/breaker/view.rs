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

/// Where a breaker stands, without its counts: what is asked before every call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Where it stands.
    pub condition: Condition,
    /// Its generation.
    pub generation: u64,
    /// The share of calls that should be made, in thousandths: 0 unless closed.
    pub admitted_per_mille: u32,
    /// When the next change of itself is due: a probe, a step of the ramp, the end of an override.
    pub look_again: Option<Duration>,
    /// Since when it stands there; absent: since ever.
    pub since: Option<Timestamp>,
    /// A probe would be permitted now.
    pub probe_due: bool,
}

/// A breaker at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Where it stands.
    pub standing: Standing,
    /// Outcomes in the window.
    pub counts: Counts,
    /// How many reporters they are of, as far as they are told apart.
    pub reporters: usize,
    /// The operator's force, if any.
    pub force: Option<Force>,
    /// The version of its policy; 0: the default policy.
    pub policy_version: u64,
}

/// Where the breaker of `record` (absent: `None`) stands at `now`.
#[must_use]
pub fn standing(record: Option<&Record>, now: Timestamp) -> Standing {
    record.map_or(NEVER_USED, |record| {
        let now = now.max(record.touched_at);
        stand(&record.settled(now), now)
    })
}

/// The breaker of `record` (absent: `None`) at `now`.
#[must_use]
pub fn snapshot(record: Option<&Record>, now: Timestamp) -> Snapshot {
    let Some(record) = record else {
        return Snapshot {
            standing: NEVER_USED,
            counts: Counts::default(),
            reporters: 0,
            force: None,
            policy_version: 0,
        };
    };
    let now = now.max(record.touched_at);
    let record = record.settled(now);
    let policy = record.policy();
    Snapshot {
        standing: stand(&record, now),
        counts: record.window.totals.sum(&policy, now),
        reporters: record.window.reporters(&policy, now),
        force: record.force.clone(),
        policy_version: record.policy_version(),
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

/// How a breaker stands that has no record.
const NEVER_USED: Standing = Standing {
    condition: Condition::Closed,
    generation: 0,
    admitted_per_mille: 1_000,
    look_again: None,
    since: None,
    probe_due: false,
};

fn stand(record: &Record, now: Timestamp) -> Standing {
    let generation = record.generation;
    if let Some(force) = &record.force {
        let (condition, admitted_per_mille) = match force.kind {
            ForceKind::Open => (Condition::Open, 0),
            ForceKind::Closed | ForceKind::MetricsOnly => (Condition::Closed, 1_000),
        };
        let (look_again, since) = (force.expires_at.map(|end| end.since(now)), Some(force.since));
        let probe_due = false;
        return Standing {
            condition,
            generation,
            admitted_per_mille,
            look_again,
            since,
            probe_due,
        };
    }
    match &record.state {
        State::Closed { since, recovered } => {
            let (admitted_per_mille, look_again) = match recovered {
                None => (1_000, None),
                Some(_) => record.policy().ramp(now.since(*since)),
            };
            let since = Some(*since);
            Standing { generation, admitted_per_mille, look_again, since, ..NEVER_USED }
        }
        State::Open { since, until, .. } => {
            held_back(Condition::Open, generation, *since, until.since(now))
        }
        State::HalfOpen { since, permits, .. } => {
            let left = free_in(permits, record.policy().probes_max, now);
            held_back(Condition::HalfOpen, generation, *since, left)
        }
    }
}

/// A probe is due once nothing is `left` to wait for.
fn held_back(condition: Condition, generation: u64, since: Timestamp, left: Duration) -> Standing {
    let (admitted_per_mille, since) = (0, Some(since));
    let look_again = (!left.is_zero()).then_some(left);
    let probe_due = look_again.is_none();
    Standing { condition, generation, admitted_per_mille, look_again, since, probe_due }
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
