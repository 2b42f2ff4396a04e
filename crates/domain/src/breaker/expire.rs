//! The rule of records that may go: those that say no more than none would.

use super::absorb::is_forgotten;
use super::record::Record;
use crate::Change;
use crate::time::Timestamp;

pub(super) fn decide(record: Option<&Record>, now: Timestamp) -> (Change<Record>, bool) {
    match record {
        Some(record) if is_idle(record, now) => (Change::Delete, true),
        _ => (Change::Keep, false),
    }
}

/// It never left its first state, nobody set anything, nothing is in its window, and no node could
/// bring again what it counted.
fn is_idle(record: &Record, now: Timestamp) -> bool {
    record.generation == 0
        && record.policy.is_none()
        && record.force.is_none()
        && record.window.is_empty(&record.policy(), now)
        && record.nodes.iter().all(|seen| is_forgotten(seen, now))
}
