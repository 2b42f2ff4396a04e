//! Which reports were counted already: the newest sequence number of each reporter.
//!
//! A report counts once: a repeated one is recognised, and one that comes after a newer one is
//! forfeited. A reporter is forgotten only after it was silent for [`FORGET_AFTER`], longer than any
//! report is under way; while there is no room, new reporters are not counted. Both err on the side of
//! counting too little.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use semel_domain::time::micros;

/// A reporter that was silent for this long is forgotten when its place is needed.
const FORGET_AFTER: Duration = Duration::from_secs(600);
/// The least time between two searches for silent reporters: a search looks at all of them.
const SEARCH_INTERVAL: Duration = Duration::from_secs(10);

/// What a report is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// New: it counts.
    New,
    /// Counted before.
    Repeated,
    /// Older than one that was counted: forfeited.
    Stale,
    /// There is no room to follow this reporter: forfeited.
    Full,
}

impl Admission {
    /// Whether the report counts, now or since before.
    pub(crate) const fn is_counted(self) -> bool {
        matches!(self, Self::New | Self::Repeated)
    }
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    seq: u64,
    at_us: u64,
}

/// The reporters of one scope.
#[derive(Debug)]
pub(crate) struct Reporters<K> {
    seen: HashMap<K, Seen>,
    most: usize,
    searched_us: u64,
}

impl<K: Eq + Hash> Reporters<K> {
    /// Follows at most `most` reporters.
    pub(crate) fn new(most: usize) -> Self {
        Self { seen: HashMap::new(), most, searched_us: 0 }
    }

    /// Takes note of report `seq` of `reporter`, at `now_us` of a clock that never goes back.
    pub(crate) fn admit(&mut self, reporter: K, seq: u64, now_us: u64) -> Admission {
        if let Some(seen) = self.seen.get_mut(&reporter) {
            seen.at_us = now_us;
            return match seq.cmp(&seen.seq) {
                std::cmp::Ordering::Less => Admission::Stale,
                std::cmp::Ordering::Equal => Admission::Repeated,
                std::cmp::Ordering::Greater => {
                    seen.seq = seq;
                    Admission::New
                }
            };
        }
        if self.seen.len() >= self.most && !self.forget_silent(now_us) {
            return Admission::Full;
        }
        self.seen.insert(reporter, Seen { seq, at_us: now_us });
        Admission::New
    }

    /// Forgets those that have been silent for long. Whether there is room now.
    fn forget_silent(&mut self, now_us: u64) -> bool {
        if now_us.saturating_sub(self.searched_us) >= micros(SEARCH_INTERVAL) {
            self.searched_us = now_us;
            self.seen.retain(|_, seen| now_us.saturating_sub(seen.at_us) < micros(FORGET_AFTER));
        }
        self.seen.len() < self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_counts_once_and_never_after_a_newer_one() {
        let mut reporters = Reporters::new(2);
        assert_eq!(reporters.admit("a", 1, 0), Admission::New);
        assert_eq!(reporters.admit("a", 1, 1), Admission::Repeated);
        assert_eq!(reporters.admit("a", 5, 2), Admission::New);
        assert_eq!(reporters.admit("a", 4, 3), Admission::Stale);
        assert_eq!(reporters.admit("a", 5, 4), Admission::Repeated);
    }

    #[test]
    fn no_reporter_is_forgotten_while_it_may_repeat_itself() {
        let mut reporters = Reporters::new(1);
        let minute = 60_000_000;
        assert_eq!(reporters.admit("a", 1, 100 * minute), Admission::New);
        assert_eq!(reporters.admit("b", 1, 105 * minute), Admission::Full);
        assert_eq!(reporters.admit("b", 1, 111 * minute), Admission::New);
        assert_eq!(reporters.admit("a", 2, 111 * minute), Admission::Full);
    }
}
