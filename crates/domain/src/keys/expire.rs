//! The rule of the sweeper: what has outlived its retention goes, and nothing else.

use super::record::Record;
use crate::Change;
use crate::time::Timestamp;

/// Decides on the record that is there now, which may be another than the one that the sweeper saw.
pub(super) fn decide(record: Option<&Record>, now: Timestamp) -> (Change<Record>, bool) {
    match record {
        Some(record) if record.is_expired(now) => (Change::Delete, true),
        _ => (Change::Keep, false),
    }
}
