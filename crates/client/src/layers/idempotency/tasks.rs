//! Requests that are handled to their end, whether or not somebody still waits for the answer.

use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::problem::{PAUSE, Problem};
use crate::deadline::Deadline;
use crate::layers::Criticality;
use crate::root::Root;

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

    /// A place for one of them.
    pub(super) fn place(&self) -> Result<Place, Problem> {
        let permit = Arc::clone(&self.places).try_acquire_owned().map_err(|_| Problem::Full)?;
        Ok(Place { tracker: self.tracker.clone(), permit })
    }
}

/// A place where a request is handled.
pub(super) struct Place {
    tracker: TaskTracker,
    permit: OwnedSemaphorePermit,
}

impl Place {
    /// Runs it to its end, for the same root and as critical; whoever drops this future, or waits only up to `until`, only stops
    /// waiting. A panic goes through to whoever waits.
    pub(super) async fn run<F>(self, work: F, until: Option<Deadline>) -> Result<F::Output, Problem>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let Self { tracker, permit } = self;
        let task: BoxFuture<'static, _> = Box::pin(async move {
            let _permit = permit;
            work.await
        });
        let task = match Criticality::current() {
            Some(criticality) => Box::pin(criticality.scope(task)),
            None => task,
        };
        let task = match Root::current() {
            Some(root) => tracker.spawn(root.scope(task)),
            None => tracker.spawn(task),
        };
        let ended = match until {
            Some(until) => match timeout(until.left(), task).await {
                Ok(ended) => ended,
                Err(_) => return Err(Problem::InProgress(PAUSE)),
            },
            None => task.await,
        };
        ended.map_err(|error| match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends.
            Err(_) => Problem::Unknown,
        })
    }
}
