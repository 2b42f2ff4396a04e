//! Engines that are wrong in one way each.

use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::super::{End, Harness};
use crate::clock::{Clock, ManualClock};
use crate::contract::{
    Change, Durability, IndexChange, Page, Scan, Store, StoreError, Transition, Update, ValueChange,
};
use crate::memory::MemoryStore;
use crate::watch::{Watch, WatchHub};

/// What is wrong with an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bug {
    /// Nothing: the wrapper itself does no harm.
    None,
    /// The answers of a batch come in the wrong order.
    AnswersReversed,
    /// Every item of a batch sees the records as they were before the batch.
    BatchOnOldSnapshot,
    /// The record is read and written in two steps, and other updates may come in between.
    UpdatesNotAtomic,
    /// A batch stops when its caller goes away.
    BatchAbandoned,
    /// The last index change of a transition is forgotten.
    LastIndexChangeDropped,
    /// The index is changed in a commit of its own.
    IndexChangedLater,
    /// Transitions see the bare clock.
    TimeGoesBack,
    /// Transitions see milliseconds.
    TimeInMilliseconds,
    /// Synced changes are answered before they are safe.
    SyncForgotten,
    /// Relaxed changes are not visible before the next update.
    RelaxedLate,
    /// No watch ever wakes.
    WatchesSleep,
    /// Every change wakes every watch.
    WatchesWakeForAll,
    /// Watches wake before the change, and not after it.
    WatchesWakeEarly,
    /// The end of a range is part of it.
    EndIncluded,
    /// A page never says that there is more.
    PagesEndEarly,
    /// A page with as many rows as its limit always says that there is more.
    PagesEndLate,
    /// The bound on bytes is ignored.
    BytesUnbounded,
    /// Rows come from the last to the first.
    OrderReversed,
    /// Keys are cut after 64 bytes.
    KeysCut,
    /// Values are cut after 64 KiB.
    ValuesCut,
    /// A limit out of bounds is taken for the nearest one within.
    LimitsStretched,
}

pub(super) struct WrongHarness(pub(super) Bug);

impl Harness for WrongHarness {
    type Store = Wrong;

    async fn open(&self, clock: ManualClock) -> Wrong {
        Wrong {
            bug: self.0,
            store: MemoryStore::new(Arc::new(clock.clone())),
            clock,
            hub: WatchHub::new(),
            late: Mutex::default(),
        }
    }

    async fn reopen(&self, wrong: Wrong, _: ManualClock, end: End) -> Option<Wrong> {
        wrong.store.crash();
        (end == End::Crashed).then_some(wrong)
    }
}

/// The memory engine with a bug.
pub(super) struct Wrong {
    bug: Bug,
    store: MemoryStore,
    clock: ManualClock,
    /// Where callers wait instead of at the store, if watches are what is wrong.
    hub: WatchHub,
    /// Changes that were answered, and will be written before the next update.
    late: Mutex<Vec<Update<Make>>>,
}

type Answer<T> = Result<<T as Transition>::Outcome, StoreError>;

impl Wrong {
    /// Runs a batch with transitions that are wrong by themselves.
    async fn bent<T: Transition>(&self, batch: Vec<Update<T>>) -> Vec<Answer<T>> {
        let updates = batch.iter().map(|update| Update {
            key: update.key.clone(),
            durability: update.durability,
            patience: None,
            transition: Bent {
                bug: self.bug,
                clock: self.clock.clone(),
                inner: update.transition.clone(),
            },
        });
        let mut answers = Vec::new();
        for (update, answer) in batch.iter().zip(self.store.update(updates.collect()).await) {
            answers.push(match answer {
                Ok((outcome, index)) if !index.is_empty() => {
                    tokio::task::yield_now().await;
                    let change = Change { value: ValueChange::Keep, index };
                    self.store.update(vec![make(update, change)]).await.remove(0).map(|()| outcome)
                }
                other => other.map(|(outcome, _)| outcome),
            });
        }
        answers
    }

    /// Reads all records of a batch, decides, and says what would have to be written.
    async fn decide<T: Transition>(
        &self,
        batch: &[Update<T>],
    ) -> (Vec<Update<Make>>, Vec<Answer<T>>) {
        let reads = batch.iter().map(|update| Update {
            key: update.key.clone(),
            durability: update.durability,
            patience: None,
            transition: Read,
        });
        let mut writes = Vec::new();
        let mut answers = Vec::new();
        for (update, read) in batch.iter().zip(self.store.update(reads.collect()).await) {
            answers.push(read.map(|(old, now_us)| {
                let (change, outcome) = update.transition.apply(old.as_deref(), now_us);
                writes.push(make(update, change));
                outcome
            }));
        }
        (writes, answers)
    }
}

impl Store for Wrong {
    async fn update<T: Transition>(&self, mut batch: Vec<Update<T>>) -> Vec<Answer<T>> {
        let late = std::mem::take(&mut *self.late.lock().unwrap());
        self.store.update(late).await;
        match self.bug {
            Bug::SyncForgotten => {
                batch.iter_mut().for_each(|update| update.durability = Durability::Relaxed);
            }
            Bug::KeysCut => batch.iter_mut().for_each(|update| update.key.truncate(64)),
            Bug::WatchesWakeForAll => self.hub.wake_all(),
            Bug::WatchesWakeEarly => {
                batch.iter().for_each(|update| self.hub.wake(&update.key));
                tokio::task::yield_now().await;
            }
            _ => {}
        }
        match self.bug {
            Bug::AnswersReversed => {
                let mut answers = self.bent(batch).await;
                answers.reverse();
                answers
            }
            Bug::BatchOnOldSnapshot => {
                let (writes, answers) = self.decide(&batch).await;
                self.store.update(writes).await;
                answers
            }
            Bug::UpdatesNotAtomic => {
                let mut all = Vec::new();
                for update in batch {
                    let (writes, answers) = self.decide(&[update]).await;
                    tokio::task::yield_now().await;
                    self.store.update(writes).await;
                    all.extend(answers);
                }
                all
            }
            Bug::BatchAbandoned => {
                let mut all = Vec::new();
                for update in batch {
                    all.extend(self.bent(vec![update]).await);
                    tokio::task::yield_now().await;
                }
                all
            }
            Bug::RelaxedLate if batch.iter().all(|it| it.durability == Durability::Relaxed) => {
                let (writes, answers) = self.decide(&batch).await;
                self.late.lock().unwrap().extend(writes);
                answers
            }
            _ => self.bent(batch).await,
        }
    }

    async fn scan(&self, mut scan: Scan) -> Result<Page, StoreError> {
        match self.bug {
            Bug::EndIncluded if !scan.end.is_empty() => {
                scan.end = [&scan.end[..], b"\0"].concat().into();
            }
            Bug::BytesUnbounded => scan.max_bytes = usize::MAX,
            Bug::LimitsStretched => scan.limit = scan.limit.clamp(1, 10_000),
            _ => {}
        }
        let limit = scan.limit;
        let mut page = self.store.scan(scan).await?;
        match self.bug {
            Bug::PagesEndEarly => page.more = false,
            Bug::PagesEndLate => page.more |= page.rows.len() == limit,
            Bug::OrderReversed => page.rows.reverse(),
            _ => {}
        }
        Ok(page)
    }

    fn watch(&self, key: &[u8]) -> Watch {
        match self.bug {
            Bug::WatchesSleep | Bug::WatchesWakeForAll | Bug::WatchesWakeEarly => {
                self.hub.watch(key)
            }
            _ => self.store.watch(key),
        }
    }
}

/// A transition as a wrong engine would run it. It also answers with the index changes that are
/// still to be made.
#[derive(Clone)]
struct Bent<T> {
    bug: Bug,
    clock: ManualClock,
    inner: T,
}

impl<T: Transition> Transition for Bent<T> {
    type Outcome = (T::Outcome, Vec<IndexChange>);

    fn apply(&self, old: Option<&[u8]>, now_us: u64) -> (Change, Self::Outcome) {
        let now_us = match self.bug {
            Bug::TimeGoesBack => self.clock.now_us(),
            Bug::TimeInMilliseconds => now_us / 1_000,
            _ => now_us,
        };
        let (mut change, outcome) = self.inner.apply(old, now_us);
        let mut later = Vec::new();
        match (self.bug, &mut change.value) {
            (Bug::LastIndexChangeDropped, _) => drop(change.index.pop()),
            (Bug::IndexChangedLater, _) => later = std::mem::take(&mut change.index),
            (Bug::ValuesCut, ValueChange::Put(value)) => value.truncate(65_536),
            _ => {}
        }
        (change, (outcome, later))
    }
}

/// Reads a record and the time.
#[derive(Clone)]
struct Read;

impl Transition for Read {
    type Outcome = (Option<Bytes>, u64);

    fn apply(&self, old: Option<&[u8]>, now_us: u64) -> (Change, Self::Outcome) {
        (Change::keep(), (old.map(Bytes::copy_from_slice), now_us))
    }
}

/// Makes a change that was decided on before.
#[derive(Clone)]
struct Make(Change);

impl Transition for Make {
    type Outcome = ();

    fn apply(&self, _: Option<&[u8]>, _: u64) -> (Change, ()) {
        (self.0.clone(), ())
    }
}

fn make<T>(update: &Update<T>, change: Change) -> Update<Make> {
    Update {
        key: update.key.clone(),
        durability: update.durability,
        patience: None,
        transition: Make(change),
    }
}
