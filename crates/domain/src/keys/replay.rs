//! The rule of ReplayKey: reads, never claims.

use super::command::Replay;
use super::outcome::{InProgress, ReplayOutcome};
use super::record::{Record, State};
use crate::fingerprint::Comparison;
use crate::time::Timestamp;

pub(super) fn decide(record: Option<&Record>, replay: &Replay, now: Timestamp) -> ReplayOutcome {
    let Some(record) = record else {
        return ReplayOutcome::Unknown;
    };
    // Whoever can't say what the key stands for is told nothing, not even that it exists.
    if replay.fingerprints.compare(&record.fingerprints) != Comparison::Same {
        return ReplayOutcome::Unknown;
    }
    match &record.state {
        State::Forgotten { .. } => ReplayOutcome::Expired,
        State::Completed(answer) => ReplayOutcome::Replay(Box::new(answer.clone())),
        State::Claimed(claimed) if claimed.is_live(now) => ReplayOutcome::InProgress(InProgress {
            lease_left: claimed.expires_at.since(now),
            held_for: now.since(claimed.claimed_at),
        }),
        _ => ReplayOutcome::Unanswered(record.stage(now)),
    }
}
