//! Journals that are healthy, torn, or damaged, and what the check says of each.

use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use tempfile::TempDir;

use super::format::encode_batch;
use super::*;

const STORE: StoreId = StoreId([5; 16]);
const RESERVED: usize = 10_000;

/// Journals on disk, made of batches whose places are known.
struct Journals {
    directory: TempDir,
    /// Of each file, its bytes, and where each batch ends.
    files: Vec<(Vec<u8>, Vec<usize>)>,
    next: u64,
}

impl Journals {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), files: Vec::new(), next: 1 }
    }

    /// Begins a file.
    fn file(mut self) -> Self {
        self.files.push((Vec::new(), vec![0]));
        self
    }

    /// Adds a batch whose predecessor was synced, or a relaxed one.
    fn batch(mut self, synced: u64, size: usize) -> Self {
        let stamp = Stamp { store: STORE, sequence: self.next, synced, now_us: 0 };
        let (bytes, ends) = self.files.last_mut().unwrap();
        bytes.extend(encode_batch(&stamp, &[(b"key", &vec![0xaa; size])]));
        ends.push(bytes.len());
        self.next += 1;
        self
    }

    /// Adds batches that were synced one by one.
    fn batches(self, count: usize, size: usize) -> Self {
        (0..count).fold(self, |journals, _| {
            let synced = journals.next - 1;
            journals.batch(synced, size)
        })
    }

    fn path(&self, file: usize) -> PathBuf {
        self.directory.path().join(format!("{file}.jnl"))
    }

    /// Writes the files, each with reserved space at its end.
    fn write(self) -> Self {
        for (number, (bytes, _)) in self.files.iter().enumerate() {
            let mut bytes = bytes.clone();
            bytes.resize(bytes.len() + RESERVED, 0);
            fs::write(self.path(number), bytes).unwrap();
        }
        self
    }

    fn edit(&self, file: usize, edit: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(self.path(file)).unwrap();
        edit(&mut bytes);
        fs::write(self.path(file), bytes).unwrap();
    }

    fn zero(&self, file: usize, start: usize, length: usize) {
        self.edit(file, |bytes| {
            let end = bytes.len().min(start + length);
            bytes[start..end].fill(0);
        });
    }

    fn end(&self, file: usize, batch: usize) -> usize {
        self.files[file].1[batch]
    }

    fn check(&self, acknowledged: u64) -> Result<Checked, OpenError> {
        self.check_through(acknowledged, u64::MAX)
    }

    fn check_through(&self, acknowledged: u64, keep: u64) -> Result<Checked, OpenError> {
        let expectation = Expectation { store: STORE, acknowledged, keep_through: keep };
        check(self.directory.path(), &expectation)
    }

    /// Expects a refusal, and gives the file, the offset and the finding.
    fn refused(&self, acknowledged: u64) -> (String, u64, String) {
        match self.check(acknowledged) {
            Err(OpenError::JournalDamaged { path, offset, found }) => {
                (path.file_name().unwrap().to_str().unwrap().to_owned(), offset, found)
            }
            other => panic!("not refused: {other:?}"),
        }
    }

    fn length(&self, file: usize) -> usize {
        usize::try_from(fs::metadata(self.path(file)).unwrap().len()).unwrap()
    }
}

fn last(checked: &Checked) -> Option<u64> {
    checked.last.map(|stamp| stamp.sequence)
}

#[test]
fn a_healthy_journal_is_cut_to_its_last_batch_and_no_more() {
    let journals = Journals::new().file().batches(5, 3_000).file().batches(4, 100).write();
    let checked = journals.check(9).unwrap();
    assert_eq!((checked.first, last(&checked)), (Some(1), Some(9)));
    assert_eq!(checked.cut().unwrap(), 0, "reserved space is no torn write");
    assert_eq!((journals.length(0), journals.length(1)), (journals.end(0, 5), journals.end(1, 4)));
    assert_eq!(last(&journals.check(9).unwrap()), Some(9), "and it stays healthy");
}

#[test]
fn looking_changes_nothing() {
    let journals = Journals::new().file().batches(5, 3_000).write();
    journals.edit(0, |bytes| bytes.truncate(12_000));
    let before = fs::read(journals.path(0)).unwrap();
    journals.check(3).unwrap();
    journals.check(5).unwrap_err();
    assert!(fs::read(journals.path(0)).unwrap() == before);
}

#[test]
fn a_torn_write_after_all_that_was_acknowledged_is_cut_off() {
    let journals = Journals::new().file().batches(5, 3_000).write();
    let (kept, torn) = (journals.end(0, 4), journals.end(0, 5));
    for cut in [kept + 1, kept + 100, torn - 1] {
        let journals = Journals::new().file().batches(5, 3_000).write();
        journals.edit(0, |bytes| bytes[cut..].fill(0));
        let checked = journals.check(4).unwrap();
        assert_eq!(last(&checked), Some(4));
        assert!(checked.cut().unwrap() > 0);
        assert_eq!(journals.length(0), kept);
    }
    // The same, but the reserved space ends with the torn write.
    journals.edit(0, |bytes| bytes.truncate(torn - 1));
    let checked = journals.check(4).unwrap();
    assert_eq!(checked.cut().unwrap(), u64::try_from(torn - 1 - kept).unwrap());
    assert_eq!(journals.length(0), kept);
}

#[test]
fn a_last_batch_that_was_acknowledged_is_missed() {
    let journals = Journals::new().file().batches(5, 3_000).write();
    journals.zero(0, journals.end(0, 5) - 2, 1);
    let (file, offset, found) = journals.refused(5);
    assert_eq!((file.as_str(), offset), ("0.jnl", u64::try_from(journals.end(0, 4)).unwrap()));
    assert_eq!(found, "the journal ends at commit 4, but commit 5 was acknowledged");
    journals.check(4).unwrap();
}

#[test]
fn batches_after_the_damage_prove_a_loss_even_without_a_mark() {
    let journals = Journals::new().file().batches(9, 3_000).write();
    journals.zero(0, journals.end(0, 4) + 500, 16);
    let (file, offset, found) = journals.refused(0);
    assert_eq!((file.as_str(), offset), ("0.jnl", u64::try_from(journals.end(0, 4)).unwrap()));
    assert!(found.starts_with("4 whole commits follow the damage, the first of them commit 6"));
}

#[test]
fn damage_at_the_end_of_a_file_is_found_by_the_next_file() {
    let journals = Journals::new().file().batches(5, 3_000).file().batches(2, 100).write();
    journals.zero(0, journals.end(0, 4), 2 * 3_000);
    let (file, offset, found) = journals.refused(0);
    assert_eq!((file.as_str(), offset), ("1.jnl", 0));
    assert!(found.starts_with("2 whole commits follow the damage"), "{found}");
}

#[test]
fn a_file_that_is_gone_is_missed() {
    let journals = Journals::new().file().batches(3, 9).file().batches(3, 9).file().batches(3, 9);
    let journals = journals.write();
    fs::remove_file(journals.path(1)).unwrap();
    journals.refused(0);
    fs::remove_file(journals.path(0)).unwrap();
    // What is left is contiguous. Whether the tables reach its front, they must say.
    let checked = journals.check(9).unwrap();
    assert_eq!((checked.first, last(&checked)), (Some(7), Some(9)));
    checked.judge_tables(6).unwrap();
    let missing = checked.judge_tables(5).unwrap_err();
    assert_eq!(missing, "they end at commit 5, but the oldest journal begins at commit 7");
    fs::remove_file(journals.path(2)).unwrap();
    let checked = journals.check(9).unwrap();
    checked.judge_tables(9).unwrap();
    checked.judge_tables(8).unwrap_err();
}

#[test]
fn dirt_after_the_last_batch_of_a_sealed_file_loses_nothing_if_the_next_goes_on() {
    let journals = Journals::new().file().batches(5, 3_000).file().batches(2, 100).write();
    let end = journals.end(0, 5);
    journals.edit(0, |bytes| bytes[end + 10] = 1);
    let checked = journals.check(7).unwrap();
    assert!(checked.cut().unwrap() > 0);
    assert_eq!(journals.length(0), end);
    // Before the first batch of a file it is another matter: the tree would read none of it.
    journals.edit(1, |bytes| bytes.splice(0..0, [0; 7]).for_each(drop));
    journals.refused(7);
}

#[test]
fn relaxed_commits_that_were_never_synced_may_be_torn_in_any_order() {
    let journals = Journals::new().file().batches(3, 3_000);
    let journals = (0..4).fold(journals, |journals, _| journals.batch(3, 3_000)).write();
    journals.zero(0, journals.end(0, 4) + 100, 50);
    let checked = journals.check(3).unwrap();
    assert_eq!(last(&checked), Some(4));
    checked.cut().unwrap();
    assert_eq!(journals.length(0), journals.end(0, 4));
    // A later word that they were synced turns the same tear into a loss.
    let journals = Journals::new().file().batches(3, 3_000);
    let journals = (0..4).fold(journals, |journals, _| journals.batch(3, 3_000));
    let journals = journals.batch(7, 3_000).write();
    journals.zero(0, journals.end(0, 4) + 100, 50);
    let (.., found) = journals.refused(3);
    assert!(found.contains("commit 4 comes before it"), "{found}");
}

#[test]
fn a_batch_that_comes_back_is_damage() {
    let journals = Journals::new().file().batches(3, 100).write();
    let (first, end) = (journals.end(0, 1), journals.end(0, 3));
    journals.edit(0, |bytes| bytes.copy_within(0..first, end));
    let (_, offset, found) = journals.refused(0);
    assert_eq!(offset, u64::try_from(end).unwrap());
    assert_eq!(found, "commit 1 stands after a later one");
}

#[test]
fn commits_after_a_failed_sync_are_cut_off() {
    let journals = Journals::new().file().batches(5, 3_000).write();
    let checked = journals.check_through(3, 3).unwrap();
    assert_eq!(last(&checked), Some(3));
    checked.cut().unwrap();
    assert_eq!(journals.length(0), journals.end(0, 3));
}

#[test]
fn the_journal_of_another_store_is_refused() {
    let journals = Journals::new().file().batches(5, 3_000).write();
    let expectation =
        Expectation { store: StoreId([6; 16]), acknowledged: 5, keep_through: u64::MAX };
    let checked = check(journals.directory.path(), &expectation).unwrap();
    assert_eq!(last(&checked), None);
    checked.judge_tables(4).unwrap_err();
}

#[test]
fn files_that_are_no_journals_are_left_alone_and_a_strange_journal_is_not() {
    let journals = Journals::new().file().batches(1, 100).write();
    fs::write(journals.directory.path().join("notes.txt"), "hello").unwrap();
    journals.check(1).unwrap();
    fs::write(journals.directory.path().join("copy of 0.jnl"), "hello").unwrap();
    assert!(matches!(journals.check(1).unwrap_err(), OpenError::Io { .. }));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever is overwritten: all that was acknowledged is kept, or the journal is refused.
    #[test]
    fn no_acknowledged_commit_is_ever_cut_off(
        sizes in prop::collection::vec(0..9_000_usize, 1..30),
        new_file_at in 1..30_usize,
        start in 0.0..1.0_f64,
        length in 1..10_000_usize,
        filler in any::<u8>(),
        mark_lags in any::<bool>(),
    ) {
        let mut journals = Journals::new().file();
        for (number, size) in sizes.iter().enumerate() {
            if number == new_file_at {
                journals = journals.file();
            }
            journals = journals.batches(1, *size);
        }
        let journals = journals.write();
        let total = u64::try_from(sizes.len()).unwrap();
        let acknowledged = if mark_lags { total / 2 } else { total };
        let file = journals.files.len() - 1;
        let used = journals.files[file].0.len();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss,
            reason = "a place in a small file")]
        let start = (start * used as f64) as usize;
        let before = fs::read(journals.path(file)).unwrap();
        journals.edit(file, |bytes| {
            let end = bytes.len().min(start + length);
            bytes[start..end].fill(filler);
        });
        let after = fs::read(journals.path(file)).unwrap();
        // What comes before a batch that still stands must be there, or be missed.
        let standing = |batch: &usize| {
            let range = journals.end(file, batch - 1)..journals.end(file, *batch);
            before[range.clone()] == after[range]
        };
        let batches = journals.files[file].1.len() - 1;
        let standing = (1..=batches).rev().find(standing).map_or(0, |batch| {
            total - u64::try_from(batches - batch).unwrap()
        });
        match journals.check(acknowledged) {
            Ok(checked) => {
                let kept = last(&checked).unwrap_or(0);
                let empty_and_missed = kept == 0 && checked.judge_tables(0).is_err();
                prop_assert!(kept >= acknowledged.max(standing) || empty_and_missed);
            }
            Err(error) => {
                prop_assert!(before != after, "a healthy journal was refused: {error}");
            }
        }
    }
}
