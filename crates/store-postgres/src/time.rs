//! The store's time: the database's clock, which never goes back here.
//!
//! Invariants: no transition is given a time before one that any transition of this process was given,
//! nor, after a reopening, before the time of any commit: the newest time is written in each commit
//! (table `times`) and is a floor from each new connection on.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use semel_store::Clock;

/// The floor of this process, and how far the node's own clock is off.
pub(crate) struct Time {
    floor_us: AtomicU64,
    offset_us: AtomicI64,
    clock: Arc<dyn Clock>,
}

impl Time {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { floor_us: AtomicU64::new(0), offset_us: AtomicI64::new(0), clock }
    }

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

    /// The node's clocks before a probe: the wall clock and the one that never steps.
    pub(crate) fn begin_probe(&self) -> (u64, u64) {
        (self.clock.now_us(), self.clock.monotonic_us())
    }

    /// Takes the answer of a probe: the database read its clock about half-way.
    pub(crate) fn end_probe(&self, (began_us, began): (u64, u64), database_us: i64) {
        let half_us = self.clock.monotonic_us().saturating_sub(began) / 2;
        let node_us = i64::try_from(began_us.saturating_add(half_us)).unwrap_or(i64::MAX);
        self.offset_us.store(database_us.saturating_sub(node_us), Ordering::SeqCst);
    }

    /// The database's clock minus the node's, when they were last compared.
    pub(crate) fn offset_us(&self) -> i64 {
        self.offset_us.load(Ordering::SeqCst)
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
    fn time_never_goes_back() {
        let time = Time::new(Arc::new(ManualClock::new(0)));
        assert_eq!(time.pass(10), 10);
        assert_eq!(time.pass(7), 10);
        assert_eq!(time.pass(-1), 10);
        assert_eq!(time.pass(11), 11);
    }

    #[test]
    fn the_offset_is_measured_half_way() {
        let clock = ManualClock::new(1_000);
        let time = Time::new(Arc::new(clock.clone()));
        let began = time.begin_probe();
        clock.advance_us(200);
        time.end_probe(began, 5_100);
        assert_eq!(time.offset_us(), 4_000);
        time.end_probe(time.begin_probe(), 1_000);
        assert_eq!(time.offset_us(), -200);
    }
}
