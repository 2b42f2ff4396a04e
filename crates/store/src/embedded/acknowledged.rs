//! The acknowledged mark: a small file that says which commit was the last to be answered as
//! durable. The journal can't say so itself: a journal that lost its end looks like a shorter one.
//!
//! Invariants: the mark is written after a commit is on disk and before it is answered, so it is
//! never ahead of what is durable. It is written without a sync: after the death of the process it
//! is exact; after a loss of power it may lag, and the check of the journal then proves less.
//! It is written into two slots by turns, so a torn write leaves the other slot readable.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use super::error::OpenError;
use super::files::{remove_file_if_there, rename_synced};
use super::stamp::StoreId;

/// The file's name in the data directory.
pub(super) const FILE: &str = "acknowledged";

const VERSION: u8 = 1;
const SLOT_LENGTH: usize = 1 + 16 + 8 + 8;
/// Each slot has a page of its own, so that one lost page is one lost slot.
const SLOT_DISTANCE: u64 = 4_096;

/// The mark, open for writing.
#[derive(Debug)]
pub(super) struct Mark {
    file: File,
    path: PathBuf,
    store: StoreId,
    sequence: u64,
    next_slot: u64,
}

impl Mark {
    /// Writes a new mark for a store that has no commit yet, synced with its directory.
    pub(super) fn create(directory: &Path, store: StoreId) -> Result<Self, OpenError> {
        let path = directory.join(FILE);
        let unfinished = directory.join("acknowledged.new");
        let create = || -> io::Result<()> {
            remove_file_if_there(&unfinished)?;
            let file = File::create_new(&unfinished)?;
            file.write_all_at(&encode(store, 0), 0)?;
            file.write_all_at(&encode(store, 0), SLOT_DISTANCE)?;
            file.sync_all()?;
            rename_synced(&unfinished, &path)
        };
        create().map_err(|error| OpenError::io("create", &path, error))?;
        Self::open(directory)?
            .ok_or_else(|| OpenError::io("create", &path, io::Error::from(io::ErrorKind::NotFound)))
    }

    /// Opens the mark; `None` if there is none.
    pub(super) fn open(directory: &Path) -> Result<Option<Self>, OpenError> {
        let path = directory.join(FILE);
        let mut file = match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(OpenError::io("open", &path, error)),
        };
        let mut bytes = Vec::new();
        (&mut file)
            .take(2 * SLOT_DISTANCE)
            .read_to_end(&mut bytes)
            .map_err(|error| OpenError::io("read", &path, error))?;
        let slot = |number: u64| {
            let start = usize::try_from(number * SLOT_DISTANCE).ok()?;
            decode(bytes.get(start..start.checked_add(SLOT_LENGTH)?)?)
        };
        let (newest, next_slot) = match (slot(0), slot(1)) {
            (Some(first), Some(second)) if first.0 != second.0 => (None, 0),
            (Some(first), Some(second)) if second.1 > first.1 => (Some(second), 0),
            (Some(first), _) => (Some(first), 1),
            (None, second) => (second, 0),
        };
        let Some((store, sequence)) = newest else {
            return Err(OpenError::MarkUnreadable { path });
        };
        Ok(Some(Self { file, path, store, sequence, next_slot }))
    }

    /// Whose mark it is.
    pub(super) fn store(&self) -> StoreId {
        self.store
    }

    /// The last commit that was answered as durable; 0: none.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Notes that `sequence` is durable and about to be answered.
    pub(super) fn record(&mut self, sequence: u64) -> Result<(), OpenError> {
        self.file
            .write_all_at(&encode(self.store, sequence), self.next_slot * SLOT_DISTANCE)
            .map_err(|error| OpenError::io("write", &self.path, error))?;
        self.sequence = sequence;
        self.next_slot = 1 - self.next_slot;
        Ok(())
    }
}

fn encode(store: StoreId, sequence: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(SLOT_LENGTH);
    bytes.push(VERSION);
    bytes.extend_from_slice(&store.0);
    bytes.extend_from_slice(&sequence.to_le_bytes());
    bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
    bytes
}

fn decode(slot: &[u8]) -> Option<(StoreId, u64)> {
    let (bytes, checksum) = slot.split_last_chunk()?;
    if xxh3_64(bytes) != u64::from_le_bytes(*checksum) {
        return None;
    }
    let (&[version], bytes) = bytes.split_first_chunk()?;
    let (&store, bytes) = bytes.split_first_chunk()?;
    let (&sequence, _) = bytes.split_first_chunk()?;
    (version == VERSION).then_some((StoreId(store), u64::from_le_bytes(sequence)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: StoreId = StoreId([9; 16]);

    fn damage(directory: &Path, slot: u64) {
        let file = OpenOptions::new().write(true).open(directory.join(FILE)).unwrap();
        file.write_all_at(&[0; SLOT_LENGTH], slot * SLOT_DISTANCE).unwrap();
    }

    #[test]
    fn the_newest_slot_counts() {
        let directory = tempfile::tempdir().unwrap();
        assert!(Mark::open(directory.path()).unwrap().is_none());
        let mut mark = Mark::create(directory.path(), STORE).unwrap();
        assert_eq!((mark.store(), mark.sequence()), (STORE, 0));
        for sequence in 1..=5 {
            mark.record(sequence).unwrap();
            let read = Mark::open(directory.path()).unwrap().unwrap();
            assert_eq!((read.store(), read.sequence()), (STORE, sequence));
        }
    }

    #[test]
    fn a_mark_that_was_opened_goes_on_in_the_older_slot() {
        let directory = tempfile::tempdir().unwrap();
        Mark::create(directory.path(), STORE).unwrap();
        for sequence in 1..=5 {
            Mark::open(directory.path()).unwrap().unwrap().record(sequence).unwrap();
        }
        let newest = Mark::open(directory.path()).unwrap().unwrap();
        assert_eq!(newest.sequence(), 5);
        damage(directory.path(), 1 - newest.next_slot);
        assert_eq!(Mark::open(directory.path()).unwrap().unwrap().sequence(), 4);
    }

    #[test]
    fn a_torn_slot_falls_back_to_the_other_and_two_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let mut mark = Mark::create(directory.path(), STORE).unwrap();
        mark.record(1).unwrap();
        damage(directory.path(), 0);
        assert!(Mark::open(directory.path()).unwrap().is_some());
        damage(directory.path(), 1);
        let error = Mark::open(directory.path()).unwrap_err();
        assert!(matches!(error, OpenError::MarkUnreadable { .. }), "{error}");
    }
}
