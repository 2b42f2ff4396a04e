//! The rule of heartbeats.

use super::command::Heartbeat;
use super::outcome::HeartbeatOutcome;
use super::record::Record;
use crate::Change;
use crate::time::Timestamp;

pub(super) fn decide(
    record: Option<&Record>,
    heartbeat: &Heartbeat,
    now: Timestamp,
) -> (Change<Record>, HeartbeatOutcome) {
    if record.is_some_and(|record| heartbeat.seq <= record.seq) {
        return (Change::Keep, HeartbeatOutcome::Repeated);
    }
    let (started_at, outcome) = match record {
        Some(record) => (record.started_at, HeartbeatOutcome::Noted),
        None => (now.before(heartbeat.up_for), HeartbeatOutcome::Joined),
    };
    let record = Record {
        touched_at: now,
        started_at,
        seq: heartbeat.seq,
        interval: heartbeat.interval,
        version: heartbeat.version.clone(),
        address: heartbeat.address.clone(),
        formats: heartbeat.formats.clone(),
        load: heartbeat.load,
        clock: heartbeat.clock,
    };
    (Change::Put(record), outcome)
}
