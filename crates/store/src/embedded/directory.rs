//! The data directory: its lock, its creation, and the one way to open what is in it.
//!
//! ```text
//! lock           held while a process uses the directory
//! acknowledged   the mark: which commit was the last to be answered as durable
//! tree/          the log-structured tree with its journals, `*.jnl`
//! ```
//!
//! Invariants: `tree` appears whole or not at all, and only after the mark; so a mark above zero
//! without a tree, or a tree without a mark, means that something was lost. Nothing is changed
//! before the journal is checked.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::acknowledged::{self, Mark};
use super::error::OpenError;
use super::files::{remove_directory_if_there, rename_synced, sync_directory};
use super::journal::{self, Expectation};
use super::options::EmbeddedOptions;
use super::stamp::{Stamp, StoreId};
use super::tree::{self, Tree};

const LOCK_FILE: &str = "lock";
const TREE: &str = "tree";

/// A data directory that this process has for itself.
#[derive(Debug)]
pub(super) struct Directory {
    options: EmbeddedOptions,
    tree: PathBuf,
    /// Unlocked when it is closed.
    _lock: File,
}

/// What was opened.
pub(super) struct Opened {
    pub(super) tree: Tree,
    pub(super) mark: Mark,
    /// The last commit, which is on disk, with the newest time that any commit was given.
    pub(super) last: Stamp,
}

impl Directory {
    /// Takes the directory, creating it if it does not exist.
    pub(super) fn lock(options: EmbeddedOptions) -> Result<Self, OpenError> {
        let path = &options.path;
        std::fs::create_dir_all(path).map_err(|error| OpenError::io("create", path, error))?;
        let lock_path = path.join(LOCK_FILE);
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path)
            .map_err(|error| OpenError::io("open", &lock_path, error))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { tree: path.join(TREE), options, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(OpenError::Locked { path: path.clone() }),
            Err(TryLockError::Error(error)) => Err(OpenError::io("lock", &lock_path, error)),
        }
    }

    /// Checks what is there and opens it, or creates it. Commits after `keep_through` are cut off.
    pub(super) fn open(&self, keep_through: u64) -> Result<Opened, OpenError> {
        let path = &self.options.path;
        let exists =
            self.tree.try_exists().map_err(|error| OpenError::io("look for", &self.tree, error))?;
        match (Mark::open(path)?, exists) {
            (None, true) => Err(OpenError::MarkMissing { path: path.join(acknowledged::FILE) }),
            (Some(mark), false) if mark.sequence() > 0 => Err(OpenError::DataMissing {
                path: self.tree.clone(),
                acknowledged: mark.sequence(),
            }),
            (Some(mark), true) => self.recover(mark, keep_through),
            (_, false) => {
                let mark = self.create()?;
                self.recover(mark, keep_through)
            }
        }
    }

    /// Builds an empty tree aside and renames it, so that a crash leaves none or a whole one.
    fn create(&self) -> Result<Mark, OpenError> {
        let path = &self.options.path;
        let unfinished = path.join("tree.new");
        remove_directory_if_there(&unfinished)
            .map_err(|error| OpenError::io("remove", &unfinished, error))?;
        let tree = Tree::open(&unfinished, &self.options)
            .map_err(|error| OpenError::engine(&unfinished, error))?;
        drop(tree);
        let mark = Mark::create(path, new_store_id(path)?)?;
        let publish = || -> io::Result<()> {
            sync_directory(&unfinished)?;
            rename_synced(&unfinished, &self.tree)?;
            path.canonicalize()?.parent().map_or(Ok(()), sync_directory)
        };
        publish().map_err(|error| OpenError::io("create", &self.tree, error))?;
        tracing::info!(path = %path.display(), "created an empty store");
        Ok(mark)
    }

    fn recover(&self, mut mark: Mark, keep_through: u64) -> Result<Opened, OpenError> {
        let (store, acknowledged) = (mark.store(), mark.sequence());
        let expectation = Expectation { store, acknowledged, keep_through };
        let journal = journal::check(&self.tree, &expectation)?;
        let in_tables = tree::stamp_in_tables(&self.tree)
            .map_err(|error| OpenError::engine(&self.tree, error))?;
        journal
            .judge_tables(self.sequence_of(store, in_tables)?)
            .map_err(|found| self.incomplete(found))?;
        let torn_bytes = journal.cut()?;
        if torn_bytes > 0 {
            tracing::warn!(
                torn_bytes,
                path = %self.tree.display(),
                "cut off the end of a commit that was interrupted before it was acknowledged"
            );
        }
        // This also syncs the journal, so all that is found now is durable.
        let tree = Tree::open(&self.tree, &self.options)
            .map_err(|error| OpenError::engine(&self.tree, error))?;
        let found = tree.stamp().map_err(|error| OpenError::engine(&self.tree, error))?;
        let reached = self.sequence_of(store, found)?;
        // The journal counts on from its own end, even if the tables are ahead of it.
        let sequence = journal.last.map_or(reached, |last| last.sequence);
        if reached < sequence.max(acknowledged) {
            return Err(self.incomplete(format!(
                "after opening they hold {reached} commits, but {sequence} were in the journal and \
                 {acknowledged} were acknowledged"
            )));
        }
        mark.record(sequence)?;
        let now_us = found.map_or(0, |stamp| stamp.now_us);
        let last = Stamp { store, sequence, synced: sequence, now_us };
        Ok(Opened { tree, mark, last })
    }

    fn sequence_of(&self, store: StoreId, stamp: Option<Stamp>) -> Result<u64, OpenError> {
        match stamp {
            Some(stamp) if stamp.store != store => {
                Err(self.incomplete("they belong to another store than the mark".to_owned()))
            }
            stamp => Ok(stamp.map_or(0, |stamp| stamp.sequence)),
        }
    }

    /// The tree refused, for a reason that only it knows.
    pub(super) fn refused(&self, reason: String) -> OpenError {
        OpenError::engine(&self.tree, reason)
    }

    fn incomplete(&self, found: String) -> OpenError {
        OpenError::TablesIncomplete { path: self.tree.clone(), found }
    }
}

#[allow(clippy::disallowed_methods, reason = "a store gets its name once, when it is created")]
fn new_store_id(path: &Path) -> Result<StoreId, OpenError> {
    let mut id = [0; 16];
    getrandom::fill(&mut id)
        .map_err(|error| OpenError::io("name", path, io::Error::other(error)))?;
    Ok(StoreId(id))
}
