//! The rule of changes that come of themselves: an override ends, failures open the breaker, a lone
//! sick reporter is to hold back.

use super::outcome::AdvanceOutcome;
use super::policy::Policy;
use super::quorum::{Verdict, judge};
use super::record::{Record, State};
use super::window::ReporterId;
use crate::Change;
use crate::time::Timestamp;

/// A change that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    OverrideEnds,
    Open { level: u32 },
    Isolate(ReporterId),
}

/// Which change is due at `now`, if any.
pub(super) fn due(record: &Record, now: Timestamp) -> Option<Due> {
    if let Some(force) = &record.force {
        return force.expires_at.filter(|&end| end <= now).map(|_| Due::OverrideEnds);
    }
    let State::Closed { since, recovered } = record.state else { return None };
    let policy = record.policy();
    match judge(&record.window, &policy, now) {
        Verdict::Healthy => None,
        Verdict::Isolate(reporter) => Some(Due::Isolate(reporter)),
        Verdict::Open => Some(Due::Open { level: level(&policy, since, recovered, now) }),
    }
}

/// A breaker that opens while it is on trial has failed to recover.
fn level(policy: &Policy, since: Timestamp, recovered: Option<u32>, now: Timestamp) -> u32 {
    match recovered {
        Some(level) if policy.is_on_trial(now.since(since)) => level.saturating_add(1),
        _ => 0,
    }
}

pub(super) fn decide(
    record: Option<&Record>,
    random: u64,
    now: Timestamp,
) -> (Change<Record>, AdvanceOutcome) {
    let Some((record, due)) = record.and_then(|record| Some((record, due(record, now)?))) else {
        return (Change::Keep, AdvanceOutcome::NothingDue);
    };
    let mut advanced = record.settled(now).into_owned();
    let policy = advanced.policy();
    let outcome = match due {
        Due::OverrideEnds => AdvanceOutcome::OverrideEnded,
        Due::Open { level } => {
            let until = now.after(policy.cool_down_after(level, random));
            advanced.enter(State::Open { since: now, until, level });
            AdvanceOutcome::Opened
        }
        Due::Isolate(reporter) => {
            let until = now.after(policy.cool_down);
            for tracked in &mut advanced.window.reporters {
                if tracked.reporter == reporter {
                    tracked.isolated_until = Some(until);
                }
            }
            AdvanceOutcome::Isolated(reporter)
        }
    };
    advanced.touched_at = now;
    (Change::Put(advanced), outcome)
}
