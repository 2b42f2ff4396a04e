//! What stands between the thread that decides and the thread that commits: one open group that
//! grows while the previous one is synced.
//!
//! Invariants:
//! - at most one group is open and one is handed over (waiting for its commit, or in it);
//! - a value that was decided but not yet committed is found here, from the moment it is added
//!   until the tree has it, so the decider always reads the newest value; a relaxed one stays until
//!   it is synced, so that a synced read of it knows that it must wait;
//! - one item's changes are in one group; a batch may span groups, and is answered with the last;
//! - when a commit fails, whatever was decided on top of it is refused: the epoch goes up, and what
//!   was decided in an earlier one can't be added any more.

use std::collections::HashMap;
use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use fjall::Slice;

use super::job::Job;
use super::options::EmbeddedOptions;
use super::tree::Write;
use crate::contract::{Change, Durability, IndexChange, Space, ValueChange};

/// Records that were decided and not yet committed; `None`: removed.
pub(super) type Pending = HashMap<Bytes, Option<Bytes>>;

/// What is committed together.
#[derive(Default)]
pub(super) struct Group {
    pub(super) writes: Vec<Write>,
    /// Whether the answers must wait for a sync.
    pub(super) synced: bool,
    /// The newest time that a transition of this group was given.
    pub(super) now_us: u64,
    pub(super) jobs: Vec<DecidedJob>,
    bytes: usize,
    pending: Pending,
}

/// A job whose answer waits for the commit of its group.
pub(super) struct DecidedJob {
    pub(super) job: Box<dyn Job>,
    /// Whether some of its changes went with an earlier group.
    pub(super) spans_groups: bool,
}

/// What the committer does next.
pub(super) enum Next {
    /// Commit this group.
    Commit(Group),
    /// Nothing came for the time that the committer was ready to wait.
    Nothing,
    /// The end: nothing will come any more.
    Closed,
}

/// The decider was overtaken by a failure: what it read may not be true any more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stale;

/// A stay in the middle of one job; see [`Pipeline::begin_job`].
pub(super) struct Turn {
    epoch: u64,
    first_group: Option<u64>,
    /// Whether it read something that is not committed, or not as durable as it asked for.
    must_wait: bool,
    /// Whether something of that must be synced.
    must_sync: bool,
}

impl Turn {
    /// Whether the job changed anything.
    pub(super) fn wrote(&self) -> bool {
        self.first_group.is_some()
    }
}

pub(super) struct Pipeline {
    state: Mutex<State>,
    /// The committer waits here for a group.
    work: Condvar,
    /// The decider waits here for room in the open group.
    room: Condvar,
    group_writes: usize,
    group_bytes: usize,
}

#[derive(Default)]
struct State {
    epoch: u64,
    /// How many groups were handed over so far: the number of the open one.
    handed_over: u64,
    open: Group,
    /// A group that the decider handed over to a waiting committer.
    ready: Option<Group>,
    /// The pending values of the group that was handed over.
    committing: Pending,
    /// The values of relaxed changes that the tree has and the disk may not have.
    unsynced: Pending,
    in_job: bool,
    committer_waits: bool,
    closed: bool,
}

impl Pipeline {
    pub(super) fn new(options: &EmbeddedOptions) -> Self {
        Self {
            state: Mutex::default(),
            work: Condvar::new(),
            room: Condvar::new(),
            group_writes: options.group_writes,
            group_bytes: options.group_bytes,
        }
    }

    /// The decider begins a job. Until [`Self::end_job`], the open group is handed over only if it
    /// is full, so that a batch is not spread over more commits than it needs.
    pub(super) fn begin_job(&self) -> Turn {
        let mut state = self.lock();
        state.in_job = true;
        Turn { epoch: state.epoch, first_group: None, must_wait: false, must_sync: false }
    }

    /// Looks for a value that is decided and not yet committed, or not yet synced.
    pub(super) fn pending(
        &self,
        turn: &mut Turn,
        key: &[u8],
        durability: Durability,
    ) -> Option<Option<Bytes>> {
        let state = self.lock();
        let uncommitted = state.open.pending.get(key).or_else(|| state.committing.get(key));
        let found = uncommitted.or_else(|| state.unsynced.get(key))?;
        let synced = durability == Durability::Synced;
        turn.must_wait |= synced || uncommitted.is_some();
        turn.must_sync |= synced;
        Some(found.clone())
    }

    /// Adds one item's change, waiting for room.
    pub(super) fn add(
        &self,
        turn: &mut Turn,
        key: &Bytes,
        change: Change,
        durability: Durability,
        now_us: u64,
    ) -> Result<(), Stale> {
        let mut state = self.lock();
        while state.epoch == turn.epoch && self.is_full(&state.open) {
            self.hand_over_if_waited_for(&mut state);
            if self.is_full(&state.open) {
                state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        if state.epoch != turn.epoch {
            return Err(Stale);
        }
        turn.first_group.get_or_insert(state.handed_over);
        state.open.now_us = state.open.now_us.max(now_us);
        state.open.synced |= durability == Durability::Synced;
        state.open.add(key, change);
        Ok(())
    }

    /// The decider ends a job: it waits for a commit, or comes back to be answered.
    pub(super) fn end_job(&self, turn: &Turn, job: Box<dyn Job>) -> Ended {
        let mut state = self.lock();
        state.in_job = false;
        let ended = if !turn.wrote() && !turn.must_wait {
            Ended::Free(job)
        } else if state.epoch != turn.epoch {
            Ended::Stale(job)
        } else {
            let spans_groups = turn.first_group.is_some_and(|first| first != state.handed_over);
            state.open.synced |= turn.must_sync;
            state.open.jobs.push(DecidedJob { job, spans_groups });
            Ended::Waiting
        };
        self.hand_over_if_waited_for(&mut state);
        ended
    }

    /// The committer asks for work, waiting at most `wait` if that is given.
    pub(super) fn next(&self, wait: Option<Duration>) -> Next {
        let mut state = self.lock();
        loop {
            if let Some(group) = state.ready.take() {
                return Next::Commit(group);
            }
            if !state.open.is_empty() && (!state.in_job || self.is_full(&state.open)) {
                state.hand_over();
                self.room.notify_one();
                continue;
            }
            if state.closed && !state.in_job {
                return Next::Closed;
            }
            state.committer_waits = true;
            match wait {
                None => state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(wait) => {
                    let waited = self.work.wait_timeout(state, wait);
                    let (woken, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                    state = woken;
                    if timeout.timed_out() && state.ready.is_none() {
                        state.committer_waits = false;
                        return Next::Nothing;
                    }
                }
            }
            state.committer_waits = false;
        }
    }

    /// The committer has committed the group that it was given: the tree has its values now. Gives
    /// the keys that changed.
    pub(super) fn committed(&self, synced: bool) -> Vec<Bytes> {
        let mut state = self.lock();
        let committed = mem::take(&mut state.committing);
        if synced {
            state.unsynced.clear();
            drop(state);
            return committed.into_keys().collect();
        }
        let keys = committed.keys().cloned().collect();
        state.unsynced.extend(committed);
        keys
    }

    /// Everything that was committed so far is on disk.
    pub(super) fn synced(&self) {
        self.lock().unsynced.clear();
    }

    /// How many records are committed and not synced.
    pub(super) fn unsynced_records(&self) -> usize {
        self.lock().unsynced.len()
    }

    /// The committer has failed: whatever was decided is void, and its jobs come back.
    pub(super) fn fail(&self) -> Vec<DecidedJob> {
        let mut state = self.lock();
        state.epoch += 1;
        state.handed_over += 1;
        let mut jobs = state.ready.take().map(|group| group.jobs).unwrap_or_default();
        jobs.append(&mut mem::take(&mut state.open).jobs);
        state.committing.clear();
        state.unsynced.clear();
        drop(state);
        self.room.notify_one();
        jobs
    }

    /// The decider ends: the committer shall end too, when it has committed what is left.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.in_job = false;
        drop(state);
        self.work.notify_one();
    }

    /// Waits for the end, at most `wait`; tells whether it has come.
    pub(super) fn wait_closed(&self, wait: Option<Duration>) -> bool {
        let state = self.lock();
        match wait {
            None => {
                let waited = self.work.wait_while(state, |state| !state.closed);
                waited.unwrap_or_else(PoisonError::into_inner).closed
            }
            Some(wait) => {
                let waited = self.work.wait_timeout_while(state, wait, |state| !state.closed);
                waited.unwrap_or_else(PoisonError::into_inner).0.closed
            }
        }
    }

    fn is_full(&self, group: &Group) -> bool {
        group.writes.len() >= self.group_writes
            || group.jobs.len() >= self.group_writes
            || group.bytes >= self.group_bytes
    }

    fn hand_over_if_waited_for(&self, state: &mut State) {
        if state.committer_waits && state.ready.is_none() && !state.open.is_empty() {
            state.hand_over();
            self.work.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is whole at every point where a thread could have died.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn hand_over(&mut self) {
        let mut group = mem::take(&mut self.open);
        self.committing = mem::take(&mut group.pending);
        self.handed_over += 1;
        self.ready = Some(group);
    }
}

/// What became of a job.
pub(super) enum Ended {
    /// It is answered when its group is committed.
    Waiting,
    /// It changed nothing and saw nothing that waits for a commit.
    Free(Box<dyn Job>),
    /// A commit failed meanwhile, and what was decided is void.
    Stale(Box<dyn Job>),
}

impl Group {
    fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.jobs.is_empty()
    }

    fn add(&mut self, key: &Bytes, change: Change) {
        match change.value {
            ValueChange::Keep => {}
            ValueChange::Put(value) => {
                self.write(Space::Records, key, Some(&value));
                self.pending.insert(key.clone(), Some(value));
            }
            ValueChange::Delete => {
                self.write(Space::Records, key, None);
                self.pending.insert(key.clone(), None);
            }
        }
        for entry in change.index {
            match entry {
                IndexChange::Put { key, value } => self.write(Space::Index, &key, Some(&value)),
                IndexChange::Delete { key } => self.write(Space::Index, &key, None),
            }
        }
    }

    fn write(&mut self, space: Space, key: &[u8], value: Option<&[u8]>) {
        self.bytes += key.len() + value.map_or(0, <[u8]>::len);
        self.writes.push(Write { space, key: Slice::new(key), value: value.map(Slice::new) });
    }
}

#[cfg(test)]
mod tests;
