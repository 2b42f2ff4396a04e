//! The store's time: the database's clock, which never goes back here.
//!
//! Invariants: no transition is given a time before one that any transition of this process was given,
//! nor, after a reopening, before the time of any commit: the newest time is written in each commit
//! (table `times`) and is a floor from each new connection on.

use std::sync::atomic::{AtomicU64, Ordering};

/// The floor of this process.
#[derive(Default)]
pub(crate) struct Time {
    floor_us: AtomicU64,
}

impl Time {
    /// Takes what the database's clock says, or what is written as the newest time, and returns the
    /// time to decide by.
    pub(crate) fn pass(&self, database_us: i64) -> u64 {
        let now_us = u64::try_from(database_us).unwrap_or(0);
        self.floor_us.fetch_max(now_us, Ordering::SeqCst).max(now_us)
    }

    /// The newest time that a transition of this process was given.
    pub(crate) fn latest_us(&self) -> i64 {
        i64::try_from(self.floor_us.load(Ordering::SeqCst)).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_never_goes_back() {
        let time = Time::default();
        assert_eq!(time.pass(10), 10);
        assert_eq!(time.pass(7), 10);
        assert_eq!(time.pass(-1), 10);
        assert_eq!(time.pass(11), 11);
    }
}
