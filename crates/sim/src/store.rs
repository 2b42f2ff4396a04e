//! A node's way to the store; for a planted bug, one that forgets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use semel_store::memory::MemoryStore;
use semel_store::{Change, Page, Scan, Store, StoreError, Transition, Update, ValueChange, Watch};

/// Which records are tampered with, by their keys.
pub(crate) type Prey = fn(&[u8]) -> bool;

/// The memory engine, through the eyes of one node.
#[derive(Clone, Debug)]
pub(crate) struct SimStore {
    inner: MemoryStore,
    amnesia: Option<Amnesia>,
}

impl SimStore {
    pub(crate) const fn new(inner: MemoryStore, amnesia: Option<Amnesia>) -> Self {
        Self { inner, amnesia }
    }
}

impl Store for SimStore {
    async fn update<T: Transition>(
        &self,
        batch: Vec<Update<T>>,
    ) -> Vec<Result<T::Outcome, StoreError>> {
        let Some(amnesia) = &self.amnesia else { return self.inner.update(batch).await };
        let forgetful = |update: Update<T>| Update {
            durability: update.durability,
            patience: update.patience,
            transition: Forgetful {
                inner: update.transition,
                key: update.key.clone(),
                amnesia: amnesia.clone(),
            },
            key: update.key,
        };
        self.inner.update(batch.into_iter().map(forgetful).collect()).await
    }

    async fn scan(&self, scan: Scan) -> Result<Page, StoreError> {
        self.inner.scan(scan).await
    }

    fn watch(&self, key: &[u8]) -> Watch {
        self.inner.watch(key)
    }
}

/// A lost update: now and then a transition is run on the record as it was before its last change,
/// which is then overwritten. What an engine does that does not check for conflicts.
#[derive(Clone, Debug)]
pub(crate) struct Amnesia {
    prey: Prey,
    /// One update in so many is lost.
    every: u64,
    before: Arc<Mutex<Before>>,
}

#[derive(Debug, Default)]
struct Before {
    records: BTreeMap<Bytes, Option<Bytes>>,
    changes: u64,
}

impl Amnesia {
    pub(crate) fn new(prey: Prey, every: u64) -> Self {
        Self { prey, every: every.max(1), before: Arc::default() }
    }
}

#[derive(Clone)]
struct Forgetful<T> {
    inner: T,
    key: Bytes,
    amnesia: Amnesia,
}

impl<T: Transition> Transition for Forgetful<T> {
    type Outcome = T::Outcome;

    fn apply(&self, old: Option<&[u8]>, now_us: u64) -> (Change, Self::Outcome) {
        if !(self.amnesia.prey)(&self.key) {
            return self.inner.apply(old, now_us);
        }
        let mut before = self.amnesia.before.lock().unwrap_or_else(PoisonError::into_inner);
        let forgotten = match before.records.get(&self.key) {
            Some(record) if before.changes % self.amnesia.every == self.amnesia.every - 1 => {
                Some(record.clone())
            }
            _ => None,
        };
        let seen = forgotten.as_ref().map_or(old, |record| record.as_deref());
        let (change, outcome) = self.inner.apply(seen, now_us);
        if change.value != ValueChange::Keep {
            before.changes += 1;
            before.records.insert(self.key.clone(), old.map(Bytes::copy_from_slice));
        }
        (change, outcome)
    }
}
