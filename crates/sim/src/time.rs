//! Virtual time, and the clocks that follow it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use semel_store::Clock;
use tokio::time::Instant;

/// When every run begins, in microseconds since the Unix epoch: noon of the first day of 2027.
pub(crate) const BEGINNING_US: u64 = 1_798_804_800_000_000;

/// The time of one run: it stands still while anybody has something to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SimTime(Instant);

impl SimTime {
    /// Begins now. Called inside a paused runtime.
    #[allow(clippy::disallowed_methods, reason = "the one place where virtual time is read")]
    pub(crate) fn begin() -> Self {
        Self(Instant::now())
    }

    /// Microseconds since the run began.
    pub(crate) fn now_us(self) -> u64 {
        u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Waits until so long after the beginning.
    pub(crate) async fn until(self, since_beginning: Duration) {
        tokio::time::sleep_until(self.0 + since_beginning).await;
    }
}

/// A machine's clock: the wall may be wrong and may step, the monotonic one only goes forward.
#[derive(Clone, Debug)]
pub(crate) struct SimClock {
    time: SimTime,
    off_us: Arc<AtomicI64>,
}

impl SimClock {
    /// A clock that is right, as a database's is taken to be.
    pub(crate) fn new(time: SimTime) -> Self {
        Self { time, off_us: Arc::default() }
    }

    /// Steps the wall clock to be off by so many microseconds, fast if above zero.
    pub(crate) fn set_off_us(&self, off_us: i64) {
        self.off_us.store(off_us, Ordering::Relaxed);
    }
}

impl Clock for SimClock {
    fn now_us(&self) -> u64 {
        let right = BEGINNING_US.saturating_add(self.time.now_us());
        right.saturating_add_signed(self.off_us.load(Ordering::Relaxed))
    }

    fn monotonic_us(&self) -> u64 {
        self.time.now_us()
    }
}
