//! What the tests of the engine share.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::super::{EmbeddedOptions, EmbeddedStore, OpenError};
use crate::clock::ManualClock;
use crate::contract::{
    Change, Durability, IndexChange, Scan, Space, Store, StoreError, Transition, Update,
    ValueChange,
};

/// Writes a record and an index entry, or reads it.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Put(Bytes),
    Read,
    Panic,
}

impl Transition for Step {
    /// The old value and the time.
    type Outcome = (Option<Bytes>, u64);

    fn apply(&self, old: Option<&[u8]>, now_us: u64) -> (Change, Self::Outcome) {
        let outcome = (old.map(Bytes::copy_from_slice), now_us);
        match self {
            Self::Put(value) => {
                let index = vec![IndexChange::Put {
                    key: value.slice(..value.len().min(100)),
                    value: Bytes::from_static(b"entry"),
                }];
                (Change { value: ValueChange::Put(value.clone()), index }, outcome)
            }
            Self::Read => (Change::keep(), outcome),
            Self::Panic => panic!("a rule with a bug"),
        }
    }
}

pub(super) fn update(key: impl Into<Bytes>, transition: Step) -> Update<Step> {
    Update { key: key.into(), durability: Durability::Synced, patience: None, transition }
}

pub(super) fn run<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

pub(super) fn options(path: &Path) -> EmbeddedOptions {
    EmbeddedOptions::new(path).with_clock(ManualClock::new(1_000_000))
}

pub(super) fn open(path: &Path) -> EmbeddedStore {
    try_open(path).unwrap()
}

pub(super) fn try_open(path: &Path) -> Result<EmbeddedStore, OpenError> {
    EmbeddedStore::open(options(path))
}

pub(super) async fn put(
    store: &EmbeddedStore,
    key: impl Into<Bytes>,
    value: impl Into<Bytes>,
) -> Result<(), StoreError> {
    store.update(vec![update(key, Step::Put(value.into()))]).await.remove(0).map(|_| ())
}

pub(super) async fn read(
    store: &EmbeddedStore,
    key: impl Into<Bytes>,
) -> Result<Option<Bytes>, StoreError> {
    store.update(vec![update(key, Step::Read)]).await.remove(0).map(|(old, _)| old)
}

/// All records.
pub(super) async fn records(store: &EmbeddedStore) -> BTreeMap<Bytes, Bytes> {
    rows(store, Space::Records).await
}

pub(super) async fn rows(store: &EmbeddedStore, space: Space) -> BTreeMap<Bytes, Bytes> {
    let mut found = BTreeMap::new();
    let mut start = Bytes::new();
    loop {
        let (end, limit) = (Bytes::new(), 10_000);
        let page = store.scan(Scan { space, start, end, limit, max_bytes: 8 << 20 }).await.unwrap();
        let last = page.rows.last().map(|row| [&row.key[..], &[0]].concat());
        found.extend(page.rows.into_iter().map(|row| (row.key, row.value)));
        match last {
            Some(last) if page.more => start = last.into(),
            _ => return found,
        }
    }
}

/// Copies a directory as it is at this moment: what a process that dies now leaves behind.
pub(super) fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_directory(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// All files below a directory, byte for byte.
pub(super) fn contents(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            let bytes = std::fs::read(&path).unwrap();
            found.insert(path, bytes);
        }
    }
    found
}
