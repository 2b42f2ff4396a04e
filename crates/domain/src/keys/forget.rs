//! The rule of ForgetKey: erasing an answer never means running again.

use std::collections::BTreeMap;

use super::command::Forget;
use super::outcome::ForgetOutcome;
use super::record::{Audit, AuditAction, Record, State};
use crate::Change;
use crate::time::Timestamp;

pub(super) fn decide(
    record: Option<&Record>,
    forget: &Forget,
    now: Timestamp,
) -> (Change<Record>, ForgetOutcome) {
    let Some(record) = record else {
        return (Change::Keep, ForgetOutcome::Unknown);
    };
    match &record.state {
        State::Forgotten { expires_at } => {
            (Change::Keep, ForgetOutcome::Forgotten { already: true, expires_at: *expires_at })
        }
        State::Completed(answer) => {
            let expires_at = answer.expires_at;
            let mut forgotten = record.clone();
            forgotten.state = State::Forgotten { expires_at };
            // Labels are the caller's words and may name a person; a fingerprint does not.
            forgotten.labels = BTreeMap::new();
            forgotten.touched_at = now;
            forgotten.record_act(Audit {
                at: now,
                actor: forget.actor.clone(),
                reason: forget.reason.clone(),
                action: AuditAction::Forget,
            });
            (Change::Put(forgotten), ForgetOutcome::Forgotten { already: false, expires_at })
        }
        _ => (Change::Keep, ForgetOutcome::NotCompleted(record.stage(now))),
    }
}
