//! The one place of the command where elapsed time is read.

use std::time::{Duration, Instant};

/// A point in time to measure from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts to measure.
    #[allow(clippy::disallowed_methods, reason = "this is where elapsed time is read")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// How long it has been.
    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }

    /// How long it has been, in whole milliseconds.
    pub(crate) fn elapsed_ms(self) -> u64 {
        u64::try_from(self.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
