//! Calls of one serving thread become batches of the store.
//!
//! Batches form by themselves: while one is under way, the calls that arrive make up the next. No
//! timer holds a call back, so a lone call goes at once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use semel_store::{Clock, Store, StoreError, Transition, Update};
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

/// The most calls in one batch.
const BATCH_MAX: usize = 512;
/// Batches under way at once: one being synced, one being read.
const UNDER_WAY_MAX: usize = 2;

/// Whether a call may be refused when too much is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    /// May be shed: its caller loses nothing but time.
    Sheddable,
    /// Never shed: it ends work that was claimed.
    Required,
}

/// The queue of one serving thread.
pub(crate) struct Batcher<T: Transition> {
    shared: Mutex<Shared<T>>,
    arrived: Notify,
    clock: Arc<dyn Clock>,
    queued_max: usize,
}

struct Shared<T: Transition> {
    queue: VecDeque<Pending<T>>,
    closed: bool,
    under_way: usize,
    /// How long a batch takes, smoothed.
    batch_us: u64,
}

struct Pending<T: Transition> {
    update: Update<T>,
    reply: oneshot::Sender<Result<T::Outcome, StoreError>>,
}

/// Why a call was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotQueued {
    /// Too much is queued.
    Full,
    /// The node is closing.
    Closed,
}

impl<T: Transition> Batcher<T> {
    pub(crate) fn new(clock: Arc<dyn Clock>, queued_max: usize) -> Arc<Self> {
        let shared = Shared { queue: VecDeque::new(), closed: false, under_way: 0, batch_us: 0 };
        Arc::new(Self { shared: Mutex::new(shared), arrived: Notify::new(), clock, queued_max })
    }

    /// Queues an update and waits for its outcome. Dropping the wait withdraws an update that is
    /// still queued.
    pub(crate) async fn submit(
        &self,
        update: Update<T>,
        priority: Priority,
    ) -> Result<Result<T::Outcome, StoreError>, NotQueued> {
        let (reply, outcome) = oneshot::channel();
        {
            let mut shared = self.lock();
            if shared.closed {
                return Err(NotQueued::Closed);
            }
            if priority == Priority::Sheddable && shared.queue.len() >= self.queued_max {
                return Err(NotQueued::Full);
            }
            shared.queue.push_back(Pending { update, reply });
        }
        self.arrived.notify_one();
        outcome.await.map_err(|_| NotQueued::Closed)
    }

    /// How long an update that is queued now is likely to take. Nothing, if it would go at once: were
    /// everybody sent away, nobody would ever find out that the store is fast again.
    pub(crate) fn expected(&self) -> Duration {
        let shared = self.lock();
        if shared.queue.is_empty() && shared.under_way == 0 {
            return Duration::ZERO;
        }
        let batches_ahead = u64::try_from(shared.queue.len() / BATCH_MAX).unwrap_or(u64::MAX);
        Duration::from_micros(shared.batch_us.saturating_mul(batches_ahead.saturating_add(1)))
    }

    /// Carries batches to the store until `closing`, then what is still queued.
    pub(crate) async fn drive<S: Store>(&self, store: &S, closing: &CancellationToken) {
        let mut under_way = FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                Some(()) = under_way.next() => {}
                () = self.arrived.notified(), if under_way.len() < UNDER_WAY_MAX => {
                    // Let the calls that are ready to run join this batch.
                    tokio::task::yield_now().await;
                }
                () = closing.cancelled(), if under_way.is_empty() => {
                    if self.close_if_empty() {
                        return;
                    }
                }
            }
            while under_way.len() < UNDER_WAY_MAX {
                let batch = self.take_batch();
                if batch.is_empty() {
                    break;
                }
                under_way.push(self.carry(store, batch));
            }
        }
    }

    async fn carry<S: Store>(&self, store: &S, batch: Vec<Pending<T>>) {
        let started_us = self.clock.monotonic_us();
        let (updates, replies): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|pending| (pending.update, pending.reply)).unzip();
        let results = store.update(updates).await;
        let took_us = self.clock.monotonic_us().saturating_sub(started_us);
        {
            let mut shared = self.lock();
            shared.under_way = shared.under_way.saturating_sub(1);
            shared.batch_us = (shared.batch_us.saturating_mul(7).saturating_add(took_us)) / 8;
        }
        for (reply, result) in replies.into_iter().zip(results) {
            // A caller that is gone misses its answer, not its effect: the same ids bring it back.
            let _ = reply.send(result);
        }
    }

    fn take_batch(&self) -> Vec<Pending<T>> {
        let mut shared = self.lock();
        let mut batch = Vec::with_capacity(shared.queue.len().min(BATCH_MAX));
        while batch.len() < BATCH_MAX {
            let Some(pending) = shared.queue.pop_front() else { break };
            // A caller that gave up while it was queued must not be given a claim.
            if !pending.reply.is_closed() {
                batch.push(pending);
            }
        }
        shared.under_way += usize::from(!batch.is_empty());
        batch
    }

    fn close_if_empty(&self) -> bool {
        let mut shared = self.lock();
        shared.closed = shared.queue.is_empty();
        shared.closed
    }

    fn lock(&self) -> MutexGuard<'_, Shared<T>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
