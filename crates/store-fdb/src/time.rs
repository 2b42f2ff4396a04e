//! The store's time: the fleet's, which never goes back here.
//!
//! Between two agreements of the fleet it goes by the monotonic clock: a step of the wall clock counts only once the
//! fleet has judged it, so no node runs ahead of the others with it.
//!
//! Invariants: no transition is given a time before one that any transition of this process was given,
//! nor, after a reopening, before the time of any commit: the newest time is written in each commit
//! (its marker) and in each stamp, and is a floor from the opening on.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use semel_store::Clock;

/// The own clocks, and the floor of this process.
pub(crate) struct Time {
    clock: Arc<dyn Clock>,
    /// How far the fleet's time is ahead of the monotonic clock.
    ahead_us: AtomicI64,
    floor_us: AtomicU64,
}

impl Time {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let ahead_us = AtomicI64::new(ahead_us(&*clock));
        Self { clock, ahead_us, floor_us: AtomicU64::new(0) }
    }

    /// The time to decide by.
    pub(crate) fn now_us(&self) -> u64 {
        let ahead_us = self.ahead_us.load(Ordering::SeqCst);
        let now_us = self.clock.monotonic_us().saturating_add_signed(ahead_us);
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

    /// Takes how far the fleet is ahead of the own wall clock, as it stands.
    pub(crate) fn correct(&self, offset_us: i64) {
        let ahead_us = ahead_us(&*self.clock).saturating_add(offset_us);
        self.ahead_us.store(ahead_us, Ordering::SeqCst);
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

/// How far the wall clock is ahead of the monotonic one.
fn ahead_us(clock: &dyn Clock) -> i64 {
    let signed = |micros: u64| i64::try_from(micros).unwrap_or(i64::MAX);
    signed(clock.now_us()).saturating_sub(signed(clock.monotonic_us()))
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

    #[test]
    fn a_step_of_the_own_clock_counts_once_the_fleet_says_so() {
        let clock = ManualClock::new(1_000);
        let time = Time::new(Arc::new(clock.clone()));
        clock.set_us(9_000);
        clock.advance_us(5);
        assert_eq!((time.now_us(), time.own_us()), (1_005, 9_005));
        time.correct(-8_000);
        assert_eq!(time.now_us(), 1_005);
        time.correct(0);
        assert_eq!(time.now_us(), 9_005);
    }
}
