//! Whether a commit happened of which the database could not tell.
//!
//! Each transaction that writes sets a marker that no other one ever sets, and declares that it read it
//! absent. Whoever does not know what became of the transaction reads the marker, in a transaction of
//! its own:
//!
//! - it is set by the attempt: it was committed;
//! - it is forbidden: the attempt was not committed and never will be, since it would have to have read
//!   the marker absent;
//! - it is absent: it is set to be forbidden. Once *that* is committed, the attempt can never be any
//!   more. If that conflicts, the attempt was committed meanwhile; if its result is unknown, the next
//!   look tells.
//!
//! So the answer is exact, even if others changed the record since. Markers of nodes that are gone for a
//! day are removed, and a node that was only suspended so long may come back: so what is absent says
//! nothing about an attempt of more than an hour ago.
//!
//! Invariants: markers of one slot belong to attempts that follow each other, and the next attempt is
//! not made before the last one is settled, or given up as unknown; it removes the markers before its
//! own, so a slot has one or two.

/// What a marker says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marker {
    /// The attempt was committed, and up to this time (µs since the epoch) its node had decided.
    Committed(u64),
    /// The attempt must not be committed any more.
    Forbidden,
}

/// What is known of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It was committed.
    Committed,
    /// It was not, and never will be.
    Void,
    /// It may still be, unless it is forbidden first.
    Open,
    /// Nobody can tell any more: its marker may have been removed.
    Forgotten,
}

/// What the marker of an attempt says about it, found `age` versions after what the attempt had read;
/// `None`: there is none.
pub(crate) fn verdict(found: Option<Marker>, age: i64) -> Verdict {
    /// In versions, of which a second has a million. Far less than after what time markers are removed.
    const HOUR: i64 = 3_600_000_000;
    match found {
        None if age > HOUR => Verdict::Forgotten,
        Some(Marker::Committed(_)) => Verdict::Committed,
        Some(Marker::Forbidden) => Verdict::Void,
        None => Verdict::Open,
    }
}

const COMMITTED: u8 = 1;
const FORBIDDEN: u8 = 2;

impl Marker {
    pub(crate) fn encode(self) -> Vec<u8> {
        match self {
            Self::Committed(newest_us) => {
                let mut bytes = vec![COMMITTED];
                bytes.extend_from_slice(&newest_us.to_le_bytes());
                bytes
            }
            Self::Forbidden => vec![FORBIDDEN],
        }
    }

    pub(crate) fn decode(stored: &[u8]) -> Result<Self, String> {
        match stored {
            [COMMITTED, newest_us @ ..] => newest_us
                .try_into()
                .map(|bytes| Self::Committed(u64::from_le_bytes(bytes)))
                .map_err(|_| "the time of a commit can't be read".to_owned()),
            [FORBIDDEN] => Ok(Self::Forbidden),
            _ => Err("the marker of a commit can't be read".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_tells_what_became_of_its_attempt() {
        let table = [
            (None, 0, Verdict::Open),
            (None, 3_600_000_000, Verdict::Open),
            (None, 3_600_000_001, Verdict::Forgotten),
            (None, i64::MAX, Verdict::Forgotten),
            (Some(Marker::Committed(0)), 0, Verdict::Committed),
            (Some(Marker::Committed(u64::MAX)), i64::MAX, Verdict::Committed),
            (Some(Marker::Forbidden), i64::MAX, Verdict::Void),
        ];
        for (found, age, expected) in table {
            assert_eq!(verdict(found, age), expected, "{found:?} after {age}");
        }
    }

    /// What is stored once must be read for ever.
    #[test]
    fn markers_are_what_they_always_were() {
        let table: [(_, &[u8]); 2] = [
            (Marker::Committed(0x0102), b"\x01\x02\x01\0\0\0\0\0\0"),
            (Marker::Forbidden, b"\x02"),
        ];
        for (marker, stored) in table {
            assert_eq!(marker.encode(), stored);
            assert_eq!(Marker::decode(stored), Ok(marker));
        }
        for wrong in [&b""[..], b"\x01", b"\x01\x02\x01\0\0\0\0\0", b"\x02\0", b"\x03"] {
            assert!(Marker::decode(wrong).is_err(), "{wrong:?}");
        }
    }

    /// Every order in which one attempt and those who settle it can be committed, one after the other:
    /// the answer is always what happened, and it happens at most once.
    #[test]
    fn whatever_comes_first_the_answer_is_what_happened() {
        // Who commits when: the attempt at one of these moments, or never. Between each two, somebody
        // looks and tries to forbid; what that looked at may be outdated when it is committed.
        for committed_at in [None, Some(0), Some(1), Some(2), Some(3)] {
            let mut marker = None;
            let mut answer = None;
            for moment in 0..4 {
                let looked_at = marker;
                // The attempt read the marker absent, so it conflicts with any that is there.
                if committed_at == Some(moment) && marker.is_none() {
                    marker = Some(Marker::Committed(0));
                }
                match verdict(looked_at, 0) {
                    // It conflicts with a marker that came since.
                    Verdict::Open if marker.is_none() => {
                        marker = Some(Marker::Forbidden);
                        answer.get_or_insert(false);
                    }
                    Verdict::Open => {}
                    Verdict::Committed => assert!(*answer.get_or_insert(true)),
                    Verdict::Void => assert!(!*answer.get_or_insert(false)),
                    Verdict::Forgotten => panic!("it is young"),
                }
            }
            let happened = matches!(marker, Some(Marker::Committed(_)));
            assert_eq!(answer, Some(happened), "{committed_at:?}");
        }
    }
}
