//! One store under check, and the few things that checks do with it.

use std::sync::Arc;

use bytes::Bytes;

use super::step::{Seen, Step};
use super::{End, Harness};
use crate::clock::ManualClock;
use crate::contract::{Durability, Page, Row, Scan, Space, Store, StoreError, Update};

/// 2020-01-01, in microseconds since the Unix epoch: behind the clock of any machine that runs the
/// suite, so that checks hold for an engine with a clock of its own.
pub(super) const START_US: u64 = 1_577_836_800_000_000;

/// A store of its own for one check.
pub(super) struct World<H: Harness> {
    harness: Arc<H>,
    pub(super) clock: ManualClock,
    pub(super) store: Arc<H::Store>,
}

impl<H: Harness> World<H> {
    pub(super) async fn open(harness: Arc<H>) -> Self {
        let clock = ManualClock::new(START_US);
        let store = Arc::new(harness.open(clock.clone()).await);
        Self { harness, clock, store }
    }

    /// A second store, new and empty.
    pub(super) async fn another(&self) -> Self {
        Self::open(Arc::clone(&self.harness)).await
    }

    /// The same store after `end`, or `None` if the engine leaves nothing behind then.
    pub(super) async fn reopen(self, end: End) -> Option<Self> {
        let Self { harness, clock, store } = self;
        let store = Arc::into_inner(store).expect("the check let go of its store");
        let store = Arc::new(harness.reopen(store, clock.clone(), end).await?);
        Some(Self { harness, clock, store })
    }

    /// Runs one synced step, which must succeed.
    pub(super) async fn step(&self, key: &[u8], step: Step) -> Seen {
        self.steps(vec![(key.to_vec(), step)]).await.remove(0)
    }

    /// Runs a batch of synced steps, all of which must succeed.
    pub(super) async fn steps(&self, steps: Vec<(Vec<u8>, Step)>) -> Vec<Seen> {
        run(&*self.store, steps).await
    }

    /// Runs a batch of synced steps.
    pub(super) async fn try_steps(
        &self,
        steps: Vec<(Vec<u8>, Step)>,
    ) -> Vec<Result<Seen, StoreError>> {
        self.store.update(synced(steps)).await
    }

    /// Runs one relaxed step, which must succeed.
    pub(super) async fn relaxed(&self, key: &[u8], step: Step) -> Seen {
        let update = Update {
            key: Bytes::copy_from_slice(key),
            durability: Durability::Relaxed,
            patience: None,
            transition: step,
        };
        let mut answers = self.store.update(vec![update]).await;
        assert_eq!(answers.len(), 1, "a batch of one item has one answer");
        answers.remove(0).expect("an update without faults succeeds")
    }

    /// The record, read by a step that keeps it.
    pub(super) async fn read(&self, key: &[u8]) -> Option<Bytes> {
        self.step(key, Step::Read).await.old
    }

    /// All rows of a space in one page.
    pub(super) async fn rows(&self, space: Space) -> Vec<Row> {
        let page = self.page(whole(space)).await;
        assert!(!page.more, "{} rows fit one page, and there are more", page.rows.len());
        page.rows
    }

    pub(super) async fn page(&self, scan: Scan) -> Page {
        self.store.scan(scan).await.expect("a scan without faults succeeds")
    }
}

/// Runs a batch of synced steps, all of which must succeed.
pub(super) async fn run(store: &impl Store, steps: Vec<(Vec<u8>, Step)>) -> Vec<Seen> {
    let items = steps.len();
    let answers = store.update(synced(steps)).await;
    assert_eq!(answers.len(), items, "every item of a batch has one answer");
    answers.into_iter().map(|it| it.expect("an update without faults succeeds")).collect()
}

pub(super) fn synced(steps: Vec<(Vec<u8>, Step)>) -> Vec<Update<Step>> {
    let update = |(key, transition): (Vec<u8>, Step)| Update {
        key: key.into(),
        durability: Durability::Synced,
        patience: None,
        transition,
    };
    steps.into_iter().map(update).collect()
}

/// A scan of a whole space, in the largest page.
pub(super) fn whole(space: Space) -> Scan {
    Scan { space, start: Bytes::new(), end: Bytes::new(), limit: 10_000, max_bytes: usize::MAX }
}

pub(super) fn row(key: impl Into<Bytes>, value: impl Into<Bytes>) -> Row {
    Row { key: key.into(), value: value.into() }
}
