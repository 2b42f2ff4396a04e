//! What the engine does with files that are not as it left them: everything that was acknowledged
//! is there, or opening is refused and nothing was changed.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::support::*;
use crate::contract::Store;
use crate::embedded::tree::Tree;
use crate::embedded::{EmbeddedOptions, OpenError};

const PAGE: u64 = 4_096;

/// A store that died: its files, and what it had acknowledged.
struct Remains {
    directory: tempfile::TempDir,
    acknowledged: Vec<(Bytes, Bytes)>,
}

/// Numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

/// Commits batches of random sizes one by one and takes the files while the store still runs.
fn remains(batches: u32, most_items: u64, most_bytes: u64, seed: u64) -> Remains {
    let living = tempfile::tempdir().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let store = open(living.path());
    let (mut numbers, mut acknowledged) = (Numbers(seed), Vec::new());
    for batch in 0..batches {
        let mut item = |item: u64| {
            let length = usize::try_from(numbers.below(most_bytes)).unwrap();
            let mut value = format!("{batch}/{item}/").into_bytes();
            value.resize(value.len() + length, b'.');
            (Bytes::from(format!("{batch}/{item}")), Bytes::from(value))
        };
        let items: Vec<_> = (0..=u64::from(batch) % most_items).map(&mut item).collect();
        let updates =
            items.iter().map(|(key, value)| update(key.clone(), Step::Put(value.clone())));
        for answer in run(store.update(updates.collect())) {
            answer.unwrap();
        }
        acknowledged.extend(items);
    }
    copy_directory(living.path(), directory.path());
    Remains { directory, acknowledged }
}

impl Remains {
    fn journal(&self) -> PathBuf {
        self.directory.path().join("tree/0.jnl")
    }

    /// A copy to be damaged.
    fn copy(&self) -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        copy_directory(self.directory.path(), copy.path());
        copy
    }

    /// Cuts the journal in two, as if it had been full in between: one that is sealed, and one that
    /// is in use.
    fn seal(&self) {
        let bytes = fs::read(self.journal()).unwrap();
        let middle = bytes.len() / 2;
        // Each batch ends with these bytes, and no value contains them.
        let end = bytes[middle..].windows(4).position(|window| window == b"FJL\x03").unwrap();
        let (sealed, active) = bytes.split_at(middle + end + 4);
        fs::write(self.journal(), sealed).unwrap();
        fs::write(self.journal().with_file_name("1.jnl"), active).unwrap();
    }

    fn missing(&self, found: &std::collections::BTreeMap<Bytes, Bytes>) -> usize {
        self.acknowledged.iter().filter(|(key, value)| found.get(key) != Some(value)).count()
    }
}

fn zero_page(path: &Path, page: u64) {
    let length = fs::metadata(path).unwrap().len();
    let start = (page * PAGE).min(length);
    let zeros = vec![0; usize::try_from(PAGE.min(length - start)).unwrap()];
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(&zeros, start).unwrap();
}

/// One trial: true if the store opened, with everything; false if it refused, changing nothing.
fn opens_whole_or_refuses(remains: &Remains, copy: &Path) -> bool {
    let before = contents(copy);
    match try_open(copy) {
        Ok(store) => {
            let missing = remains.missing(&run(records(&store)));
            assert_eq!(missing, 0, "acknowledged records are gone, and nobody was told");
            true
        }
        Err(OpenError::JournalDamaged { path, found, .. }) => {
            assert!(path.starts_with(copy), "{}", path.display());
            assert!(!found.is_empty());
            assert!(contents(copy) == before, "opening was refused, and files were changed");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

fn zeroed_pages(remains: &Remains, trials: u64, file: &str) {
    let mut numbers = Numbers(trials);
    let journal = Path::new("tree").join(file);
    let pages = fs::metadata(remains.directory.path().join(&journal)).unwrap().len().div_ceil(PAGE);
    let mut refused = 0;
    for _ in 0..trials {
        let copy = remains.copy();
        zero_page(&copy.path().join(&journal), numbers.below(pages));
        refused += u64::from(!opens_whole_or_refuses(remains, copy.path()));
    }
    // Nearly every page of the journal holds a part of some commit.
    assert!(refused > trials * 9 / 10, "{refused} of {trials} were refused");
}

#[test]
fn a_zeroed_page_among_commits_of_many_pages_is_never_passed_over() {
    zeroed_pages(&remains(60, 20, 9_000, 1), 60, "0.jnl");
}

#[test]
fn a_zeroed_page_among_many_commits_of_one_page_is_never_passed_over() {
    zeroed_pages(&remains(400, 2, 300, 2), 60, "0.jnl");
}

#[test]
fn a_zeroed_page_in_a_sealed_journal_is_never_passed_over() {
    let remains = remains(200, 8, 2_000, 3);
    remains.seal();
    assert!(opens_whole_or_refuses(&remains, remains.copy().path()), "it is whole before damage");
    zeroed_pages(&remains, 40, "0.jnl");
    zeroed_pages(&remains, 40, "1.jnl");
}

#[test]
fn the_tree_by_itself_would_lose_commits_after_a_zeroed_page_without_a_word() {
    let remains = remains(100, 4, 2_000, 4);
    let copy = remains.copy();
    let journal = copy.path().join("tree/0.jnl");
    let pages = fs::metadata(&journal).unwrap().len() / PAGE;
    zero_page(&journal, pages / 3);
    assert!(!opens_whole_or_refuses(&remains, copy.path()));
    let tree = Tree::open(&copy.path().join("tree"), &options(copy.path())).unwrap();
    let present = |(key, _): &&(Bytes, Bytes)| tree.get(key).unwrap().is_some();
    let kept = remains.acknowledged.iter().filter(present).count();
    assert!(kept < remains.acknowledged.len() / 2, "the check may be needless now: {kept} kept");
}

#[test]
fn the_end_of_a_commit_that_was_torn_before_its_answer_is_cut_off() {
    let remains = remains(20, 4, 2_000, 5);
    let copy = remains.copy();
    let journal = copy.path().join("tree/0.jnl");
    let mut bytes = fs::read(&journal).unwrap();
    let whole = bytes.len();
    // The front of another commit, as a copy of an older one.
    bytes.extend_from_within(..100);
    bytes.extend([0; 5_000]);
    fs::write(&journal, bytes).unwrap();
    assert!(opens_whole_or_refuses(&remains, copy.path()));
    assert_eq!(fs::metadata(&journal).unwrap().len(), u64::try_from(whole).unwrap());
    assert!(opens_whole_or_refuses(&remains, copy.path()), "and it can be opened again");
}

#[test]
fn a_journal_that_lost_its_end_is_refused() {
    let remains = remains(20, 4, 2_000, 6);
    let copy = remains.copy();
    let journal = copy.path().join("tree/0.jnl");
    let length = fs::metadata(&journal).unwrap().len();
    for cut in [1, 5_000, length] {
        let file = OpenOptions::new().write(true).open(&journal).unwrap();
        file.set_len(length - cut).unwrap();
        let before = contents(copy.path());
        let error = try_open(copy.path()).unwrap_err();
        let expected = if cut == length { "the journal is empty" } else { "was acknowledged" };
        assert!(error.to_string().contains(expected), "{error}");
        assert!(contents(copy.path()) == before);
    }
}

#[test]
fn a_mark_that_is_lost_or_unreadable_is_refused() {
    let remains = remains(5, 2, 100, 7);
    let copy = remains.copy();
    let mark = copy.path().join("acknowledged");
    zero_page(&mark, 0);
    assert!(opens_whole_or_refuses(&remains, copy.path()), "one slot is enough");
    zero_page(&mark, 0);
    zero_page(&mark, 1);
    let before = contents(copy.path());
    let error = try_open(copy.path()).unwrap_err();
    assert!(matches!(error, OpenError::MarkUnreadable { .. }), "{error}");
    assert!(contents(copy.path()) == before);
    fs::remove_file(&mark).unwrap();
    let error = try_open(copy.path()).unwrap_err();
    assert!(matches!(error, OpenError::MarkMissing { .. }), "{error}");
    assert!(!mark.exists());
}

#[test]
fn a_tree_that_is_gone_is_missed() {
    let remains = remains(5, 2, 100, 8);
    let copy = remains.copy();
    fs::remove_dir_all(copy.path().join("tree")).unwrap();
    let error = try_open(copy.path()).unwrap_err();
    assert!(matches!(error, OpenError::DataMissing { acknowledged: 5, .. }), "{error}");
    assert!(!copy.path().join("tree").exists());
}

#[test]
fn tables_that_are_older_than_the_journal_are_missed() {
    let directory = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions { memtable_bytes: 16 << 20, ..options(directory.path()) };
    let store = crate::embedded::EmbeddedStore::open(options).unwrap();
    run(put(&store, "key", "value")).unwrap();
    let old = tempfile::tempdir().unwrap();
    copy_directory(directory.path(), old.path());
    // Until the first journal is full, moved to tables, and removed.
    let first = directory.path().join("tree/0.jnl");
    let mut number = 0_u32;
    while first.exists() {
        run(put(&store, number.to_be_bytes().to_vec(), vec![1; 1 << 20])).unwrap();
        number += 1;
    }
    store.close();
    drop(store);
    let tables = directory.path().join("tree/keyspaces");
    fs::remove_dir_all(&tables).unwrap();
    copy_directory(&old.path().join("tree/keyspaces"), &tables);
    let error = try_open(directory.path()).unwrap_err();
    assert!(matches!(error, OpenError::TablesIncomplete { .. }), "{error}");
}

#[test]
fn a_creation_that_was_interrupted_is_begun_anew() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path()));
    let (tree, unfinished) = (directory.path().join("tree"), directory.path().join("tree.new"));
    // The mark is there, and the tree is not yet in its place.
    fs::rename(&tree, &unfinished).unwrap();
    fs::remove_dir_all(unfinished.join("keyspaces")).unwrap();
    run(put(&open(directory.path()), "key", "value")).unwrap();
    assert!(!unfinished.exists());
    assert_eq!(run(records(&open(directory.path()))).len(), 1);
    // Not even the mark.
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("tree.new")).unwrap();
    fs::write(directory.path().join("acknowledged.new"), "half").unwrap();
    run(put(&open(directory.path()), "key", "value")).unwrap();
}
