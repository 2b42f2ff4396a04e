//! The log-structured tree, fjall, behind the few calls that the engine needs of it.
//!
//! Invariants: each commit carries a stamp, first in its batch; the three keyspaces move from
//! memory to tables together, in an order in which `meta` is last, so what the tables of `meta`
//! reach, the others reach too; and [`Tree::commit`] never meets the places where fjall would wait
//! for its workers without end, since [`Tree::has_room`] is asked first.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use fjall::compaction::Leveled;
use fjall::config::FilterPolicy;
use fjall::{
    AbstractTree, Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Slice,
};

use super::journal::format::META_KEYSPACE;
use super::options::EmbeddedOptions;
use super::retired::Retired;
use super::stamp::{self, Stamp};
use crate::contract::{Page, Row, Scan, Space};

/// What the tree says when it fails.
pub(super) type TreeError = fjall::Error;

/// With more memtables that wait to become tables, or tables that wait to be merged, a commit could
/// be held up inside the tree, for ever if its worker fails meanwhile; see [`Tree::has_room`].
const MOST_SEALED_MEMTABLES: usize = 2;
const MOST_UNMERGED_RUNS: usize = 19;

/// The size of a table. Smaller tables mean shorter merges, and a merge is what a move from memory
/// to a table may have to wait for, since both are work of the one worker.
const TABLE_BYTES: u64 = 16 << 20;

/// Open files of tables at most: well below the usual limit of 1,024 for a process.
const OPEN_TABLES: usize = 300;

/// One change of one key.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) space: Space,
    pub(super) key: Slice,
    /// Absent: the key is removed.
    pub(super) value: Option<Slice>,
}

/// An open tree. It can't be cloned: whoever holds it can close it.
pub(super) struct Tree {
    database: Database,
    records: Keyspace,
    index: Keyspace,
    meta: Keyspace,
    retired: Retired,
    memtable_bytes: u64,
    /// Written since the last move from memory to tables. Only the committer changes it.
    unmoved_bytes: AtomicU64,
}

impl Tree {
    /// Opens the tree at `path`, creating it if it does not exist.
    pub(super) fn open(path: &Path, options: &EmbeddedOptions) -> Result<Self, TreeError> {
        let database = Database::builder(path)
            .cache_size(options.cache_bytes)
            .max_cached_files(Some(OPEN_TABLES))
            // A second worker would spin while the first one merges.
            .worker_threads(1)
            .open()?;
        let records = database.keyspace("records", keyspace_options)?;
        // The index is only scanned, and filters serve single reads.
        let unfiltered = || keyspace_options().filter_policy(FilterPolicy::disabled());
        let index = database.keyspace("index", unfiltered)?;
        let meta = database.keyspace("meta", keyspace_options)?;
        if meta.id() != META_KEYSPACE {
            return Err(TreeError::Unrecoverable);
        }
        let unmoved_bytes = [&records, &index, &meta]
            .map(|keyspace| keyspace.tree.active_memtable().size())
            .iter()
            .sum();
        let memtable_bytes = options.memtable_bytes;
        let unmoved_bytes = AtomicU64::new(unmoved_bytes);
        let retired = Retired::new()?;
        Ok(Self { database, records, index, meta, retired, memtable_bytes, unmoved_bytes })
    }

    /// Reads one record.
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Slice>, TreeError> {
        self.records.get(key)
    }

    /// Reads the stamp of the last commit.
    pub(super) fn stamp(&self) -> Result<Option<Stamp>, TreeError> {
        Ok(self.meta.get(stamp::KEY)?.and_then(|bytes| Stamp::decode(&bytes)))
    }

    /// Commits, and syncs if asked to.
    pub(super) fn commit(
        &self,
        writes: Vec<Write>,
        stamp: &Stamp,
        sync: bool,
    ) -> Result<(), TreeError> {
        let mode = if sync { PersistMode::SyncData } else { PersistMode::Buffer };
        let database = self.database.clone();
        let mut batch = fjall::OwnedWriteBatch::with_capacity(database, writes.len() + 1)
            .durability(Some(mode));
        batch.insert(&self.meta, stamp::KEY, stamp.encode());
        let mut bytes = WRITE_OVERHEAD_BYTES;
        for Write { space, key, value } in writes {
            let length = key.len() + value.as_ref().map_or(0, |value| value.len());
            bytes += u64::try_from(length).unwrap_or(0) + WRITE_OVERHEAD_BYTES;
            let keyspace = match space {
                Space::Records => &self.records,
                Space::Index => &self.index,
            };
            match value {
                Some(value) => batch.insert(keyspace, key, value),
                None => batch.remove(keyspace, key),
            }
        }
        self.unmoved_bytes.fetch_add(bytes, Ordering::Relaxed);
        batch.commit()
    }

    /// Syncs all commits so far.
    pub(super) fn sync(&self) -> Result<(), TreeError> {
        self.database.persist(PersistMode::SyncData)
    }

    /// Whether a commit would go through without waiting for the worker. An error: the worker has
    /// failed, and there never will be room.
    pub(super) fn has_room(&self) -> Result<bool, TreeError> {
        let unmoved =
            |keyspace: &&Keyspace| keyspace.tree.sealed_memtable_count() > MOST_SEALED_MEMTABLES;
        let unmerged = |keyspace: &&Keyspace| keyspace.tree.l0_run_count() > MOST_UNMERGED_RUNS;
        let keyspaces = [&self.records, &self.index, &self.meta];
        let unmerged = keyspaces.into_iter().find(unmerged);
        if unmerged.is_none() && !keyspaces.iter().any(unmoved) {
            return Ok(true);
        }
        // This tells whether the worker has failed, and costs no sync.
        self.database.persist(PersistMode::Buffer)?;
        if let Some(keyspace) = unmerged {
            // The worker merges once for each move that it makes. If that was not enough, no move
            // will come that makes it merge again, since moves come of commits.
            let oldest_read = self.database.supervisor.snapshot_tracker.get_seqno_safe_to_gc();
            let strategy = Arc::clone(&keyspace.config.compaction_strategy);
            keyspace.tree.compact(strategy, oldest_read)?;
        }
        Ok(false)
    }

    /// Whether enough was written since the last move from memory to tables.
    pub(super) fn move_is_due(&self) -> bool {
        self.unmoved_bytes.load(Ordering::Relaxed) >= self.memtable_bytes
    }

    /// Starts a move from memory to tables.
    pub(super) fn start_move(&self) -> Result<(), TreeError> {
        self.unmoved_bytes.store(0, Ordering::Relaxed);
        for keyspace in [&self.records, &self.index, &self.meta] {
            self.retired.hold([keyspace.tree.active_memtable()]);
            keyspace.rotate_memtable()?;
        }
        self.retired.free();
        Ok(())
    }

    /// Reads a range of what is committed.
    pub(super) fn scan(&self, scan: &Scan) -> Result<Page, TreeError> {
        let keyspace = match scan.space {
            Space::Records => &self.records,
            Space::Index => &self.index,
        };
        let start = scan.start.as_ref();
        let snapshot = self.database.snapshot();
        let range = if scan.end.is_empty() {
            snapshot.range(keyspace, start..)
        } else if scan.end <= scan.start {
            return Ok(Page::default());
        } else {
            snapshot.range(keyspace, start..scan.end.as_ref())
        };
        let (mut page, mut bytes) = (Page::default(), 0_usize);
        for entry in range {
            let (key, value) = entry.into_inner()?;
            bytes = bytes.saturating_add(key.len() + value.len());
            let full = page.rows.len() >= scan.limit || bytes > scan.max_bytes;
            if full && !page.rows.is_empty() {
                page.more = true;
                break;
            }
            page.rows.push(Row {
                key: Bytes::copy_from_slice(&key),
                value: Bytes::copy_from_slice(&value),
            });
        }
        Ok(page)
    }
}

/// What a write takes in memory beside its key and value, roughly.
const WRITE_OVERHEAD_BYTES: u64 = 100;

fn keyspace_options() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        // Moves are started by `start_move`: one request at a time, so that the workers' queue
        // can't fill with requests while they are busy.
        .max_memtable_size(u64::MAX)
        .compaction_strategy(Arc::new(Leveled::default().with_table_target_size(TABLE_BYTES)))
}

/// Reads the stamp of the last commit that reached the tables, without the journal and without
/// opening the tree. May remove files of a move that was interrupted, to which nothing refers.
pub(super) fn stamp_in_tables(path: &Path) -> Result<Option<Stamp>, lsm_tree::Error> {
    let counter = lsm_tree::SequenceNumberCounter::default;
    let path = path.join("keyspaces").join(META_KEYSPACE.to_string());
    let tree = lsm_tree::Config::new(path, counter(), counter()).open()?;
    let stamp = tree.get(stamp::KEY, fjall::SeqNo::MAX)?;
    Ok(stamp.and_then(|bytes| Stamp::decode(&bytes)))
}
