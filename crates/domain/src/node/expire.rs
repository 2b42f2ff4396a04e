//! The rule of records that may go: those of nodes that have been gone for a while.

use super::record::{Record, is_forgotten};
use crate::Change;
use crate::time::Timestamp;

pub(super) fn decide(record: Option<&Record>, now: Timestamp) -> (Change<Record>, bool) {
    match record {
        Some(record) if is_forgotten(record, now) => (Change::Delete, true),
        _ => (Change::Keep, false),
    }
}
