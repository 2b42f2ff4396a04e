//! `semel sim check`: many seeds, each a cluster in a storm, watched by the oracles.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;

use crate::cluster::Cluster;
use crate::load::keys::KeysCaller;
use crate::load::{self, Caller};
use crate::log::{Promise, Record};
use crate::network::LATEST;
use crate::oracle;
use crate::random::Random;
use crate::storm::Storm;
use crate::world::{World, play};

/// How long the faults last.
const STORM: Duration = Duration::from_secs(12);
/// How long callers go on after that, until the last is asked for.
const CALM: Duration = Duration::from_secs(8);
/// Callers of the Keys service.
const KEYS_CALLERS: usize = 5;

/// Plays one seed.
///
/// # Errors
///
/// The runtime could not be made.
pub fn play_seed(seed: u64) -> io::Result<Record> {
    play(async |world| {
        let log = world.log.clone();
        scene(world, seed).await;
        log.record()
    })
}

async fn scene(world: World, seed: u64) {
    let mut random = Random::new(seed);
    let nodes = usize::try_from(random.between(3, 5)).unwrap_or(3);
    let cluster = match Cluster::start(&world, nodes, random.fork()) {
        Ok(cluster) => cluster,
        Err(error) => return world.log.violated(Promise::Sound, error.to_string()),
    };
    let mut callers = 0;
    let mut caller = || {
        callers += 1;
        Caller {
            number: callers - 1,
            world: world.clone(),
            cluster: cluster.clone(),
            random: random.fork(),
        }
    };
    let keys = Rc::new(RefCell::new(oracle::keys::Keys::new(world.log.clone())));
    for _ in 0..KEYS_CALLERS {
        world.tasks.spawn(KeysCaller { caller: caller(), oracle: Rc::clone(&keys) }.work());
    }
    let mut last = caller();
    let storm = Storm::new(&world, &cluster, callers, random.fork());
    storm.rage(STORM).await;
    // What the storm has begun, ends within the time of the latest message.
    tokio::time::sleep(LATEST).await;
    if let Err(error) = cluster.heal() {
        world.log.violated(Promise::Sound, error.to_string());
    }
    world.log.note(format_args!("all is healed"));
    load::keys::expect_answers(&mut last).await;
    world.time.until(STORM + CALM).await;
    for node in &*cluster.nodes {
        node.inspect();
    }
    world.tasks.reap();
}

/// What came of many seeds.
#[derive(Debug, Default, Serialize)]
pub struct Checked {
    /// How many were played.
    pub seeds: u64,
    /// In how many a promise was broken.
    pub violations: u64,
    /// How much happened in all of them.
    pub events: u64,
    /// The broken ones, by seed.
    #[serde(skip)]
    pub broken: Vec<(u64, Record)>,
}

/// Plays `seeds` seeds from `first` on `threads` threads. `progress` hears, now and then, how many are
/// done.
///
/// # Errors
///
/// A thread or a runtime could not be made.
pub fn check(
    first: u64,
    seeds: u64,
    threads: usize,
    progress: impl Fn(u64) + Sync,
) -> io::Result<Checked> {
    let next = AtomicU64::new(0);
    let checked = Mutex::new(Checked::default());
    let work = || -> io::Result<()> {
        loop {
            let offset = next.fetch_add(1, Ordering::Relaxed);
            if offset >= seeds {
                return Ok(());
            }
            let seed = first.wrapping_add(offset);
            let record = play_seed(seed)?;
            let done = checked.lock().unwrap_or_else(PoisonError::into_inner).add(seed, record);
            progress(done);
        }
    };
    std::thread::scope(|scope| {
        let start = |number| {
            let name = format!("semel-sim-{number}");
            std::thread::Builder::new().name(name).spawn_scoped(scope, work)
        };
        let threads = (0..threads.max(1)).map(start).collect::<io::Result<Vec<_>>>()?;
        for thread in threads {
            thread.join().map_err(|_| io::Error::other("a thread panicked"))??;
        }
        Ok::<(), io::Error>(())
    })?;
    let mut checked = checked.into_inner().unwrap_or_else(PoisonError::into_inner);
    checked.broken.sort_by_key(|(seed, _)| *seed);
    Ok(checked)
}

impl Checked {
    fn add(&mut self, seed: u64, record: Record) -> u64 {
        self.seeds += 1;
        self.events += record.events;
        if !record.violations.is_empty() {
            self.violations += 1;
            self.broken.push((seed, record));
        }
        self.seeds
    }
}
