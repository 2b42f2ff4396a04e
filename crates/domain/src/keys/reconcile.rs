//! The rule of ReconcileKey: an operator has looked, and settles what is stuck.

use super::command::{Reconcile, Resolution};
use super::outcome::ReconcileOutcome;
use super::record::{AttemptEnd, Audit, AuditAction, OwnerId, Record, State};
use crate::Change;
use crate::time::Timestamp;

pub(super) fn decide(
    record: Option<&Record>,
    reconcile: &Reconcile,
    now: Timestamp,
) -> (Change<Record>, ReconcileOutcome) {
    let Some(record) = record else {
        return (Change::Keep, ReconcileOutcome::Unknown);
    };
    let fenced = (Change::Keep, ReconcileOutcome::Fenced { current: record.fence });
    match &record.state {
        State::Forgotten { .. } => (Change::Keep, ReconcileOutcome::Expired),
        State::Completed(answer) if answer.fence == reconcile.fence => {
            let outcome = match &reconcile.resolution {
                Resolution::Concluded { conclusion, response }
                    if answer.is(*conclusion, response.as_ref()) =>
                {
                    settled(record, true, now)
                }
                _ => ReconcileOutcome::Conflict,
            };
            (Change::Keep, outcome)
        }
        State::Claimed(claimed) if record.fence == reconcile.fence => {
            if claimed.is_live(now) {
                let lease_left = claimed.expires_at.since(now);
                return (Change::Keep, ReconcileOutcome::ClaimLive { lease_left });
            }
            settle(record, reconcile, claimed.owner, claimed.claimed_at, now)
        }
        State::Indeterminate { by, claimed_at, .. } if record.fence == reconcile.fence => {
            settle(record, reconcile, *by, *claimed_at, now)
        }
        _ if reconcile.resolution == Resolution::NotDone
            && record.ended(reconcile.fence, None, AttemptEnd::Reconciled) =>
        {
            (Change::Keep, settled(record, true, now))
        }
        _ => fenced,
    }
}

fn settle(
    record: &Record,
    reconcile: &Reconcile,
    owner: OwnerId,
    claimed_at: Timestamp,
    now: Timestamp,
) -> (Change<Record>, ReconcileOutcome) {
    let mut record = record.clone();
    match &reconcile.resolution {
        Resolution::Concluded { conclusion, response } => {
            record.conclude(*conclusion, response.clone(), owner, now);
        }
        Resolution::NotDone => {
            record.release(owner, claimed_at, AttemptEnd::Reconciled, now);
        }
    }
    record.record_act(Audit {
        at: now,
        actor: reconcile.actor.clone(),
        reason: reconcile.reason.clone(),
        action: AuditAction::Reconcile,
    });
    let outcome = settled(&record, false, now);
    (Change::Put(record), outcome)
}

fn settled(record: &Record, already: bool, now: Timestamp) -> ReconcileOutcome {
    ReconcileOutcome::Settled { already, stage: record.stage(now) }
}
