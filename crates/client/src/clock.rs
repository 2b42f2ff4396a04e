//! Time that has passed, on the clock of deadlines: the only one that is read.

use std::time::Duration;

use tokio::time::Instant;

use crate::deadline::{Deadline, now};

/// A clock that only goes forward: what leases and windows are counted on.
pub(crate) trait Clock: Send + Sync + 'static {
    /// Microseconds since some moment. Never steps, whatever happens to the wall clock.
    fn monotonic_us(&self) -> u64;
}

/// Started once, read often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        now().saturating_duration_since(self.0)
    }

    /// The moment so long after the start.
    pub(crate) fn end_of(self, span: Duration) -> Deadline {
        Deadline::within(span.saturating_sub(self.elapsed()))
    }
}

impl Clock for Stopwatch {
    fn monotonic_us(&self) -> u64 {
        u64::try_from(self.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}
