//! The thread that decides: it takes what is queued, reads old values, applies the transitions in
//! order, and adds the changes to the open group while the previous group is synced.
//!
//! Invariants: only this thread decides, so the order in which it does is the order of the changes;
//! time, as transitions see it, never goes back. It never waits for a disk write, except for room
//! in a full group.

use bytes::Bytes;
use fjall::Slice;

use super::job::Job;
use super::pipeline::{Ended, Stale, Turn};
use super::queue::Receiver;
use super::shared::Shared;
use crate::contract::{Change, Durability, IndexChange, StoreError, ValueChange};

/// The largest change of one record and its index entries. With a group's own bound, it keeps a
/// commit well below the longest batch that the journal's check reads as one.
const LARGEST_CHANGE_BYTES: usize = 32 << 20;
/// What an index entry takes in the journal beside its key and value.
const ENTRY_BYTES: usize = 21;

/// Runs until the queue is closed and empty.
pub(super) fn run(shared: &Shared, queue: &Receiver<Box<dyn Job>>, mut floor_us: u64) {
    let mut jobs = Vec::new();
    while queue.take(&mut jobs) {
        for job in jobs.drain(..) {
            floor_us = floor_us.max(shared.clock.now_us());
            decide(shared, job, floor_us);
        }
    }
    shared.pipeline.close();
}

fn decide(shared: &Shared, mut job: Box<dyn Job>, now_us: u64) {
    let turn = shared.pipeline.begin_job();
    let mut view = View { shared, turn, now_us };
    job.decide(&mut view);
    let wrote = view.turn.wrote();
    match shared.pipeline.end_job(&view.turn, job) {
        Ended::Waiting => {}
        Ended::Free(job) => job.answer(Ok(())),
        // What it added before the failure went the way of its group.
        Ended::Stale(job) if wrote => job.answer(Err(unknown())),
        Ended::Stale(job) => job.answer(Err(unavailable())),
    }
}

/// What a job sees of the store.
pub(super) struct View<'a> {
    shared: &'a Shared,
    turn: Turn,
    now_us: u64,
}

/// The value of a record, wherever it was found.
pub(super) enum Old {
    Absent,
    Pending(Bytes),
    Stored(Slice),
}

impl Old {
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Absent => None,
            Self::Pending(value) => Some(value),
            Self::Stored(value) => Some(value),
        }
    }
}

impl View<'_> {
    /// The time to decide by, microseconds since the Unix epoch.
    pub(super) fn now_us(&self) -> u64 {
        self.now_us
    }

    /// Reads the newest value of a record, committed or about to be.
    pub(super) fn read(&mut self, key: &[u8], durability: Durability) -> Result<Old, StoreError> {
        match self.shared.pipeline.pending(&mut self.turn, key, durability) {
            Some(Some(value)) => return Ok(Old::Pending(value)),
            Some(None) => return Ok(Old::Absent),
            None => {}
        }
        let tree = self.shared.tree();
        let tree = tree.as_ref().ok_or_else(unavailable)?;
        match tree.get(key) {
            Ok(value) => Ok(value.map_or(Old::Absent, Old::Stored)),
            Err(error) => {
                tracing::error!(%error, "a record could not be read");
                Err(StoreError::Unavailable(format!("the record could not be read: {error}")))
            }
        }
    }

    /// Adds the change of one record to the open group.
    pub(super) fn write(
        &mut self,
        key: &Bytes,
        change: Change,
        durability: Durability,
    ) -> Result<(), StoreError> {
        let weight = weight(&change);
        if weight > LARGEST_CHANGE_BYTES {
            return Err(StoreError::Invalid(format!(
                "a change of {weight} bytes; it may have at most {LARGEST_CHANGE_BYTES}"
            )));
        }
        let added = self.shared.pipeline.add(&mut self.turn, key, change, durability, self.now_us);
        added.map_err(|Stale| unavailable())
    }
}

/// What one change takes in a commit, at least.
fn weight(change: &Change) -> usize {
    let value = match &change.value {
        ValueChange::Put(value) => value.len(),
        ValueChange::Keep | ValueChange::Delete => 0,
    };
    let entry = |entry: &IndexChange| match entry {
        IndexChange::Put { key, value } => ENTRY_BYTES + key.len() + value.len(),
        IndexChange::Delete { key } => ENTRY_BYTES + key.len(),
    };
    value + change.index.iter().map(entry).sum::<usize>()
}

pub(super) fn unavailable() -> StoreError {
    StoreError::Unavailable("a write to disk failed, and the store is being reopened".to_owned())
}

pub(super) fn unknown() -> StoreError {
    StoreError::Unknown("a write to disk failed while this change was being committed".to_owned())
}
