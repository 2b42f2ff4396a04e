//! The end of an operation's time, as a value that is handed on.
//!
//! It is counted on Tokio's monotonic clock, so that no step of the wall clock moves it, and paused time
//! in tests does. It never crosses a process: a call carries what is left of it.

use std::time::Duration;

use tokio::time::Instant;

/// So far off that it never comes; further would not fit every clock.
const NEVER: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// The moment at which an operation has to be over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Instant);

impl Deadline {
    /// The moment so far from now. What lies beyond thirty years is taken for thirty years.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the one place where deadlines read the clock")]
    pub fn within(left: Duration) -> Self {
        Self(Instant::now() + left.min(NEVER))
    }

    /// What is left; zero once it is past.
    #[must_use]
    pub fn left(&self) -> Duration {
        self.0.saturating_duration_since(Self::within(Duration::ZERO).0)
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_past(&self) -> bool {
        self.left().is_zero()
    }

    /// The nearer of this one and the moment so far from now.
    #[must_use]
    pub fn earlier(&self, left: Duration) -> Self {
        (*self).min(Self::within(left))
    }
}
