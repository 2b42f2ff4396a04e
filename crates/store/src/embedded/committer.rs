//! The thread that commits: it writes one group after the other, each with one sync, and answers.
//! When a write fails, it reopens the tree until the disk is well again.
//!
//! Invariants:
//! - an answer that promises durability is given after the sync, and after the mark was written;
//! - nothing moves from memory to tables before it is synced, so cutting the journal back to the
//!   mark takes back whole commits and never half of one;
//! - after a failed sync, what was not acknowledged is cut off the journal, even if it reads well:
//!   the system may show bytes that the disk never got;
//! - while the tree is closed, every update is answered at once, by the decider.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::acknowledged::Mark;
use super::decider::{unavailable, unknown};
use super::directory::{Directory, Opened};
use super::error::OpenError;
use super::pipeline::{DecidedJob, Group, Next};
use super::shared::Shared;
use super::stamp::Stamp;
use super::tree::{Tree, TreeError, Write};

/// How long a relaxed change stays unsynced when nothing else comes.
const RELAXED_SYNC: Duration = Duration::from_millis(50);
/// With so many records unsynced, the next commit is synced whoever asks for it.
const MOST_UNSYNCED: usize = 16_384;
/// How long to wait before looking for room in the tree again.
const ROOM_INTERVAL: Duration = Duration::from_millis(2);
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const LAST_BACKOFF: Duration = Duration::from_secs(2);

pub(super) struct Committer {
    pub(super) shared: Arc<Shared>,
    pub(super) directory: Directory,
    pub(super) mark: Mark,
    /// The last commit; `synced` is the last one that is known to be on disk.
    pub(super) last: Stamp,
}

impl Committer {
    /// Runs until the pipeline is closed and empty, then closes the tree.
    pub(super) fn run(mut self) {
        loop {
            match self.shared.pipeline.next(self.is_unsynced().then_some(RELAXED_SYNC)) {
                Next::Commit(group) => self.commit(group),
                Next::Nothing => {
                    if let Err(failure) = guarded(|| self.sync()) {
                        self.recover(Vec::new(), &failure);
                    }
                }
                Next::Closed => break,
            }
        }
        close(self.shared.replace_tree(None));
    }

    fn commit(&mut self, group: Group) {
        let Group { writes, synced, now_us, jobs, .. } = group;
        let written = guarded(|| match (writes.is_empty(), synced) {
            (false, _) => self.write(writes, synced, now_us),
            (true, true) if self.is_unsynced() => self.sync(),
            (true, _) => Ok(()),
        });
        if let Err(failure) = written {
            return self.recover(jobs, &failure);
        }
        let changed = self.shared.pipeline.committed(!self.is_unsynced());
        for DecidedJob { job, .. } in jobs {
            job.answer(Ok(()));
        }
        for key in changed {
            self.shared.hub.wake(&key);
        }
        if let Err(failure) = guarded(|| self.move_if_due()) {
            self.recover(Vec::new(), &failure);
        }
    }

    fn write(&mut self, writes: Vec<Write>, synced: bool, now_us: u64) -> Result<(), Failure> {
        let shared = Arc::clone(&self.shared);
        let tree = shared.tree();
        let tree = tree.as_ref().ok_or_else(Failure::no_tree)?;
        wait_for_room(tree)?;
        let sync = synced || self.shared.pipeline.unsynced_records() >= MOST_UNSYNCED;
        self.write_to(tree, writes, sync, now_us)
    }

    fn write_to(
        &mut self,
        tree: &Tree,
        writes: Vec<Write>,
        sync: bool,
        now_us: u64,
    ) -> Result<(), Failure> {
        let now_us = self.last.now_us.max(now_us);
        let stamp = Stamp { sequence: self.last.sequence + 1, now_us, ..self.last };
        tree.commit(writes, &stamp, sync).map_err(Failure::of_commit)?;
        self.last = stamp;
        self.shared.count_commit();
        if sync { self.mark_synced() } else { Ok(()) }
    }

    fn sync(&mut self) -> Result<(), Failure> {
        let shared = Arc::clone(&self.shared);
        let tree = shared.tree();
        let tree = tree.as_ref().ok_or_else(Failure::no_tree)?;
        tree.sync().map_err(|error| Failure::Unknown(error.to_string()))?;
        self.mark_synced()?;
        self.shared.pipeline.synced();
        Ok(())
    }

    fn is_unsynced(&self) -> bool {
        self.last.sequence > self.last.synced
    }

    fn mark_synced(&mut self) -> Result<(), Failure> {
        self.last.synced = self.last.sequence;
        self.mark.record(self.last.sequence).map_err(|error| Failure::Unknown(error.to_string()))
    }

    fn move_if_due(&mut self) -> Result<(), Failure> {
        let shared = Arc::clone(&self.shared);
        let tree = shared.tree();
        let tree = tree.as_ref().ok_or_else(Failure::no_tree)?;
        if !tree.move_is_due() {
            return Ok(());
        }
        if self.is_unsynced() {
            self.sync()?;
        }
        tree.start_move().map_err(|error| Failure::Unknown(error.to_string()))
    }

    /// Closes the tree, refuses what was decided on top of it, and opens it again as soon as that
    /// works. Returns early when the store is being closed.
    fn recover(&mut self, jobs: Vec<DecidedJob>, failure: &Failure) {
        tracing::error!(%failure, "a write to disk failed; updates are refused until it works again");
        let tree = self.shared.replace_tree(None);
        let decided_on_top = self.shared.pipeline.fail();
        for DecidedJob { job, spans_groups } in jobs {
            let nothing_written = matches!(failure, Failure::NothingWritten(_)) && !spans_groups;
            job.answer(Err(if nothing_written { unavailable() } else { unknown() }));
        }
        for DecidedJob { job, spans_groups } in decided_on_top {
            job.answer(Err(if spans_groups { unknown() } else { unavailable() }));
        }
        close(tree);
        let mut backoff = FIRST_BACKOFF;
        while !self.shared.pipeline.wait_closed(Some(backoff)) {
            match self.reopen() {
                Ok(()) => {
                    tracing::info!("the disk takes writes again, and so does the store");
                    return;
                }
                Err(error) if error.may_pass() => {
                    tracing::warn!(%error, "the store can't be reopened yet");
                    backoff = LAST_BACKOFF.min(backoff * 2);
                }
                Err(error) => {
                    tracing::error!(%error, "the store stays closed: this won't pass by itself");
                    self.shared.pipeline.wait_closed(None);
                    return;
                }
            }
        }
    }

    fn reopen(&mut self) -> Result<(), OpenError> {
        let keep_through = self.mark.sequence();
        let opened = guarded(|| Ok(self.directory.open(keep_through)));
        let Opened { tree, mark, last } = match opened {
            Ok(opened) => opened?,
            Err(failure) => return Err(self.directory.refused(failure.to_string())),
        };
        self.mark = mark;
        self.last = Stamp { now_us: last.now_us.max(self.last.now_us), ..last };
        // Opening writes little. A commit of nothing shows whether the disk takes more.
        if let Err(failure) = guarded(|| self.write_to(&tree, Vec::new(), true, 0)) {
            close(Some(tree));
            return Err(self.directory.refused(failure.to_string()));
        }
        self.shared.replace_tree(Some(tree));
        self.shared.hub.wake_all();
        Ok(())
    }
}

/// Waits until the tree takes a commit without waiting for its workers inside.
fn wait_for_room(tree: &Tree) -> Result<(), Failure> {
    while !tree.has_room().map_err(|error| Failure::NothingWritten(error.to_string()))? {
        #[allow(clippy::disallowed_methods, reason = "the tree tells nobody when there is room")]
        std::thread::sleep(ROOM_INTERVAL);
    }
    Ok(())
}

/// Runs what may panic inside the tree. A panic must not end this thread: all callers wait for it.
fn guarded<R>(run: impl FnOnce() -> Result<R, Failure>) -> Result<R, Failure> {
    catch_unwind(AssertUnwindSafe(run))
        .unwrap_or_else(|_| Err(Failure::Unknown("the tree panicked".to_owned())))
}

/// Closing waits for the tree's workers.
fn close(tree: Option<Tree>) {
    let closed = guarded(|| {
        drop(tree);
        Ok(())
    });
    if let Err(failure) = closed {
        tracing::error!(%failure, "the tree was not closed in order");
    }
}

/// Why a group was not committed.
#[derive(Debug)]
enum Failure {
    /// The tree took nothing of it.
    NothingWritten(String),
    /// It may be in the journal, or a part of it.
    Unknown(String),
}

impl Failure {
    fn no_tree() -> Self {
        Self::NothingWritten("the tree is closed".to_owned())
    }

    fn of_commit(error: TreeError) -> Self {
        match error {
            // A commit looks at this before it writes.
            TreeError::Poisoned => Self::NothingWritten("an earlier write failed".to_owned()),
            error => Self::Unknown(error.to_string()),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::NothingWritten(reason) | Self::Unknown(reason)) = self;
        formatter.write_str(reason)
    }
}
