//! What all threads of a node share of breakers, and commands carried out.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dashmap::DashMap;
use foldhash::quality::FixedState;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use semel_domain::breaker::{Command, Condition, Outcome, standing};
use semel_domain::downstream::Downstream;
use semel_domain::time::Timestamp;
use semel_store::{Clock, Store, StoreError, Watch, WatchHub};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

use super::transition::{Answer, Decided, durability, update};
use super::view::{Learned, View};
use crate::deadline::Deadline;
use crate::nodes::ClockGuard;
use crate::options::BreakerOptions;
use crate::refusal::{Reason, Refusal};
use crate::reporters::Reporters;
use crate::settle::{self, Patience, refuse};

/// The parts of the map of views that are locked apart. Fixed, so that a run can be repeated.
const SHARDS: usize = 64;
/// Commands of one batch.
const BATCH_MAX: usize = 512;

/// Where the hub announces that the store came into reach or went out of it: no record lies there.
const REACH: &[u8] = b"reach";

/// A breaker before a call: what a retry is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gate {
    /// Open or half-open: calls other than probes are not worth making.
    pub(crate) open: bool,
    /// When to look again, if that is known.
    pub(crate) look_again: Option<Duration>,
    /// The share of calls that should be made, in thousandths.
    pub(crate) admitted_per_mille: u32,
    /// The generation that this was told of.
    pub(crate) generation: u64,
}

/// The breakers of a node.
pub(crate) struct Breakers<S> {
    pub(super) store: Arc<S>,
    pub(super) clock: Arc<dyn Clock>,
    clock_guard: Arc<ClockGuard>,
    pub(super) node: [u8; 16],
    pub(super) closing: CancellationToken,
    pub(super) watchers: Arc<Semaphore>,
    /// Whether the store answered when it was last asked.
    in_reach: AtomicBool,
    /// Wakes whoever watches a view, by its record's key, or whether the store is in reach.
    hub: WatchHub,
    pub(super) arrived: Notify,
    pub(super) reporters: Mutex<Reporters<(semel_domain::name::Tenant, [u8; 16])>>,
    /// What gathered in all views.
    pub(super) gathered: AtomicUsize,
    options: BreakerOptions,
    views: DashMap<Downstream, Arc<View>, FixedState>,
    count: AtomicUsize,
    inbox: Mutex<VecDeque<Arc<View>>>,
    random: Mutex<StdRng>,
    seq: AtomicU64,
}

/// What the keeper is asked for: bits of [`View::asked`].
pub(super) mod ask {
    /// Follow this view from now on.
    pub(in crate::breakers) const FOLLOW: u8 = 1;
    /// Bring the outcomes that gathered.
    pub(in crate::breakers) const FLUSH: u8 = 2;
    /// The view was told something new: keep time for it.
    pub(in crate::breakers) const LEARNED: u8 = 4;
    /// Read the record.
    pub(in crate::breakers) const READ: u8 = 8;
}

impl<S: Store> Breakers<S> {
    /// The breakers of the node that is named `node`. `seed` feeds its randomness, permits among it.
    pub(crate) fn new(
        store: Arc<S>,
        clock_guard: Arc<ClockGuard>,
        node: [u8; 16],
        seed: u64,
        options: BreakerOptions,
        closing: CancellationToken,
    ) -> Self {
        let views = DashMap::with_hasher_and_shard_amount(FixedState::with_seed(seed), SHARDS);
        Self {
            store,
            clock: Arc::clone(clock_guard.clock()),
            clock_guard,
            node,
            closing,
            watchers: Arc::new(Semaphore::new(options.watchers_max)),
            in_reach: AtomicBool::new(true),
            hub: WatchHub::new(),
            arrived: Notify::new(),
            reporters: Mutex::new(Reporters::new(
                options.reporters_max,
                Arc::new(Semaphore::new(options.reporters_max)),
            )),
            gathered: AtomicUsize::new(0),
            options,
            views,
            count: AtomicUsize::new(0),
            inbox: Mutex::default(),
            random: Mutex::new(StdRng::seed_from_u64(seed)),
            seq: AtomicU64::new(0),
        }
    }

    /// The breaker of a downstream as this node knows it: in memory, at once. One that is not known
    /// counts as closed, and is looked up.
    pub(crate) fn gate(&self, of: &Downstream) -> Gate {
        let now = self.now();
        let stands = self.view(of).map_or_else(|_| standing(None, now), |view| view.standing(now));
        Gate {
            open: stands.condition != Condition::Closed,
            look_again: stands.look_again,
            admitted_per_mille: stands.admitted_per_mille,
            generation: stands.generation,
        }
    }

    /// A caller knows of a newer generation than this node: it is looked up.
    pub(crate) fn look(&self, of: &Downstream) {
        if let Ok(view) = self.view(of) {
            self.ask(&view, ask::READ);
        }
    }

    /// The time that records are in.
    pub(super) fn now(&self) -> Timestamp {
        self.clock_guard.store_time()
    }

    pub(super) fn is_degraded(&self) -> bool {
        !self.in_reach.load(Ordering::SeqCst)
    }

    /// Wakes whenever the store comes into reach or goes out of it.
    pub(super) fn watch_reach(&self) -> Watch {
        self.hub.watch(REACH)
    }

    /// The view of a downstream: made, and followed, when it is first asked for.
    pub(super) fn view(&self, of: &Downstream) -> Result<Arc<View>, Refusal> {
        let now_us = self.clock.monotonic_us();
        if let Some(view) = self.views.get(of) {
            view.touch(now_us);
            return Ok(Arc::clone(&view));
        }
        if self.count.load(Ordering::Relaxed) >= self.options.breakers_max {
            return Err(Refusal::overloaded());
        }
        let mut is_new = false;
        let view = Arc::clone(&self.views.entry(of.clone()).or_insert_with(|| {
            is_new = true;
            View::new(of.clone(), now_us, &self.hub)
        }));
        if is_new {
            self.count.fetch_add(1, Ordering::Relaxed);
            self.ask(&view, ask::FOLLOW);
        }
        Ok(view)
    }

    /// Forgets a view that nobody asked for, for `idle_us`. False: somebody did.
    pub(super) fn forget(&self, view: &View, now_us: u64, idle_us: u64) -> bool {
        let idle = |_: &Downstream, view: &Arc<View>| view.idle_us(now_us) >= idle_us;
        let forgotten = self.views.remove_if(&view.of, idle).is_some();
        if forgotten {
            self.count.fetch_sub(1, Ordering::Relaxed);
            view.gone.cancel();
        }
        forgotten
    }

    /// Asks the keeper for something.
    pub(super) fn ask(&self, view: &Arc<View>, what: u8) {
        if view.asked.fetch_or(what, Ordering::AcqRel) == 0 {
            self.inbox().push_back(Arc::clone(view));
            self.arrived.notify_one();
        }
    }

    /// The next view that the keeper was asked for, and for what.
    pub(super) fn next_ask(&self) -> Option<(Arc<View>, u8)> {
        let view = self.inbox().pop_front()?;
        let asked = view.asked.swap(0, Ordering::AcqRel);
        Some((view, asked))
    }

    fn inbox(&self) -> MutexGuard<'_, VecDeque<Arc<View>>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// 16 unguessable bytes.
    pub(super) fn random_id(&self) -> [u8; 16] {
        let mut id = [0; 16];
        self.random.lock().unwrap_or_else(PoisonError::into_inner).fill_bytes(&mut id);
        id
    }

    pub(super) fn random(&self) -> u64 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }

    /// Numbers what this node brings. One count for all breakers: a view may be forgotten and come back.
    pub(super) fn next_seq(&self) -> u64 {
        self.seq.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// Reads a breaker once, if this node does not know it yet. Without the store, it stays unknown.
    pub(super) async fn know(&self, view: &Arc<View>) -> Result<(), Refusal> {
        if view.is_known() {
            return Ok(());
        }
        let _turn = view.asking.lock().await;
        self.know_all(std::slice::from_ref(view)).await
    }

    /// Reads those breakers once that this node does not know yet.
    pub(super) async fn know_all(&self, views: &[Arc<View>]) -> Result<(), Refusal> {
        let unknown = views.iter().filter(|view| !view.is_known());
        let reads = unknown.map(|view| (Arc::clone(view), Arc::new(Command::Get)));
        let reads: Vec<_> = reads.collect();
        if reads.is_empty() {
            return Ok(());
        }
        let answers = self.carry(&reads).await.into_iter();
        // A store that is away leaves doubt, but what is there and can't be read is an error.
        answers.filter(Result::is_ok).try_for_each(|answer| finish(answer).map(drop))
    }

    /// Decides one command. An unknown commit is settled by running the same transition again, which
    /// recognises itself.
    pub(super) async fn decide(
        &self,
        view: &Arc<View>,
        command: Command,
        deadline: Deadline,
    ) -> Result<Outcome, Refusal> {
        let command = (Arc::clone(view), Arc::new(command));
        let mut patience = Patience::new(&*self.clock, deadline);
        loop {
            let mut answers = self.carry(std::slice::from_ref(&command)).await;
            match answers.pop() {
                Some(Err(StoreError::Unknown(_))) if patience.pause().await => {}
                Some(answer) => return finish(answer).map(|decided| decided.outcome),
                None => return Err(Refusal::store_unavailable("it gave no answer")),
            }
        }
    }

    /// Decides many commands, and gives the first refusal if there is one.
    pub(super) async fn decide_all(
        &self,
        mut commands: Vec<(Arc<View>, Arc<Command>)>,
        deadline: Deadline,
    ) -> Result<(), Refusal> {
        let mut patience = Patience::new(&*self.clock, deadline);
        let mut first = Ok(());
        while !commands.is_empty() {
            let mut unknown = Vec::new();
            for batch in commands.chunks(BATCH_MAX) {
                for (command, answer) in batch.iter().zip(self.carry(batch).await) {
                    match answer {
                        Err(StoreError::Unknown(_)) => unknown.push(command.clone()),
                        answer => first = first.and(finish(answer).map(drop)),
                    }
                }
            }
            if !unknown.is_empty() && !patience.pause().await {
                return Err(Refusal::store_unavailable("the commit's result is unknown"));
            }
            commands = unknown;
        }
        first
    }

    /// Carries commands to the store, and learns from its answers.
    pub(super) async fn carry(&self, commands: &[(Arc<View>, Arc<Command>)]) -> Vec<Answer> {
        let updates = commands
            .iter()
            .map(|(view, command)| update(view.record_key.clone(), Arc::clone(command)));
        let answers = settle::answers(&*self.store, updates.collect()).await;
        for ((view, command), answer) in commands.iter().zip(&answers) {
            self.hear(view, command, answer);
        }
        answers
    }

    fn hear(&self, view: &Arc<View>, command: &Command, answer: &Answer) {
        let reached = !matches!(answer, Err(StoreError::Unavailable(_) | StoreError::Unknown(_)));
        if self.in_reach.swap(reached, Ordering::SeqCst) != reached {
            self.hub.wake(REACH);
        }
        match answer {
            Ok(Ok(decided)) => match view.learn(decided, durability(command), self.now()) {
                Learned::New => self.ask(view, ask::LEARNED),
                Learned::NotYet => self.ask(view, ask::READ),
                Learned::Old => {}
            },
            Ok(Err(error)) => {
                let Downstream { tenant, dependency } = &view.of;
                tracing::error!(%error, %tenant, %dependency, "a breaker can't be read");
            }
            Err(_) => {}
        }
    }
}

fn finish(answer: Answer) -> Result<Decided, Refusal> {
    match answer {
        Ok(Ok(decided)) => Ok(decided),
        Ok(Err(error)) => Err(Refusal::new(Reason::RecordUnreadable, error.to_string())),
        Err(error) => Err(refuse(&error)),
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::StreamExt;
    use semel_domain::breaker::{Counts, ForceKind, Override, ReporterId};
    use semel_domain::name::{Dependency, Tenant};
    use semel_store::{MemoryStore, SystemClock};

    use super::*;

    fn breakers(store: &MemoryStore, seed: u64) -> Breakers<MemoryStore> {
        let clock = ClockGuard::new(Arc::new(SystemClock), Duration::from_secs(1));
        let options = BreakerOptions::default();
        let (store, closing) = (Arc::new(store.clone()), CancellationToken::new());
        let node = u128::from(seed).to_le_bytes();
        Breakers::new(store, clock, node, seed, options, closing)
    }

    fn stripe() -> Downstream {
        let tenant = Tenant::parse("acme").expect("valid");
        Downstream { tenant, dependency: Dependency::parse("stripe").expect("valid") }
    }

    async fn force_open(breakers: &Breakers<MemoryStore>, id: u8) {
        let (actor, reason) = ("ops".into(), "drill".into());
        let kind = Some(ForceKind::Open);
        let force = Override { id: [id; 16], kind, expires_in: None, actor, reason };
        let view = breakers.view(&stripe()).expect("room");
        let forced = breakers.decide(&view, Command::Override(force), Deadline::none()).await;
        assert_eq!(forced.expect("decided"), Outcome::Override { already: false });
    }

    #[tokio::test]
    async fn a_gate_that_is_not_known_is_closed_until_it_was_looked_up_and_then_follows_the_store()
    {
        let store = MemoryStore::new(Arc::new(SystemClock));
        let (here, elsewhere) = (breakers(&store, 1), breakers(&store, 2));
        force_open(&elsewhere, 1).await;
        let unknown =
            Gate { open: false, look_again: None, admitted_per_mille: 1_000, generation: 0 };
        assert_eq!(here.gate(&stripe()), unknown);
        let check = async {
            let mut changes = pin!(here.view(&stripe()).expect("room").changes());
            while here.gate(&stripe()) == unknown {
                changes.next().await;
            }
            let open = Gate { open: true, admitted_per_mille: 0, generation: 1, ..unknown };
            assert_eq!(here.gate(&stripe()), open);
            force_open(&elsewhere, 2).await;
            while here.gate(&stripe()).generation < 2 {
                changes.next().await;
            }
            here.closing.cancel();
        };
        let both = async { tokio::join!(here.run(), check) };
        tokio::time::timeout(Duration::from_secs(30), both).await.expect("it is looked up");
    }

    #[tokio::test]
    async fn a_node_follows_no_more_breakers_than_it_may_and_forgets_what_is_idle() {
        let store = MemoryStore::new(Arc::new(SystemClock));
        let mut here = breakers(&store, 1);
        here.options.breakers_max = 1;
        let view = here.view(&stripe()).expect("room");
        let other =
            Downstream { dependency: Dependency::parse("other").expect("valid"), ..stripe() };
        assert_eq!(here.view(&other).err().expect("full").reason, Reason::Overloaded);
        assert!(!here.gate(&other).open, "doubt does not stop traffic");
        let now_us = here.clock.monotonic_us();
        let watching = view.changes();
        assert!(!here.forget(&view, now_us + 60_000_000, 1_000_000), "somebody watches it");
        drop(watching);
        assert!(here.forget(&view, now_us + 60_000_000, 1_000_000));
        assert!(here.view(&other).is_ok());
    }
    #[tokio::test]
    async fn what_gathered_behind_outcomes_under_way_is_brought_at_the_end() {
        let store = MemoryStore::new(Arc::new(SystemClock));
        let here = breakers(&store, 1);
        let view = here.view(&stripe()).expect("room");
        for number in 1..=2 {
            let failed = Counts { failed: 1, ..Counts::default() };
            let reporter = ReporterId([number; 16]);
            view.pending().add(0, reporter, failed, &here.gathered);
            view.pending().send(here.node, 0, &here.gathered, || here.next_seq());
        }
        here.closing.cancel();
        here.run().await;
        assert_eq!(view.snapshot(here.now()).counts.failed, 2);
        assert!(view.pending().is_empty());
    }
}
