//! Durations, moments and ids between Rust and the wire.

use std::time::{Duration, SystemTime};

use prost_types::Timestamp;

use crate::connection::Error;

/// A duration for the wire. What is too long for it is too long for every limit: the node says so.
pub(crate) fn to_wire(given: Duration) -> prost_types::Duration {
    let longest = prost_types::Duration { seconds: i64::MAX, nanos: 0 };
    prost_types::Duration::try_from(given).unwrap_or(longest)
}

/// A duration of the wire; nothing if it is negative.
pub(crate) fn duration(given: &prost_types::Duration) -> Duration {
    Duration::try_from(*given).unwrap_or_default()
}

/// A duration that a node may give; nothing if it does not.
pub(crate) fn given(duration: Option<prost_types::Duration>) -> Duration {
    duration.as_ref().map(self::duration).unwrap_or_default()
}

/// In whole milliseconds.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A moment that a node has to give.
pub(crate) fn moment(timestamp: Option<Timestamp>, name: &str) -> Result<SystemTime, Error> {
    perhaps(timestamp).ok_or_else(|| Error::NotUnderstood(format!("{name} is missing")))
}

/// A moment that a node may give.
pub(crate) fn perhaps(timestamp: Option<Timestamp>) -> Option<SystemTime> {
    timestamp.and_then(|timestamp| timestamp.try_into().ok())
}

/// An id or a digest of fixed length.
pub(crate) fn array<const N: usize>(bytes: &[u8], name: &str) -> Result<[u8; N], Error> {
    bytes.try_into().map_err(|_| Error::NotUnderstood(format!("{name} is not {N} bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_wire_can_not_say_is_its_longest_or_nothing() {
        let (day, longest) = (Duration::from_secs(86_400), to_wire(Duration::MAX));
        assert_eq!(duration(&to_wire(day)), day);
        assert_eq!((longest.seconds, longest.nanos), (i64::MAX, 0));
        let negative = prost_types::Duration { seconds: -1, nanos: 0 };
        assert_eq!((duration(&negative), given(Some(negative))), (Duration::ZERO, Duration::ZERO));
        assert_eq!(given(None), Duration::ZERO);
        assert_eq!(millis(Duration::MAX), u64::MAX);
    }
}
