//! The rule of ClaimKey: whose work it is.

use std::time::Duration;

use super::command::Claim;
use super::outcome::{ClaimOutcome, Grant, GrantKind, InProgress};
use super::record::{Attempt, AttemptEnd, Claimed, OnOwnerLost, OwnerId, Record, State};
use crate::Change;
use crate::fingerprint::Comparison;
use crate::time::Timestamp;

/// The hint where no lease says how long to stay away; a hint of zero would be a busy loop.
const SHORTEST_HINT: Duration = Duration::from_millis(1);

/// Decides a claim. `fence_floor` is above every fence that the key is known to have had, so that a
/// record which outlived its retention can't lend its fence to the next one.
pub(super) fn decide(
    record: Option<&Record>,
    claim: &Claim,
    fence_floor: u64,
    now: Timestamp,
) -> (Change<Record>, ClaimOutcome) {
    let Some(record) = record else {
        return decide_first(claim, fence_floor, now);
    };
    match claim.fingerprints.compare(&record.fingerprints) {
        Comparison::Different => return refuse(ClaimOutcome::PayloadMismatch),
        Comparison::Incomparable => return refuse(ClaimOutcome::FingerprintIncomparable),
        Comparison::Same => {}
    }
    match &record.state {
        State::Forgotten { .. } => refuse(ClaimOutcome::Expired),
        State::Completed(answer) => refuse(ClaimOutcome::Replay(Box::new(answer.clone()))),
        State::Indeterminate { by, claimed_at, .. } => {
            if record.on_owner_lost == OnOwnerLost::Block || !claim.may_acquire {
                return refuse(ClaimOutcome::Indeterminate);
            }
            let ended = (*by, *claimed_at, AttemptEnd::Indeterminate);
            take_over(record, claim, GrantKind::ReconcileRequired, ended, now)
        }
        State::Claimed(claimed) if claimed.owner == claim.owner && claim.may_acquire => {
            resume(record, claimed, claim, now)
        }
        State::Claimed(claimed) if claimed.owner == claim.owner || claimed.is_live(now) => {
            refuse(in_progress(claimed, now))
        }
        State::Claimed(claimed) => {
            let kind = match record.on_owner_lost {
                OnOwnerLost::Block => return refuse(ClaimOutcome::Indeterminate),
                // Whoever was to look first, and was lost, leaves the doubt to the next.
                OnOwnerLost::TakeOver if claimed.kind != GrantKind::ReconcileRequired => {
                    GrantKind::TakenOver
                }
                OnOwnerLost::TakeOver | OnOwnerLost::Reconcile => GrantKind::ReconcileRequired,
            };
            if !claim.may_acquire {
                return refuse(in_progress(claimed, now));
            }
            let ended = (claimed.owner, claimed.claimed_at, AttemptEnd::Lapsed);
            take_over(record, claim, kind, ended, now)
        }
        State::Released { by, .. } if *by == claim.owner => refuse(ClaimOutcome::Released),
        State::Released { .. } if !claim.may_acquire => refuse(nobody_at_work()),
        State::Released { .. } => grant(record.clone(), claim, GrantKind::Claimed, now),
    }
}

fn decide_first(claim: &Claim, fence_floor: u64, now: Timestamp) -> (Change<Record>, ClaimOutcome) {
    if let Some(first_sent) = claim.first_sent {
        if now.since(first_sent) > claim.policy.retention {
            return refuse(ClaimOutcome::Expired);
        }
        if first_sent.since(now) > claim.policy.allowed_skew {
            return refuse(ClaimOutcome::FirstSentInvalid);
        }
    }
    if !claim.may_acquire {
        return refuse(nobody_at_work());
    }
    let record = Record {
        fingerprints: claim.fingerprints.clone(),
        on_owner_lost: claim.on_owner_lost,
        retention: claim.retention.unwrap_or_default().max(claim.policy.retention),
        allowed_skew: claim.policy.allowed_skew,
        first_sent: claim.first_sent,
        labels: claim.labels.clone(),
        created_at: now,
        touched_at: now,
        fence: fence_floor.max(now.as_micros()),
        attempts: 0,
        history: Vec::new(),
        checkpoint: None,
        state: State::Claimed(claimed_by(claim, GrantKind::Claimed, now)),
        audit: Vec::new(),
    };
    grant(record, claim, GrantKind::Claimed, now)
}

fn claimed_by(claim: &Claim, kind: GrantKind, now: Timestamp) -> Claimed {
    let expires_at = now.after(claim.lease);
    Claimed { owner: claim.owner, kind, claimed_at: now, expires_at, renewal: 0 }
}

/// The same owner asks again: its first reply was lost. It is alive, so its lease starts anew.
fn resume(
    record: &Record,
    claimed: &Claimed,
    claim: &Claim,
    now: Timestamp,
) -> (Change<Record>, ClaimOutcome) {
    let expires_at = claimed.expires_at.max(now.after(claim.lease));
    let mut resumed = record.clone();
    resumed.state = State::Claimed(Claimed { expires_at, ..claimed.clone() });
    if expires_at != claimed.expires_at {
        resumed.touched_at = now;
    }
    let outcome = granted(&resumed, claimed.kind, true, expires_at, now);
    (Change::put_if_changed(record, resumed), outcome)
}

fn take_over(
    record: &Record,
    claim: &Claim,
    kind: GrantKind,
    (owner, claimed_at, end): (OwnerId, Timestamp, AttemptEnd),
    now: Timestamp,
) -> (Change<Record>, ClaimOutcome) {
    let mut record = record.clone();
    record.remember(Attempt { fence: record.fence, owner, claimed_at, ended_at: now, end });
    record.fence = record.fence.saturating_add(1);
    grant(record, claim, kind, now)
}

fn grant(
    mut record: Record,
    claim: &Claim,
    kind: GrantKind,
    now: Timestamp,
) -> (Change<Record>, ClaimOutcome) {
    let claimed = claimed_by(claim, kind, now);
    let expires_at = claimed.expires_at;
    record.state = State::Claimed(claimed);
    record.attempts = record.attempts.saturating_add(1);
    record.touched_at = now;
    let outcome = granted(&record, kind, false, expires_at, now);
    (Change::Put(record), outcome)
}

fn granted(
    record: &Record,
    kind: GrantKind,
    resumed: bool,
    expires_at: Timestamp,
    now: Timestamp,
) -> ClaimOutcome {
    ClaimOutcome::Granted(Box::new(Grant {
        kind,
        resumed,
        fence: record.fence,
        lease: expires_at.since(now),
        expires_at,
        attempt: record.attempts,
        checkpoint: record.checkpoint.clone(),
        history: record.history.clone(),
    }))
}

fn in_progress(claimed: &Claimed, now: Timestamp) -> ClaimOutcome {
    ClaimOutcome::InProgress(InProgress {
        lease_left: claimed.expires_at.since(now).max(Duration::from_micros(1)),
        held_for: now.since(claimed.claimed_at),
    })
}

/// For a caller who may only look: there is no claim to wait for, and none for it.
fn nobody_at_work() -> ClaimOutcome {
    ClaimOutcome::InProgress(InProgress { lease_left: SHORTEST_HINT, held_for: SHORTEST_HINT })
}

fn refuse(outcome: ClaimOutcome) -> (Change<Record>, ClaimOutcome) {
    (Change::Keep, outcome)
}
