//! Time as a value that is handed in.

use std::sync::LazyLock;
use std::time::Instant;

/// A clock that only goes forward: what leases are counted on.
pub trait Clock: Send + Sync + 'static {
    /// Microseconds since some moment of this process. Never steps, whatever happens to the wall clock.
    fn monotonic_us(&self) -> u64;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn monotonic_us(&self) -> u64 {
        u64::try_from(FIRST_ASKED.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

#[allow(clippy::disallowed_methods, reason = "the one place where the machine's clock is read")]
static FIRST_ASKED: LazyLock<Instant> = LazyLock::new(Instant::now);
