//! Loads the embedded engine and measures it: what one update costs, and how long opening takes.
//!
//! ```text
//! embedded_load claim PATH [CALLERS] [SECONDS]    new keys, one per update, from CALLERS at once
//! embedded_load fill PATH KEYS [BATCH]            KEYS new keys in batches, then claims until killed
//! embedded_load open PATH                         opens, reads a little, closes
//! ```
//!
//! Each update reads its key, writes a 400-byte record and one index entry, and waits for the sync.

#![allow(clippy::print_stdout, reason = "a program for people")]
#![allow(clippy::disallowed_methods, reason = "it measures elapsed time")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use semel_store::{
    Change, Durability, EmbeddedOptions, EmbeddedStore, IndexChange, Scan, Space, Store,
    StoreError, Transition, Update, ValueChange,
};
use tokio::task::JoinSet;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
    match *arguments.as_slice() {
        ["claim", path, ref rest @ ..] => {
            let callers = rest.first().map_or(Ok(64), |number| number.parse())?;
            let seconds = rest.get(1).map_or(Ok(10), |number| number.parse())?;
            let store = open(path)?;
            runtime.block_on(claim(&store, callers, Some(Duration::from_secs(seconds))))?;
            let start = Instant::now();
            store.close();
            println!("closed in {} ms", start.elapsed().as_millis());
        }
        ["fill", path, keys, ref rest @ ..] => {
            let batch = rest.first().map_or(Ok(64), |number| number.parse())?;
            let store = open(path)?;
            runtime.block_on(fill(&store, keys.parse()?, batch))?;
            println!("filled; claims go on until this process is killed");
            runtime.block_on(claim(&store, 64, None))?;
        }
        ["open", path] => {
            let store = open(path)?;
            runtime.block_on(look(&store))?;
            store.close();
        }
        _ => {
            return Err(
                "use: claim PATH [CALLERS] [SECONDS] | fill PATH KEYS [BATCH] | open PATH".into()
            );
        }
    }
    Ok(())
}

fn open(path: &str) -> Result<EmbeddedStore, Failure> {
    let start = Instant::now();
    let store = EmbeddedStore::open(EmbeddedOptions::new(path))?;
    println!("opened in {} ms, {}", start.elapsed().as_millis(), resident());
    Ok(store)
}

async fn look(store: &EmbeddedStore) -> Result<(), Failure> {
    let (space, start, end) = (Space::Records, Bytes::new(), Bytes::new());
    let scan = Scan { space, start, end, limit: 1_000, max_bytes: 1 << 20 };
    let page = store.scan(scan).await?;
    println!("read {} rows, {}", page.rows.len(), resident());
    Ok(())
}

/// Puts a record and an index entry if the key is new.
#[derive(Clone)]
struct Claim {
    number: u64,
}

impl Claim {
    fn update(number: u64) -> Update<Self> {
        let key = Bytes::from(format!("tenant/payments.charge/{:016x}", scatter(number)));
        Update { key, durability: Durability::Synced, patience: None, transition: Self { number } }
    }
}

impl Transition for Claim {
    type Outcome = bool;

    fn apply(&self, old: Option<&[u8]>, now_us: u64) -> (Change, bool) {
        if old.is_some() {
            return (Change::keep(), false);
        }
        let mut value = Vec::with_capacity(400);
        while value.len() < 400 {
            let part = scatter(self.number ^ u64::try_from(value.len()).unwrap_or(0) << 40);
            value.extend_from_slice(&part.to_le_bytes());
        }
        let mut entry = now_us.to_be_bytes().to_vec();
        entry.extend_from_slice(&scatter(self.number).to_be_bytes());
        let index = vec![IndexChange::Put { key: entry.into(), value: Bytes::from_static(b"k") }];
        (Change { value: ValueChange::Put(value.into()), index }, true)
    }
}

/// Numbers in a row become keys all over the place.
fn scatter(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Different keys for each run, so that each update is a new one.
fn first_number() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_micros()).unwrap_or(0)) << 12
}

async fn claim(
    store: &EmbeddedStore,
    callers: usize,
    time: Option<Duration>,
) -> Result<(), Failure> {
    let numbers = Arc::new(AtomicU64::new(first_number()));
    let (commits, start) = (store.commits(), Instant::now());
    let mut tasks = JoinSet::new();
    for _ in 0..callers {
        let (store, numbers) = (store.clone(), Arc::clone(&numbers));
        tasks.spawn(async move {
            let (mut latencies_us, mut failures) = (Vec::new(), 0);
            while time.is_none_or(|time| start.elapsed() < time) {
                let begin = Instant::now();
                let update = Claim::update(numbers.fetch_add(1, Ordering::Relaxed));
                let failed = store.update(vec![update]).await.iter().any(Result::is_err);
                if failed {
                    failures += 1;
                    tokio::time::sleep(Duration::from_millis(10)).await;
                } else if time.is_some() {
                    latencies_us.push(begin.elapsed().as_micros());
                }
            }
            (latencies_us, failures)
        });
    }
    let (mut latencies_us, mut failures) = (Vec::new(), 0_u64);
    while let Some(finished) = tasks.join_next().await {
        let (mut of_one, failures_of_one) = finished?;
        latencies_us.append(&mut of_one);
        failures += failures_of_one;
    }
    latencies_us.sort_unstable();
    let seconds = start.elapsed().as_secs_f64();
    let at = |percent: usize| latencies_us.get(latencies_us.len() * percent / 100).unwrap_or(&0);
    println!(
        "{callers} callers: {:.0} updates/s, {failures} failures, {:.0} commits/s, p50 {} us, \
         p99 {} us, most {} us, {}",
        f64::from(u32::try_from(latencies_us.len())?) / seconds,
        f64::from(u32::try_from(store.commits() - commits)?) / seconds,
        at(50),
        at(99),
        latencies_us.last().unwrap_or(&0),
        resident(),
    );
    Ok(())
}

async fn fill(store: &EmbeddedStore, keys: u64, batch: u64) -> Result<(), Failure> {
    let first = first_number();
    let numbers = Arc::new(AtomicU64::new(first));
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..16 {
        let (store, numbers) = (store.clone(), Arc::clone(&numbers));
        tasks.spawn(async move {
            loop {
                let number = numbers.fetch_add(batch, Ordering::Relaxed);
                if number - first >= keys {
                    return Ok::<_, StoreError>(());
                }
                let updates = (number..(number + batch).min(first + keys)).map(Claim::update);
                for result in store.update(updates.collect()).await {
                    result?;
                }
                if (number - first) / 500_000 != (number - first + batch) / 500_000 {
                    let seconds = start.elapsed().as_secs_f64();
                    println!("{} keys after {seconds:.1} s, {}", number - first, resident());
                }
            }
        });
    }
    while let Some(finished) = tasks.join_next().await {
        finished??;
    }
    Ok(())
}

/// The memory of this process, as Linux tells it.
fn resident() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map_or("?", str::trim).to_owned()
    };
    format!("resident {} (peak {})", field("VmRSS:"), field("VmHWM:"))
}
