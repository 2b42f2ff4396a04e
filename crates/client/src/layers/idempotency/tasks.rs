//! Requests that are handled to their end, whether or not somebody still waits for the answer.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use super::problem::Problem;

/// Where such requests are handled. Their owner closes the tracker, and waits for it.
#[derive(Clone, Debug)]
pub(super) struct Tasks {
    tracker: TaskTracker,
    places: Arc<Semaphore>,
}

impl Tasks {
    pub(super) fn new(tracker: TaskTracker, at_most: usize) -> Self {
        let places = at_most.min(Semaphore::MAX_PERMITS);
        Self { tracker, places: Arc::new(Semaphore::new(places)) }
    }

    /// Runs it to its end; whoever drops this future only stops waiting. A panic goes through to whoever
    /// waits.
    pub(super) async fn run<F>(&self, work: F) -> Result<F::Output, Problem>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| Problem::Full)?;
        let task = self.tracker.spawn(async move {
            let _place = place;
            work.await
        });
        task.await.map_err(|error| match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends.
            Err(_) => Problem::Unknown,
        })
    }
}
