//! Time as a value that is handed in.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

/// A source of time: the wall clock's, and one that only goes forward.
pub trait Clock: Send + Sync + 'static {
    /// Microseconds since the Unix epoch. May step backwards; whoever needs it not to, keeps a
    /// floor.
    fn now_us(&self) -> u64;

    /// Microseconds since some moment of this process. Never steps, whatever happens to the wall
    /// clock: what a lease or a pause is measured with.
    fn monotonic_us(&self) -> u64;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now_us(&self) -> u64 {
        (**self).now_us()
    }

    fn monotonic_us(&self) -> u64 {
        (**self).monotonic_us()
    }
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "the one place where the machine's clock is read")]
    fn now_us(&self) -> u64 {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }

    fn monotonic_us(&self) -> u64 {
        u64::try_from(FIRST_ASKED.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

#[allow(clippy::disallowed_methods, reason = "the one place where the machine's clock is read")]
static FIRST_ASKED: LazyLock<Instant> = LazyLock::new(Instant::now);

/// A clock that stands still until it is moved: for tests and simulations.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Moved>);

#[derive(Debug)]
struct Moved {
    wall_us: AtomicU64,
    monotonic_us: AtomicU64,
}

impl ManualClock {
    /// Starts at `now_us` microseconds since the Unix epoch.
    #[must_use]
    pub fn new(now_us: u64) -> Self {
        Self(Arc::new(Moved { wall_us: now_us.into(), monotonic_us: 0.into() }))
    }

    /// Sets the wall clock to `now_us`, forwards or backwards; the monotonic clock does not move.
    pub fn set_us(&self, now_us: u64) {
        self.0.wall_us.store(now_us, Ordering::SeqCst);
    }

    /// Lets time pass, on both clocks.
    pub fn advance_us(&self, by_us: u64) {
        self.0.wall_us.fetch_add(by_us, Ordering::SeqCst);
        self.0.monotonic_us.fetch_add(by_us, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_us(&self) -> u64 {
        self.0.wall_us.load(Ordering::SeqCst)
    }

    fn monotonic_us(&self) -> u64 {
        self.0.monotonic_us.load(Ordering::SeqCst)
    }
}
