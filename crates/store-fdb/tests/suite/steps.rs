//! Transitions and small helpers.

use std::time::Duration;

use bytes::Bytes;
use semel_store::{
    Change, Durability, IndexChange, Page, Scan, Space, Store, StoreError, Transition, Update,
    ValueChange, Watch,
};
use semel_store_fdb::FdbStore;

/// A step of one record.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Read,
    Put(Bytes),
    Delete,
    /// Puts this as the record and as an entry, if there is no record.
    Claim(Bytes),
    /// Keeps the record and puts the entry "mark".
    Mark,
    /// Adds 1 to a number of 8 bytes.
    Add,
}

impl Transition for Step {
    type Outcome = Option<Bytes>;

    fn apply(&self, old: Option<&[u8]>, _now_us: u64) -> (Change, Option<Bytes>) {
        let put = |value: Bytes| Change { value: ValueChange::Put(value), index: vec![] };
        let change = match self {
            Self::Read => Change::keep(),
            Self::Claim(_) if old.is_some() => Change::keep(),
            Self::Claim(owner) => {
                let entry = IndexChange::Put { key: owner.clone(), value: owner.clone() };
                Change { index: vec![entry], ..put(owner.clone()) }
            }
            Self::Mark => {
                let entry = IndexChange::Put { key: "mark".into(), value: "it".into() };
                Change { value: ValueChange::Keep, index: vec![entry] }
            }
            Self::Put(value) => put(value.clone()),
            Self::Delete => Change { value: ValueChange::Delete, index: vec![] },
            Self::Add => put(Bytes::copy_from_slice(&(number(old) + 1).to_be_bytes())),
        };
        (change, old.map(Bytes::copy_from_slice))
    }
}

/// Tells the store's time.
#[derive(Clone, Debug)]
pub(crate) struct TellTime;

impl Transition for TellTime {
    type Outcome = u64;

    fn apply(&self, _old: Option<&[u8]>, now_us: u64) -> (Change, u64) {
        (Change::keep(), now_us)
    }
}

pub(crate) async fn time_of(store: &FdbStore) -> u64 {
    update(store, "time", TellTime).await.expect("the cluster is up")
}

pub(crate) fn number(record: Option<&[u8]>) -> u64 {
    record.map_or(0, |bytes| u64::from_be_bytes(bytes.try_into().expect("8 bytes")))
}

pub(crate) fn item<T>(key: &str, transition: T) -> Update<T> {
    let key = Bytes::copy_from_slice(key.as_bytes());
    Update { key, durability: Durability::Synced, patience: None, transition }
}

pub(crate) async fn update<T: Transition>(
    store: &FdbStore,
    key: &str,
    transition: T,
) -> Result<T::Outcome, StoreError> {
    store.update(vec![item(key, transition)]).await.remove(0)
}

pub(crate) async fn one(store: &FdbStore, key: &str, step: Step) -> Option<Bytes> {
    update(store, key, step).await.expect("an update without faults succeeds")
}

/// Runs a read until it is answered.
pub(crate) async fn settled(store: &FdbStore, key: &str) -> Option<Bytes> {
    for _ in 0..1_000 {
        match update(store, key, Step::Read).await {
            Ok(old) => return old,
            Err(StoreError::Invalid(reason)) => panic!("refused: {reason}"),
            Err(_) => tokio::task::yield_now().await,
        }
    }
    panic!("the cluster stays away");
}

pub(crate) async fn all(store: &FdbStore, space: Space) -> Page {
    let scan =
        Scan { space, start: Bytes::new(), end: Bytes::new(), limit: 10_000, max_bytes: 64 << 20 };
    store.scan(scan).await.expect("the cluster is up")
}

pub(crate) async fn woken(watch: &mut Watch) {
    tokio::time::timeout(Duration::from_secs(30), watch.changed()).await.expect("the watch wakes");
}

/// Bytes that are not all the same.
pub(crate) fn value(bytes: usize) -> Bytes {
    (0..bytes).map(|byte| (byte % 251) as u8).collect::<Vec<_>>().into()
}
