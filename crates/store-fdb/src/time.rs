//! The store's time: the fleet's, which never goes back here.
//!
//! Invariants: no transition is given a time before one that any transition of this process was given,
//! nor, after a reopening, before the time of any commit: the newest time is written in each commit
//! (its marker) and in each stamp, and is a floor from the opening on.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use semel_store::Clock;

/// The own clock, what it is off by, and the floor of this process.
pub(crate) struct Time {
    clock: Arc<dyn Clock>,
    offset_us: AtomicI64,
    floor_us: AtomicU64,
}

impl Time {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, offset_us: AtomicI64::new(0), floor_us: AtomicU64::new(0) }
    }

    /// The time to decide by.
    pub(crate) fn now_us(&self) -> u64 {
        let offset_us = self.offset_us.load(Ordering::SeqCst);
        let now_us = self.clock.now_us().saturating_add_signed(offset_us);
        self.floor_us.fetch_max(now_us, Ordering::SeqCst).max(now_us)
    }

    /// The newest time that was given, or found when the store was opened.
    pub(crate) fn latest_us(&self) -> u64 {
        self.floor_us.load(Ordering::SeqCst)
    }

    /// Takes a time that somebody was given before.
    pub(crate) fn raise(&self, newest_us: u64) {
        self.floor_us.fetch_max(newest_us, Ordering::SeqCst);
    }

    /// Takes how far the fleet is ahead of the own clock.
    pub(crate) fn correct(&self, offset_us: i64) {
        self.offset_us.store(offset_us, Ordering::SeqCst);
    }

    /// What the own clock says, right or wrong.
    pub(crate) fn own_us(&self) -> u64 {
        self.clock.now_us()
    }

    /// Microseconds since some moment of this process.
    pub(crate) fn monotonic_us(&self) -> u64 {
        self.clock.monotonic_us()
    }
}

#[cfg(test)]
mod tests {
    use semel_store::ManualClock;

    use super::*;

    #[test]
    fn time_follows_the_fleet_and_never_goes_back() {
        let clock = ManualClock::new(1_000);
        let time = Time::new(Arc::new(clock.clone()));
        assert_eq!(time.now_us(), 1_000);
        time.correct(-600);
        assert_eq!((time.now_us(), time.own_us()), (1_000, 1_000));
        clock.advance_us(700);
        assert_eq!(time.now_us(), 1_100);
        clock.set_us(10);
        assert_eq!((time.now_us(), time.latest_us()), (1_100, 1_100));
        time.raise(5_000);
        assert_eq!(time.now_us(), 5_000);
    }
}
