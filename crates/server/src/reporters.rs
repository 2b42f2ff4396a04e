//! Which reports were counted already: the newest sequence number of each reporter.
//!
//! A report counts once: a repeated one is recognised, and one that comes after a newer one is
//! forfeited. A reporter is forgotten only after it was silent for [`FORGET_AFTER`], longer than any
//! report is under way; while there is no room, new reporters are not counted. Both err on the side of
//! counting too little.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use foldhash::quality::RandomState;
use semel_domain::time::micros;
use tokio::sync::{Semaphore, SemaphorePermit};

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
    seen: HashMap<K, Seen, RandomState>,
    most: usize,
    room: Arc<Semaphore>,
    searched_us: u64,
}

impl<K> Drop for Reporters<K> {
    fn drop(&mut self) {
        self.room.add_permits(self.seen.len());
    }
}

impl<K: Eq + Hash> Reporters<K> {
    /// Follows at most `most` reporters, each in a place of `room`.
    pub(crate) fn new(most: usize, room: Arc<Semaphore>) -> Self {
        Self { seen: HashMap::default(), most, room, searched_us: 0 }
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
        if !self.take_place() {
            self.forget_silent(now_us);
            if !self.take_place() {
                return Admission::Full;
            }
        }
        self.seen.insert(reporter, Seen { seq, at_us: now_us });
        Admission::New
    }

    fn take_place(&self) -> bool {
        self.seen.len() < self.most && self.room.try_acquire().map(SemaphorePermit::forget).is_ok()
    }

    /// Forgets those that have been silent for long.
    fn forget_silent(&mut self, now_us: u64) {
        if now_us.saturating_sub(self.searched_us) < micros(SEARCH_INTERVAL) {
            return;
        }
        self.searched_us = now_us;
        let before = self.seen.len();
        self.seen.retain(|_, seen| now_us.saturating_sub(seen.at_us) < micros(FORGET_AFTER));
        self.room.add_permits(before - self.seen.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_counts_once_and_never_after_a_newer_one() {
        let mut reporters = Reporters::new(2, Arc::new(Semaphore::new(9)));
        assert_eq!(reporters.admit("a", 1, 0), Admission::New);
        assert_eq!(reporters.admit("a", 1, 1), Admission::Repeated);
        assert_eq!(reporters.admit("a", 5, 2), Admission::New);
        assert_eq!(reporters.admit("a", 4, 3), Admission::Stale);
        assert_eq!(reporters.admit("a", 5, 4), Admission::Repeated);
    }

    #[test]
    fn no_reporter_is_forgotten_while_it_may_repeat_itself() {
        let mut reporters = Reporters::new(1, Arc::new(Semaphore::new(9)));
        let minute = 60_000_000;
        assert_eq!(reporters.admit("a", 1, 100 * minute), Admission::New);
        assert_eq!(reporters.admit("b", 1, 105 * minute), Admission::Full);
        assert_eq!(reporters.admit("b", 1, 111 * minute), Admission::New);
        assert_eq!(reporters.admit("a", 2, 111 * minute), Admission::Full);
    }

    #[test]
    fn the_reporters_of_many_scopes_have_one_bound_together() {
        let room = Arc::new(Semaphore::new(2));
        let mut scopes = [0; 3].map(|_| Reporters::new(9, Arc::clone(&room)));
        let minute = 60_000_000;
        let admissions = scopes.each_mut().map(|scope| scope.admit("a", 1, minute));
        assert_eq!(admissions, [Admission::New, Admission::New, Admission::Full]);
        let [first, second, mut third] = scopes;
        drop(first);
        assert_eq!(third.admit("a", 2, 2 * minute), Admission::New);
        assert_eq!(third.admit("b", 1, 2 * minute), Admission::Full);
        assert_eq!(third.admit("b", 1, 20 * minute), Admission::New, "in the place of \"a\"");
        drop((second, third));
        assert_eq!(room.available_permits(), 2);
    }
}
