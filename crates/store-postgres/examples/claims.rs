//! Loads the PostgreSQL engine and measures it.
//!
//! ```text
//! claims URL [BATCH] [IN_FLIGHT] [SECONDS] [VALUE_BYTES]     new keys, each with one index entry
//! claims updates URL [BATCH] [IN_FLIGHT] [SECONDS] [VALUE_BYTES]     the same keys again and again
//! ```
//!
//! The schema `semel_load` is used. To compare with pgbench, insert one row of the same size into
//! `records` and one into `entries` in one transaction.

#![allow(clippy::print_stdout, reason = "a program for people")]
#![allow(clippy::disallowed_methods, reason = "it measures elapsed time")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use semel_store::{Change, Durability, IndexChange, Store, Transition, Update, ValueChange};
use semel_store_postgres::{PostgresOptions, PostgresStore};
use tokio::task::JoinSet;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Puts a record and an entry.
#[derive(Clone)]
struct Claim {
    value: Bytes,
    entry: Bytes,
}

impl Transition for Claim {
    type Outcome = bool;

    fn apply(&self, old: Option<&[u8]>, _now_us: u64) -> (Change, bool) {
        let value = ValueChange::Put(self.value.clone());
        let entry = IndexChange::Put { key: self.entry.clone(), value: Bytes::new() };
        (Change { value, index: vec![entry] }, old.is_some())
    }
}

#[derive(Clone, Copy)]
struct Load {
    batch: u64,
    in_flight: u64,
    seconds: u64,
    value_bytes: usize,
    fresh: bool,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1).peekable();
    let fresh = arguments.next_if(|word| word == "updates").is_none();
    let url = arguments
        .next()
        .ok_or("use: claims [updates] URL [BATCH] [IN_FLIGHT] [SECONDS] [BYTES]")?;
    let mut number =
        |default: u64| arguments.next().map_or(Ok(default), |word| word.parse::<u64>());
    let load = Load {
        batch: number(256)?,
        in_flight: number(4)?,
        seconds: number(10)?,
        value_bytes: usize::try_from(number(300)?)?,
        fresh,
    };
    let store =
        PostgresStore::open(PostgresOptions::parse(&url)?.with_schema("semel_load")).await?;
    run(Arc::new(store), load).await
}

async fn run(store: Arc<PostgresStore>, load: Load) -> Result<(), Failure> {
    let run = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_micros();
    let done = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for task in 0..load.in_flight {
        let (store, done) = (Arc::clone(&store), Arc::clone(&done));
        tasks.spawn(async move {
            let mut slowest = Duration::ZERO;
            let mut next = 0_u64;
            while start.elapsed() < Duration::from_secs(load.seconds) {
                let items = (next..next + load.batch).map(|number| item(run, task, number, load));
                let began = Instant::now();
                for answer in store.update(items.collect()).await {
                    answer?;
                }
                slowest = slowest.max(began.elapsed());
                done.fetch_add(load.batch, Ordering::Relaxed);
                next += if load.fresh { load.batch } else { 0 };
            }
            Ok::<_, Failure>(slowest)
        });
    }
    let mut slowest = Duration::ZERO;
    for finished in tasks.join_all().await {
        slowest = slowest.max(finished?);
    }
    let (done, seconds) = (done.load(Ordering::Relaxed), start.elapsed().as_secs_f64());
    let batches = load.in_flight;
    println!(
        "{done} items in {seconds:.1} s in batches of {}, {batches} at a time: {:.0} items/s, slowest \
         batch {} ms",
        load.batch,
        f64::from(u32::try_from(done)?) / seconds,
        slowest.as_millis()
    );
    Ok(())
}

/// Keys are spread, as hashes of what callers name are.
fn item(run: u128, task: u64, number: u64, load: Load) -> Update<Claim> {
    let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ task.rotate_right(8);
    let run = if load.fresh { run } else { 0 };
    let key = format!("k{spread:016x}{task:04x}{run:016x}");
    let entry = Bytes::from(format!("e{run:016x}{number:016x}{task:04x}"));
    let value = Bytes::from(vec![b'v'; load.value_bytes]);
    Update {
        key: key.into(),
        durability: Durability::Synced,
        patience: None,
        transition: Claim { value, entry },
    }
}
