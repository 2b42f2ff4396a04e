//! A store whose use can be awaited, so that no test has to sleep until something has probably
//! happened.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use semel_store::memory::Faults;
use semel_store::{
    Clock, MemoryStore, Page, Row, Scan, Space, Store, StoreError, Transition, Update, Watch,
};
use tokio::sync::{oneshot, watch};

use super::within;

/// What a store was used for since it was made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// Watches that were armed.
    pub(crate) watches: usize,
    /// Updates that were asked for.
    pub(crate) begun: usize,
    /// Updates that were answered.
    pub(crate) ended: usize,
    /// The items of all updates.
    pub(crate) items: usize,
    /// The items of the largest update.
    pub(crate) largest: usize,
}

/// A [`MemoryStore`] that counts. Clones are handles to the same store.
///
/// Heartbeats come when they want: they are not counted, meet no faults, and their records are not shown
/// among the rows.
#[derive(Clone)]
pub(crate) struct Observed {
    inner: MemoryStore,
    heartbeats: MemoryStore,
    seen: Arc<watch::Sender<Seen>>,
    gate: Arc<Mutex<Option<oneshot::Receiver<()>>>>,
    /// How long the way of an update to the store is.
    way: Arc<Mutex<Duration>>,
}

impl Observed {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self::of(MemoryStore::new(Arc::clone(&clock)), clock)
    }

    fn of(inner: MemoryStore, clock: Arc<dyn Clock>) -> Self {
        let heartbeats = inner.share(clock, Faults::none());
        Self { inner, heartbeats, seen: Arc::default(), gate: Arc::default(), way: Arc::default() }
    }

    /// Another node's way to the same records, with faults and counts of its own.
    pub(crate) fn share(&self, clock: Arc<dyn Clock>) -> Self {
        Self::of(self.inner.share(Arc::clone(&clock), Faults::none()), clock)
    }

    pub(crate) fn faults(&self) -> &Faults {
        self.inner.faults()
    }

    /// Crashes and comes back.
    pub(crate) fn crash(&self) {
        self.inner.crash();
    }

    pub(crate) fn seen(&self) -> Seen {
        *self.seen.borrow()
    }

    /// Waits until the store has been used so.
    pub(crate) async fn until(&self, used: impl FnMut(&Seen) -> bool) {
        let mut seen = self.seen.subscribe();
        within(seen.wait_for(used)).await.expect("the store is there");
    }

    /// Holds the next update back, before anything comes of it, until the sender is used or dropped.
    pub(crate) fn hold_back_next(&self) -> oneshot::Sender<()> {
        let (open, gate) = oneshot::channel();
        *self.gate.lock().expect("unpoisoned") = Some(gate);
        open
    }

    /// From now on updates take so long to reach the store.
    pub(crate) fn move_away(&self, way: Duration) {
        *self.way.lock().expect("unpoisoned") = way;
    }

    /// Whether a record is stored under this key.
    pub(crate) async fn has(&self, key: &[u8]) -> bool {
        let start = bytes::Bytes::copy_from_slice(key);
        let end = bytes::Bytes::from([key, &[0]].concat());
        let scan = Scan { space: Space::Records, start, end, limit: 1, max_bytes: usize::MAX };
        !self.inner.scan(scan).await.expect("the store answers").rows.is_empty()
    }

    /// All that is stored in a space, but for the records of nodes.
    pub(crate) async fn rows(&self, space: Space) -> Vec<Row> {
        let scan = Scan {
            space,
            start: bytes::Bytes::new(),
            end: bytes::Bytes::new(),
            limit: 10_000,
            max_bytes: usize::MAX,
        };
        let mut rows = self.inner.scan(scan).await.expect("the store answers").rows;
        rows.retain(|row| !is_of_node(&row.key));
        rows
    }
}

fn is_of_node(key: &[u8]) -> bool {
    semel_domain::node::layout::from_record_key(key).is_some()
}

impl Store for Observed {
    async fn update<T: Transition>(
        &self,
        batch: Vec<Update<T>>,
    ) -> Vec<Result<T::Outcome, StoreError>> {
        if batch.iter().all(|update| is_of_node(&update.key)) {
            return self.heartbeats.update(batch).await;
        }
        // Taken before anybody is told, or whoever is told might run into it first.
        let gate = self.gate.lock().expect("unpoisoned").take();
        self.seen.send_modify(|seen| {
            seen.begun += 1;
            seen.items += batch.len();
            seen.largest = seen.largest.max(batch.len());
        });
        if let Some(gate) = gate {
            let _ = gate.await;
        }
        let way = *self.way.lock().expect("unpoisoned");
        if !way.is_zero() {
            tokio::time::sleep(way).await;
        }
        let answers = self.inner.update(batch).await;
        self.seen.send_modify(|seen| seen.ended += 1);
        answers
    }

    async fn scan(&self, scan: Scan) -> Result<Page, StoreError> {
        self.inner.scan(scan).await
    }

    fn watch(&self, key: &[u8]) -> Watch {
        let watch = self.inner.watch(key);
        self.seen.send_modify(|seen| seen.watches += 1);
        watch
    }
}
