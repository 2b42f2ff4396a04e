//! Transitions and small helpers for the tests of several nodes and of failures.

use std::sync::Arc;

use bytes::Bytes;
use semel_store::{
    Change, Durability, IndexChange, Store, StoreError, Transition, Update, ValueChange,
};
use semel_store_postgres::{PostgresOptions, PostgresStore};

use crate::postgres::Postgres;

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
    /// Appends a number unless it is there, with an index entry that carries it: so it may be run again.
    Append(u64),
}

impl Transition for Step {
    type Outcome = Option<Bytes>;

    fn apply(&self, old: Option<&[u8]>, _now_us: u64) -> (Change, Option<Bytes>) {
        let put = |value: Vec<u8>| Change { value: ValueChange::Put(value.into()), index: vec![] };
        let change = match self {
            Self::Read => Change::keep(),
            Self::Claim(_) if old.is_some() => Change::keep(),
            Self::Claim(owner) => {
                let entry = IndexChange::Put { key: owner.clone(), value: owner.clone() };
                Change { value: ValueChange::Put(owner.clone()), index: vec![entry] }
            }
            Self::Mark => {
                let entry = IndexChange::Put { key: "mark".into(), value: "it".into() };
                Change { value: ValueChange::Keep, index: vec![entry] }
            }
            Self::Put(value) => put(value.to_vec()),
            Self::Delete => Change { value: ValueChange::Delete, index: vec![] },
            Self::Add => put((number(old) + 1).to_be_bytes().to_vec()),
            Self::Append(id) if numbers(old).contains(id) => Change::keep(),
            Self::Append(id) => {
                let mut change = put([old.unwrap_or_default(), &id.to_be_bytes()].concat());
                let key = Bytes::copy_from_slice(&id.to_be_bytes());
                change.index.push(IndexChange::Put { key: key.clone(), value: key });
                change
            }
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

pub(crate) fn number(record: Option<&[u8]>) -> u64 {
    record.map_or(0, |bytes| u64::from_be_bytes(bytes.try_into().expect("8 bytes")))
}

pub(crate) fn numbers(record: Option<&[u8]>) -> Vec<u64> {
    record.unwrap_or_default().chunks(8).map(|chunk| number(Some(chunk))).collect()
}

pub(crate) fn item(key: &str, durability: Durability, step: Step) -> Update<Step> {
    Update {
        key: Bytes::copy_from_slice(key.as_bytes()),
        durability,
        patience: None,
        transition: step,
    }
}

pub(crate) async fn try_one(
    store: &PostgresStore,
    key: &str,
    step: Step,
) -> Result<Option<Bytes>, StoreError> {
    store.update(vec![item(key, Durability::Synced, step)]).await.remove(0)
}

pub(crate) async fn one(store: &PostgresStore, key: &str, step: Step) -> Option<Bytes> {
    try_one(store, key, step).await.expect("an update without faults succeeds")
}

/// Runs a step until it is answered, as a caller does who meets faults.
pub(crate) async fn settle(store: &PostgresStore, key: &str, step: Step) -> Option<Bytes> {
    for _ in 0..1_000 {
        match try_one(store, key, step.clone()).await {
            Ok(old) => return old,
            Err(StoreError::Invalid(reason)) => panic!("refused: {reason}"),
            // A store that is away says so after it waited for it a while.
            Err(_) => tokio::task::yield_now().await,
        }
    }
    panic!("the store stays away");
}

pub(crate) fn options(server: &Postgres) -> PostgresOptions {
    PostgresOptions::parse(&server.url()).unwrap()
}

pub(crate) async fn node(server: &Postgres) -> Arc<PostgresStore> {
    Arc::new(PostgresStore::open(options(server)).await.expect("the server is up"))
}

pub(crate) async fn nodes(server: &Postgres, count: usize) -> Vec<Arc<PostgresStore>> {
    let mut nodes = Vec::new();
    for _ in 0..count {
        nodes.push(node(server).await);
    }
    nodes
}

/// A session of somebody else. The connection ends with the client.
pub(crate) async fn foreign(server: &Postgres) -> Foreign {
    let made = tokio_postgres::connect(&server.url(), tokio_postgres::NoTls).await;
    let (client, connection) = made.expect("the server is up");
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move {
        let _ = connection.await;
    });
    Foreign { client, _tasks: tasks }
}

pub(crate) struct Foreign {
    pub(crate) client: tokio_postgres::Client,
    _tasks: tokio::task::JoinSet<()>,
}

impl Foreign {
    pub(crate) async fn count(&self, sql: &str) -> i64 {
        self.client.query_one(sql, &[]).await.expect("a query").get(0)
    }
}
