//! Shows that tables stay flat while claims come and go: each is inserted with an entry, updated
//! twice, and deleted with its entry, while as many stay alive as at the beginning.
//!
//! ```text
//! churn URL [ALIVE] [SECONDS] [LINES]
//! ```
//!
//! Prints the sizes of the tables and their dead rows now and then; the schema `semel_churn` is used.

#![allow(clippy::print_stdout, reason = "a program for people")]
#![allow(clippy::disallowed_methods, reason = "it measures elapsed time")]

use std::time::{Duration, Instant};

use bytes::Bytes;
use semel_store::{Change, Durability, IndexChange, Store, Transition, Update, ValueChange};
use semel_store_postgres::{PostgresOptions, PostgresStore};
use tokio_postgres::{Client, NoTls};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const BATCH: u64 = 256;

const SIZES: &str = "\
SELECT relname::text, pg_table_size(relid), pg_indexes_size(relid), n_live_tup, n_dead_tup,
       n_tup_upd, n_tup_hot_upd, autovacuum_count
FROM pg_stat_user_tables WHERE schemaname = 'semel_churn' AND relname IN ('records', 'entries')
ORDER BY relname DESC";

#[derive(Clone)]
enum Step {
    Insert(Bytes),
    Update(Bytes),
    Delete(Bytes),
}

impl Transition for Step {
    type Outcome = ();

    fn apply(&self, _old: Option<&[u8]>, _now_us: u64) -> (Change, ()) {
        let value = |length: usize| ValueChange::Put(vec![b'v'; length].into());
        let change = match self {
            Self::Insert(entry) => {
                let entry = IndexChange::Put { key: entry.clone(), value: Bytes::new() };
                Change { value: value(200), index: vec![entry] }
            }
            Self::Update(entry) => {
                let entry = IndexChange::Put { key: entry.clone(), value: b"later"[..].into() };
                Change { value: value(300), index: vec![entry] }
            }
            Self::Delete(entry) => {
                let entry = IndexChange::Delete { key: entry.clone() };
                Change { value: ValueChange::Delete, index: vec![entry] }
            }
        };
        (change, ())
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("use: churn URL [ALIVE] [SECONDS] [LINES]")?;
    let mut number =
        |default: u64| arguments.next().map_or(Ok(default), |word| word.parse::<u64>());
    let (alive, seconds, lines) = (number(20_000)?, number(60)?, number(12)?);
    let options = PostgresOptions::parse(&url)?.with_schema("semel_churn");
    let store = PostgresStore::open(options).await?;
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
    let limit = Duration::from_secs(seconds);
    tokio::select! {
        done = churn(&store, &client, alive, limit, lines) => done,
        ended = connection => Ok(ended?),
    }
}

async fn churn(
    store: &PostgresStore,
    client: &Client,
    alive: u64,
    limit: Duration,
    lines: u64,
) -> Result<(), Failure> {
    let start = Instant::now();
    let interval = limit / u32::try_from(lines.max(1))?;
    let mut told = start;
    let mut next = 0_u64;
    println!(
        "second  claims   table        heap MiB  index MiB      live      dead  HOT %  vacuums"
    );
    while start.elapsed() < limit {
        let (one, two) = (next.saturating_sub(alive / 3), next.saturating_sub(alive / 2));
        tokio::try_join!(
            step(store, next, Step::Insert),
            step(store, one, Step::Update),
            step(store, two, Step::Update),
            step(store, next.saturating_sub(alive), Step::Delete),
        )?;
        next += BATCH;
        if told.elapsed() >= interval {
            told = Instant::now();
            tell(client, start.elapsed().as_secs(), next).await?;
        }
    }
    Ok(())
}

async fn step(store: &PostgresStore, first: u64, step: fn(Bytes) -> Step) -> Result<(), Failure> {
    let item = |number: u64| {
        let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let entry = Bytes::from(format!("due {number:016x}"));
        Update {
            key: format!("claim {spread:016x}").into(),
            durability: Durability::Synced,
            transition: step(entry),
        }
    };
    for answer in store.update((first..first + BATCH).map(item).collect()).await {
        answer?;
    }
    Ok(())
}

async fn tell(client: &Client, second: u64, claims: u64) -> Result<(), Failure> {
    for row in client.query(SIZES, &[]).await? {
        let number = |column: usize| row.try_get::<_, i64>(column);
        let hot = 100 * number(6)? / number(5)?.max(1);
        println!(
            "{second:6}  {claims:7}  {:<11} {:9.1}  {:9.1}  {:8}  {:8}  {hot:5}  {:7}",
            row.try_get::<_, &str>(0)?,
            mebibytes(number(1)?)?,
            mebibytes(number(2)?)?,
            number(3)?,
            number(4)?,
            number(7)?
        );
    }
    Ok(())
}

fn mebibytes(bytes: i64) -> Result<f64, Failure> {
    Ok(f64::from(u32::try_from(bytes / 1_024)?) / 1_024.0)
}
