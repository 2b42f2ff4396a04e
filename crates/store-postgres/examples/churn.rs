//! Shows that tables stay flat while claims come and go: each is inserted with an entry, updated
//! twice, and deleted with its entry, while as many stay alive as at the beginning. What was inserted
//! together is changed at different times, as claims are.
//!
//! ```text
//! churn URL [ALIVE] [SECONDS] [LINES] [CLAIMS_PER_SECOND]
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
    let url =
        arguments.next().ok_or("use: churn URL [ALIVE] [SECONDS] [LINES] [CLAIMS_PER_SECOND]")?;
    let mut number =
        |default: u64| arguments.next().map_or(Ok(default), |word| word.parse::<u64>());
    let plan = Plan {
        alive: number(20_000)?,
        limit: Duration::from_secs(number(60)?),
        lines: number(12)?,
        per_second: number(2_000)?.max(1),
    };
    let options = PostgresOptions::parse(&url)?.with_schema("semel_churn");
    let store = PostgresStore::open(options).await?;
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
    tokio::select! {
        done = churn(&store, &client, &plan) => done,
        ended = connection => Ok(ended?),
    }
}

struct Plan {
    alive: u64,
    limit: Duration,
    lines: u64,
    per_second: u64,
}

async fn churn(store: &PostgresStore, client: &Client, plan: &Plan) -> Result<(), Failure> {
    let start = Instant::now();
    let interval = plan.limit / u32::try_from(plan.lines.max(1))?;
    let mut pace =
        tokio::time::interval(Duration::from_micros(BATCH * 1_000_000 / plan.per_second));
    let mut told = start;
    let mut next = 0_u64;
    println!(
        "second  claims   table        heap MiB  index MiB      live      dead  HOT %  vacuums"
    );
    while start.elapsed() < plan.limit {
        pace.tick().await;
        tokio::try_join!(
            step(store, Some(next), Step::Insert),
            step(store, next.checked_sub(plan.alive / 3).map(apart), Step::Update),
            step(store, next.checked_sub(plan.alive / 3 * 2).map(apart), Step::Update),
            step(store, next.checked_sub(plan.alive).map(apart), Step::Delete),
        )?;
        next += BATCH;
        if told.elapsed() >= interval {
            told = Instant::now();
            tell(client, start.elapsed().as_secs(), next).await?;
        }
    }
    Ok(())
}

/// Marks a batch whose claims come from several batches of inserts.
fn apart(first: u64) -> u64 {
    first | 1 << 63
}

/// The claim at a place in the order of changes: each block of batches is dealt out in turn.
fn dealt(place: u64) -> u64 {
    const BATCHES: u64 = 16;
    let (block, within) = (place / (BATCH * BATCHES), place % (BATCH * BATCHES));
    block * BATCH * BATCHES + within % BATCHES * BATCH + within / BATCHES
}

async fn step(
    store: &PostgresStore,
    first: Option<u64>,
    step: fn(Bytes) -> Step,
) -> Result<(), Failure> {
    let Some(first) = first else { return Ok(()) };
    let item = |place: u64| {
        let number = if place >> 63 == 1 { dealt(place & !(1 << 63)) } else { place };
        let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let entry = Bytes::from(format!("due {number:016x}"));
        Update {
            key: format!("claim {spread:016x}").into(),
            durability: Durability::Synced,
            patience: None,
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
