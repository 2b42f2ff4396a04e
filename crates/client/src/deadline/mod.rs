//! One deadline for an operation, and for all that it causes.
//!
//! ```
//! use std::time::Duration;
//!
//! use semel_client::Deadline;
//!
//! # async fn call() {}
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let deadline = Deadline::within(Duration::from_secs(2));
//! deadline
//!     .scope(async {
//!         // However deep: each call takes what is left.
//!         let left = Deadline::current().map(Deadline::left);
//!         assert!(left.is_some_and(|left| left <= Duration::from_secs(2)));
//!         call().await;
//!     })
//!     .await;
//! # }
//! ```
//!
//! A deadline only ever becomes earlier on its way down. It travels between processes as the time that is
//! left, not as a moment, so that no two clocks have to agree; see [`wire`].
//!
//! It does not cancel anything by itself: [`DeadlineLayer`](crate::layers::DeadlineLayer) does.

pub mod wire;

use std::future::Future;
use std::time::Duration;

use tokio::task::futures::TaskLocalFuture;
use tokio::time::Instant;

/// So far away that nobody waits for it.
const FAR: Duration = Duration::from_secs(86_400 * 365 * 30);

tokio::task_local! {
    static CURRENT: Deadline;
}

/// The moment at which an operation has to be over. Counted on tokio's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Instant);

impl Deadline {
    /// The deadline of an operation that begins now and may take this long.
    #[must_use]
    pub fn within(limit: Duration) -> Self {
        let now = now();
        Self(now.checked_add(limit).unwrap_or_else(|| now + FAR))
    }

    /// The deadline at this moment.
    #[must_use]
    pub const fn at(moment: Instant) -> Self {
        Self(moment)
    }

    /// The moment.
    #[must_use]
    pub const fn instant(self) -> Instant {
        self.0
    }

    /// How much is left; zero once it is past.
    #[must_use]
    pub fn left(self) -> Duration {
        self.0.saturating_duration_since(now())
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_past(self) -> bool {
        self.left().is_zero()
    }

    /// The earlier of this one and the one of something that begins now and may take this long.
    #[must_use]
    pub fn earlier(self, limit: Duration) -> Self {
        self.min(Self::within(limit))
    }

    /// The deadline of the operation that this code is a part of: that of the innermost [`scope`](Self::scope).
    /// `None` outside of any.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.try_with(|current| *current).ok()
    }

    /// Makes this the current deadline for all that `future` does itself. Tasks that it spawns are told by
    /// hand. An earlier current deadline stays in force.
    pub fn scope<F: Future>(self, future: F) -> Scoped<F> {
        CURRENT.scope(self.within_current(), future)
    }

    /// The same for code that does not wait.
    pub fn sync_scope<T>(self, code: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(self.within_current(), code)
    }

    /// This one, or the current one if that is earlier.
    pub(crate) fn within_current(self) -> Self {
        Self::current().map_or(self, |current| current.min(self))
    }
}

/// A future with a current deadline.
pub type Scoped<F> = TaskLocalFuture<Deadline, F>;

/// The moment on the clock of deadlines and latencies.
#[expect(clippy::disallowed_methods, reason = "the one place where tokio's clock is read")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_deadline_runs_out_and_is_then_past() {
        let deadline = Deadline::within(Duration::from_secs(2));
        tokio::time::advance(Duration::from_millis(1_500)).await;
        assert_eq!(deadline.left(), Duration::from_millis(500));
        assert!(!deadline.is_past());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(deadline.left(), Duration::ZERO);
        assert!(deadline.is_past());
    }

    #[tokio::test(start_paused = true)]
    async fn an_inner_scope_never_ends_later_than_the_outer() {
        assert_eq!(Deadline::current(), None);
        let (short, long) = (Duration::from_secs(1), Duration::from_secs(9));
        let left = || Deadline::current().map(Deadline::left);
        let inner = async { Deadline::within(long).scope(async { left() }).await };
        assert_eq!(Deadline::within(short).scope(inner).await, Some(short));
        let outer = Deadline::within(long);
        assert_eq!(outer.sync_scope(|| outer.earlier(short).sync_scope(left)), Some(short));
        assert_eq!(Deadline::current(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_time_is_no_overflow() {
        assert!(!Deadline::within(Duration::MAX).is_past());
    }
}
