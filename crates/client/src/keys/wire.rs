//! Durations and moments between Rust and the wire.

use std::time::{Duration, SystemTime};

use prost_types::Timestamp;

use crate::connection::Error;

/// What is too long for the wire is too long for every limit: the node says so.
pub(crate) fn duration(given: Duration) -> prost_types::Duration {
    let most = prost_types::Duration { seconds: i64::MAX, nanos: 0 };
    given.try_into().unwrap_or(most)
}

/// A duration that a node gave. It gives no negative ones.
pub(super) fn given(duration: Option<prost_types::Duration>) -> Duration {
    duration.and_then(|duration| duration.try_into().ok()).unwrap_or_default()
}

/// A moment that a node has to give.
pub(super) fn moment(timestamp: Option<Timestamp>, name: &str) -> Result<SystemTime, Error> {
    perhaps(timestamp).ok_or_else(|| Error::NotUnderstood(format!("{name} is missing")))
}

/// A moment that a node may give.
pub(super) fn perhaps(timestamp: Option<Timestamp>) -> Option<SystemTime> {
    timestamp.and_then(|timestamp| timestamp.try_into().ok())
}

/// An id or a digest of fixed length.
pub(super) fn array<const N: usize>(bytes: &[u8], name: &str) -> Result<[u8; N], Error> {
    bytes.try_into().map_err(|_| Error::NotUnderstood(format!("{name} is not {N} bytes")))
}
