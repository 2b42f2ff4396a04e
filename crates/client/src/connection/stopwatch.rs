//! How long something has taken, counted as deadlines are.

use std::time::Duration;

use crate::deadline::Deadline;

/// Longer than anything that is measured here.
const SPAN: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// Started once, read often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Deadline);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(Deadline::within(SPAN))
    }

    pub(crate) fn elapsed(self) -> Duration {
        SPAN.saturating_sub(self.0.left())
    }

    /// The moment so long after the start.
    pub(crate) fn end_of(self, span: Duration) -> Deadline {
        Deadline::within(span.saturating_sub(self.elapsed()))
    }
}
