//! Whether this node's clock can be believed.
//!
//! Each heartbeat measures it against the store's. While it is off by more than the allowed skew for
//! certain, this node holds back from all that its clock has a part in. What lives on the store's time
//! alone goes on: completing, renewing, releasing, budgets, breakers.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use semel_domain::node::ClockSample;
use semel_domain::time::Timestamp;
use semel_store::Clock;

use crate::refusal::Refusal;

/// What is known of this node's clock, shared by its threads. Until it was measured, it is believed.
pub(crate) struct ClockGuard {
    clock: Arc<dyn Clock>,
    allowed: Duration,
    /// By how much it is ahead, in microseconds; 0 while it is believed.
    off_us: AtomicI64,
}

impl ClockGuard {
    pub(crate) fn new(clock: Arc<dyn Clock>, allowed: Duration) -> Arc<Self> {
        Arc::new(Self { clock, allowed, off_us: AtomicI64::new(0) })
    }

    /// The clock that is guarded.
    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Takes note of a measurement. One that is certain takes the trust away, one that finds the clock
    /// right gives it back, and any other changes nothing.
    pub(crate) fn note(&self, sample: &ClockSample) {
        let (was_off, offset_us) = (self.is_off(), sample.offset_us);
        if sample.is_off(self.allowed) {
            self.off_us.store(offset_us, Ordering::Relaxed);
            if !was_off {
                let allowed_us = self.allowed.as_micros();
                tracing::error!(
                    offset_us,
                    allowed_us,
                    "this node's clock is off: it refuses claims and does not sweep until it is set right"
                );
            }
        } else if was_off && sample.seems_right(self.allowed) {
            self.off_us.store(0, Ordering::Relaxed);
            tracing::info!(offset_us, "this node's clock is right again");
        }
    }

    pub(crate) fn is_off(&self) -> bool {
        self.off_us.load(Ordering::Relaxed) != 0
    }

    /// Refuses what this node's clock has a part in, while that is off.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        if self.is_off() { Err(Refusal::clock_off()) } else { Ok(()) }
    }

    /// The store's time as this node knows it: its own clock, less what that is off.
    pub(crate) fn store_time(&self) -> Timestamp {
        let off_us = self.off_us.load(Ordering::Relaxed);
        Timestamp::from_micros(self.clock.now_us().saturating_sub_signed(off_us))
    }
}

#[cfg(test)]
mod tests {
    use semel_store::ManualClock;

    use super::*;

    fn sample(offset_ms: i64, round_trip_ms: u64) -> ClockSample {
        let round_trip = Duration::from_millis(round_trip_ms);
        ClockSample { offset_us: offset_ms * 1_000, round_trip }
    }

    #[test]
    fn trust_goes_and_comes_back_on_certain_measurements_only() {
        let clock = ManualClock::new(50_000_000);
        let guard = ClockGuard::new(Arc::new(clock), Duration::from_secs(1));
        // Each measurement, and by how much the clock is held to be off after it.
        let story = [
            (sample(1_000, 0), 0),
            (sample(-2_000, 2_000), 0),
            (sample(-2_000, 1_998), -2_000),
            (sample(-9_000, 20_000), -2_000),
            (sample(3_000, 1), 3_000),
            (sample(1_001, 10), 3_000),
            (sample(1_000, 10), 0),
            (sample(1_001, 10), 0),
            (sample(i64::MAX / 1_000, 0), i64::MAX / 1_000),
        ];
        for (sample, off_ms) in story {
            guard.note(&sample);
            assert_eq!(guard.is_off(), off_ms != 0, "{sample:?}");
            assert_eq!(guard.check().is_err(), off_ms != 0, "{sample:?}");
            let right_us = 50_000_000_u64.saturating_sub_signed(off_ms * 1_000);
            assert_eq!(guard.store_time().as_micros(), right_us, "{sample:?}");
        }
    }
}
