//! A batch of updates: its items by record, and what becomes of each record.
//!
//! Invariants: the items of one record are applied in the order of the batch and see each other; what
//! a record becomes is decided anew from what was read, as often as it is lost to somebody else.

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;

use super::longest;
use crate::contract::{Durability, IndexChange, StoreError, Transition, Update, ValueChange};
use crate::limits;

/// The answers of a batch, in order.
pub type Answers<T> = Vec<Result<<T as Transition>::Outcome, StoreError>>;

/// A batch, with its answers so far.
pub(super) struct Batch<T: Transition> {
    items: Vec<Update<T>>,
    answers: Vec<Option<Result<T::Outcome, StoreError>>>,
    /// What the items will be answered if their records are written as decided.
    proposed: Vec<Option<Result<T::Outcome, StoreError>>>,
    /// The items that are not refused, by key and then as they came.
    order: Vec<usize>,
    /// The distinct keys, in order, each with its part of `order`.
    records: Vec<(Bytes, Range<usize>)>,
}

/// A record as it was read.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// Its version: another one after each change, and never one that it had before.
    pub version: i64,
    /// Whether what was last written of it may be lost in a crash.
    pub relaxed: bool,
    /// Its value; `None`: it stands for an absent record.
    pub value: Option<&'a [u8]>,
}

/// What is to be written of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// Nothing.
    Nothing,
    /// There is no row, and there shall be one.
    Insert,
    /// The row of this version changes.
    Update(i64),
    /// The row of this version goes.
    Delete(i64),
}

/// What becomes of one record, if nobody changed it meanwhile.
#[derive(Debug)]
pub struct Decision {
    /// The place of its key in the batch.
    pub(super) record: usize,
    /// Its key.
    pub key: Bytes,
    /// What is to be written.
    pub write: Write,
    /// The new value; `None` in an update: as it is; in an insert: a stand-in for an absent record.
    pub value: Option<Bytes>,
    /// Whether a transition asked for a change of the record.
    pub changed: bool,
    /// Whether the commit may be lost in a crash.
    pub relaxed: bool,
    /// Whether somebody who asked for durability saw what may be lost.
    pub(super) needs_flush: bool,
    /// Index changes, each with the place of its item.
    pub index: Vec<(usize, IndexChange)>,
    /// What the record was read from: see [`Answer::snapshot`](super::Answer::snapshot).
    pub snapshot: i64,
}

impl Decision {
    /// What it takes in a request of the database, roughly; never 0.
    #[must_use]
    pub fn weight(&self) -> usize {
        let entry = |(_, entry): &(usize, IndexChange)| match entry {
            IndexChange::Put { key, value } => 1_024 + key.len() + value.len(),
            IndexChange::Delete { key } => 1_024 + key.len(),
        };
        1_024
            + self.value.as_ref().map_or(0, Bytes::len)
            + self.index.iter().map(entry).sum::<usize>()
    }
}

impl<T: Transition> Batch<T> {
    pub(super) fn new(items: Vec<Update<T>>) -> Self {
        let mut answers: Vec<Option<_>> = Vec::with_capacity(items.len());
        answers.extend(items.iter().map(|item| limits::check_key(&item.key).err().map(Err)));
        let mut order: Vec<usize> = (0..items.len()).collect();
        order.retain(|place| matches!(answers.get(*place), Some(None)));
        let key = |place: &usize| items.get(*place).map(|item| &item.key);
        order.sort_by(|one, other| key(one).cmp(&key(other)));
        let mut records: Vec<(Bytes, Range<usize>)> = Vec::with_capacity(order.len());
        for (at, place) in order.iter().enumerate() {
            let Some(key) = key(place) else { continue };
            match records.last_mut() {
                Some((last, range)) if last == key => range.end = at + 1,
                _ => records.push((key.clone(), at..at + 1)),
            }
        }
        let proposed = items.iter().map(|_| None).collect();
        Self { items, answers, proposed, order, records }
    }

    /// How long the most patient item waits; `None`: as long as it takes.
    pub(super) fn patience(&self) -> Option<Duration> {
        longest(self.items.iter().map(|item| item.patience))
    }

    /// The distinct keys, in order.
    pub(super) fn keys(&self) -> Vec<Bytes> {
        self.records.iter().map(|(key, _)| key.clone()).collect()
    }

    pub(super) fn key(&self, record: usize) -> &Bytes {
        static NONE: Bytes = Bytes::new();
        self.records.get(record).map_or(&NONE, |(key, _)| key)
    }

    /// Applies the items of a record to what was read of it.
    pub(super) fn decide(
        &mut self,
        record: usize,
        found: Option<Found<'_>>,
        (now_us, snapshot): (u64, i64),
    ) -> Decision {
        let mut state = State { stored: found.and_then(|it| it.value), put: None, changed: false };
        let mut index = Vec::new();
        let places = places(&self.order, &self.records, record);
        let mut synced = false;
        for &place in places {
            let Some(item) = self.items.get(place) else { continue };
            let (change, outcome) = item.transition.apply(state.value(), now_us);
            synced |= item.durability == Durability::Synced;
            let checked = limits::check_change(&change);
            if checked.is_ok() {
                state.take(change.value);
                index.extend(change.index.into_iter().map(|entry| (place, entry)));
            }
            if let Some(proposed) = self.proposed.get_mut(place) {
                *proposed = Some(checked.map(|()| outcome));
            }
        }
        let write = state.write(found, !index.is_empty());
        // A deletion leaves nothing that would tell a later reader to wait for it.
        let leaves_nothing = state.value().is_none();
        let needs_flush =
            synced && write == Write::Nothing && found.is_some_and(|found| found.relaxed);
        Decision {
            record,
            key: self.key(record).clone(),
            write,
            changed: state.changed,
            relaxed: !synced && !leaves_nothing,
            needs_flush,
            value: state.put.flatten(),
            index,
            snapshot,
        }
    }

    /// Answers the items of a record as it was decided.
    pub(super) fn accept(&mut self, record: usize) {
        for &place in places(&self.order, &self.records, record) {
            if let (Some(answer), Some(proposed)) =
                (self.answers.get_mut(place), self.proposed.get_mut(place))
            {
                *answer = proposed.take();
            }
        }
    }

    /// Answers the items of a record with an error.
    pub(super) fn fail(&mut self, record: usize, error: &StoreError) {
        for &place in places(&self.order, &self.records, record) {
            if let Some(answer) = self.answers.get_mut(place) {
                *answer = Some(Err(error.clone()));
            }
        }
    }

    /// The answers, in order.
    pub(super) fn into_answers(self) -> Answers<T> {
        let lost = || StoreError::Unavailable("the update was not run".to_owned());
        self.answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(lost()))).collect()
    }
}

/// The places of the items of a record.
fn places<'a>(order: &'a [usize], records: &[(Bytes, Range<usize>)], record: usize) -> &'a [usize] {
    let range = records.get(record).map(|(_, range)| range.clone());
    range.and_then(|range| order.get(range)).unwrap_or_default()
}

/// A record while its items are applied.
struct State<'a> {
    stored: Option<&'a [u8]>,
    /// What it was changed to, if it was: `Some(None)` is gone.
    put: Option<Option<Bytes>>,
    changed: bool,
}

impl State<'_> {
    fn value(&self) -> Option<&[u8]> {
        match &self.put {
            Some(value) => value.as_deref(),
            None => self.stored,
        }
    }

    fn take(&mut self, change: ValueChange) {
        self.put = match change {
            ValueChange::Keep => return,
            ValueChange::Put(value) => Some(Some(value)),
            ValueChange::Delete => Some(None),
        };
        self.changed = true;
    }

    fn write(&self, found: Option<Found<'_>>, has_index: bool) -> Write {
        match (found, &self.put) {
            (None, Some(Some(_))) => Write::Insert,
            (None, _) if has_index => Write::Insert,
            (Some(row), Some(Some(_))) => Write::Update(row.version),
            // One that only stood for an absent record may as well go.
            (Some(row), Some(None)) if row.value.is_some() || has_index => {
                Write::Delete(row.version)
            }
            (Some(row), None) if has_index => Write::Update(row.version),
            _ => Write::Nothing,
        }
    }
}
