//! `semel sim check`: many seeds, each a cluster in a storm, watched by the oracles.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use semel_server::OptionsError;
use serde::Serialize;

use crate::cluster::Cluster;
use crate::load::breakers::BreakersCaller;
use crate::load::budgets::BudgetsCaller;
use crate::load::keys::KeysCaller;
use crate::load::{self, Caller};
use crate::log::{Promise, Record};
use crate::network::LATEST;
use crate::oracle;
use crate::plant::Plant;
use crate::random::Random;
use crate::storm::Storm;
use crate::world::{World, play};

/// How long the faults last.
const STORM: Duration = Duration::from_secs(12);
/// How long callers go on after that, until the last is asked for.
const CALM: Duration = Duration::from_secs(8);
/// Callers of the Keys service.
const KEYS_CALLERS: usize = 4;
/// Callers of the Retries service.
const BUDGETS_CALLERS: usize = 4;
/// Callers of the Breakers service, and of those who watch.
const BREAKERS_CALLERS: usize = 3;
const WATCHERS: usize = 2;

/// Plays one seed, with a bug planted or none.
///
/// # Errors
///
/// The runtime could not be made.
pub fn play_seed(seed: u64, plant: Option<Plant>) -> io::Result<Record> {
    play(async |world| {
        let log = world.log.clone();
        match Scene::new(world, seed, plant) {
            Ok(scene) => scene.play().await,
            Err(error) => log.violated(Promise::Sound, error.to_string()),
        }
        log.record()
    })
}

/// A cluster in a storm, and those who call it.
struct Scene {
    world: World,
    cluster: Cluster,
    random: Random,
    plant: Option<Plant>,
    callers: usize,
}

impl Scene {
    fn new(world: World, seed: u64, plant: Option<Plant>) -> Result<Self, OptionsError> {
        let mut random = Random::new(seed);
        let nodes = usize::try_from(random.between(3, 5)).unwrap_or(3);
        let amnesia = Plant::amnesia(plant);
        let cluster = Cluster::start_with(&world, nodes, amnesia.as_ref(), &mut random)?;
        Ok(Self { world, cluster, random, plant, callers: 0 })
    }

    fn caller(&mut self) -> Caller {
        self.callers += 1;
        Caller {
            number: self.callers - 1,
            world: self.world.clone(),
            cluster: self.cluster.clone(),
            random: self.random.fork(),
        }
    }

    async fn play(mut self) {
        let mut first = self.caller();
        self.call_keys();
        let budgets = self.call_budgets(&mut first).await;
        self.call_breaker(&mut first).await;
        let storm = Storm::new(&self.world, &self.cluster, self.callers, self.random.fork());
        storm.rage(STORM).await;
        // What the storm has begun, ends within the time of the latest message.
        tokio::time::sleep(LATEST).await;
        if let Err(error) = self.cluster.heal() {
            self.world.log.violated(Promise::Sound, error.to_string());
        }
        self.world.log.note(format_args!("all is healed"));
        load::keys::expect_answers(&mut first).await;
        for of in load::budgets::DEPENDENCIES {
            load::budgets::expect_answers(&mut first, of).await;
        }
        self.world.time.until(STORM + CALM).await;
        load::breakers::expect_answers(&mut first).await;
        for node in &*self.cluster.nodes {
            node.inspect();
        }
        self.world.tasks.reap();
        budgets.borrow().judge();
    }

    fn call_keys(&mut self) {
        let oracle = Rc::new(RefCell::new(oracle::keys::Keys::new(self.world.log.clone())));
        for _ in 0..KEYS_CALLERS {
            let caller = KeysCaller { caller: self.caller(), oracle: Rc::clone(&oracle) };
            self.world.tasks.spawn(caller.work());
        }
    }

    async fn call_breaker(&mut self, first: &mut Caller) {
        let terms = load::policies::breaker_terms(&mut self.random);
        load::policies::set_breaker_policy(first, &terms).await;
        let oracle = oracle::breakers::Breaker::new(self.world.log.clone(), terms);
        let oracle = Rc::new(RefCell::new(oracle));
        let dependency = Rc::new(load::breakers::Dependency::default());
        let living = Rc::clone(&dependency).live(self.caller(), STORM);
        self.world.tasks.spawn(living);
        for _ in 0..BREAKERS_CALLERS {
            let (oracle, dependency) = (Rc::clone(&oracle), Rc::clone(&dependency));
            let caller = BreakersCaller::new(self.caller(), oracle, dependency, self.plant);
            self.world.tasks.spawn(caller.work());
        }
        for number in 0..WATCHERS {
            let watch =
                load::breakers::watch(self.caller(), Rc::clone(&oracle), (number, WATCHERS));
            self.world.tasks.spawn(watch);
        }
    }

    async fn call_budgets(&mut self, first: &mut Caller) -> Rc<RefCell<oracle::budgets::Budgets>> {
        let mut budgets = oracle::budgets::Budgets::new(self.world.log.clone());
        let mut terms = Vec::new();
        for of in load::budgets::DEPENDENCIES {
            let of_this = load::policies::budget_terms(&mut self.random);
            load::policies::set_budget_policy(first, of, &of_this).await;
            budgets.set(of, of_this);
            terms.push((of, of_this));
        }
        let budgets = Rc::new(RefCell::new(budgets));
        for _ in 0..BUDGETS_CALLERS {
            let (caller, oracle) = (self.caller(), Rc::clone(&budgets));
            let caller = BudgetsCaller::new(caller, oracle, &terms, self.plant);
            self.world.tasks.spawn(caller.work());
        }
        budgets
    }
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
    plant: Option<Plant>,
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
            let record = play_seed(seed, plant)?;
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
