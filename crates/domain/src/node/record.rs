//! What is stored of a node. Its id is its address, not part of it.

use std::time::Duration;

use super::skew::ClockSample;
use crate::limits::{NODE_BEATS_MISSED_MAX, NODE_FORGOTTEN_AFTER};
use crate::time::Timestamp;

/// A node: 16 random bytes, new at each of its starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub [u8; 16]);

/// A node's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// When its last heartbeat came, by the store's clock. Never goes back.
    pub touched_at: Timestamp,
    /// When it started, by the store's clock.
    pub started_at: Timestamp,
    /// The number of its last heartbeat.
    pub seq: u64,
    /// How often it means to send one.
    pub interval: Duration,
    /// The version of its program: at most 64 bytes.
    pub version: Box<str>,
    /// Where it says that it can be reached: at most 255 bytes.
    pub address: Box<str>,
    /// The stored formats that it knows, by the name of their record: at most 32.
    pub formats: Vec<Format>,
    /// What it had to do.
    pub load: Load,
    /// How far its clock was off when that was last measured; absent: not yet.
    pub clock: Option<ClockSample>,
}

/// A kind of stored record, and the versions of it that a node knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// What is stored so, e.g. `breaker`: at most 32 bytes.
    pub record: Box<str>,
    /// The oldest version that it reads.
    pub reads_from: u8,
    /// The newest version that it reads.
    pub reads_to: u8,
    /// The version that it writes.
    pub writes: u8,
}

/// What a node has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Open connections.
    pub connections: u32,
    /// Calls that are not answered yet.
    pub calls_under_way: u32,
    /// Calls a second that arrived since the heartbeat before, rounded.
    pub calls_per_second: u32,
}

/// Whether a node whose record this is counts as live at `now`: it did not miss three heartbeats.
#[must_use]
pub fn is_live(record: &Record, now: Timestamp) -> bool {
    now.since(record.touched_at) <= allowance(record)
}

/// Whether a node is gone for so long that its record may go.
pub(super) fn is_forgotten(record: &Record, now: Timestamp) -> bool {
    let after = allowance(record).saturating_add(NODE_FORGOTTEN_AFTER);
    now.since(record.touched_at) > after
}

fn allowance(record: &Record) -> Duration {
    record.interval.saturating_mul(NODE_BEATS_MISSED_MAX)
}
