//! A breaker as this node knows it.

use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};
use semel_domain::breaker::layout::record_key;
use semel_domain::breaker::{Condition, Force, Record, Snapshot, Standing, snapshot, standing};
use semel_domain::downstream::Downstream;
use semel_domain::time::Timestamp;
use semel_store::{Durability, WatchHub};
use tokio_util::sync::CancellationToken;

use super::pending::Pending;
use super::transition::Decided;

/// A breaker as this node knows it.
pub(super) struct View {
    pub(super) of: Downstream,
    pub(super) record_key: Bytes,
    known: RwLock<Option<Known>>,
    told: Mutex<Told>,
    /// Not tokio's watch channel: that one wakes in random order, and a simulation could not be repeated.
    hub: WatchHub,
    watchers: AtomicUsize,
    pending: Mutex<Pending>,
    /// Held by whoever asks the store on behalf of callers, so that a crowd asks it once.
    pub(super) asking: tokio::sync::Mutex<()>,
    errands: Mutex<Errands>,
    /// What the keeper was asked for and has not taken up yet: bits.
    pub(super) asked: AtomicU8,
    used_us: AtomicU64,
    /// Cancelled when the node forgets it.
    pub(super) gone: CancellationToken,
}

/// What the keeper is about to do for a view.
#[derive(Debug, Default)]
pub(super) struct Errands {
    pub(super) flushing: bool,
    pub(super) reading: bool,
    pub(super) advancing: bool,
    pub(super) read_us: u64,
    pub(super) announce_us: Option<u64>,
}

struct Known {
    record: Option<Arc<Record>>,
    decided_at: Timestamp,
}

/// What watchers are told of: everything but counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Told(Option<(Condition, u64, u32, bool, Option<Force>, u64)>);

/// What became of news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Learned {
    /// It is what the node knows now.
    New,
    /// The node knew better.
    Old,
    /// It tells of a state that may not be on disk yet: read it.
    NotYet,
}

impl View {
    pub(super) fn new(of: Downstream, now_us: u64, hub: &WatchHub) -> Arc<Self> {
        Arc::new(Self {
            record_key: record_key(&of),
            of,
            known: RwLock::default(),
            told: Mutex::default(),
            hub: hub.clone(),
            watchers: AtomicUsize::default(),
            pending: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
            errands: Mutex::default(),
            asked: AtomicU8::default(),
            used_us: AtomicU64::new(now_us),
            gone: CancellationToken::new(),
        })
    }

    pub(super) fn touch(&self, now_us: u64) {
        self.used_us.store(now_us, Ordering::Relaxed);
    }

    /// How long nobody asked for it, in microseconds; not at all while somebody watches it.
    pub(super) fn idle_us(&self, now_us: u64) -> u64 {
        let busy = self.watchers.load(Ordering::SeqCst) > 0 || !self.pending().is_empty();
        if busy { 0 } else { now_us.saturating_sub(self.used_us.load(Ordering::Relaxed)) }
    }

    pub(super) fn is_known(&self) -> bool {
        self.known.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    pub(super) fn record(&self) -> Option<Arc<Record>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().and_then(|known| known.record.clone())
    }

    pub(super) fn standing(&self, now: Timestamp) -> Standing {
        standing(self.record().as_deref(), now)
    }

    pub(super) fn snapshot(&self, now: Timestamp) -> Snapshot {
        snapshot(self.record().as_deref(), now)
    }

    pub(super) fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn errands(&self) -> MutexGuard<'_, Errands> {
        self.errands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes news in, and tells watchers. A later generation counts only once it is on disk: a state
    /// that a crash could take back must not be acted upon.
    pub(super) fn learn(
        &self,
        decided: &Decided,
        durability: Durability,
        now: Timestamp,
    ) -> Learned {
        // The generation first: times of two transactions may cross.
        let age = |record: &Option<Arc<Record>>, decided_at| {
            let of = record.as_ref().map(|record| (record.generation, record.touched_at));
            let (generation, touched_at) = of.unwrap_or_default();
            (generation, decided_at, touched_at)
        };
        let new = age(&decided.record, decided.now);
        {
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            let old = known.as_ref().map(|known| age(&known.record, known.decided_at));
            if old.is_some_and(|old| new < old) {
                return Learned::Old;
            }
            if durability == Durability::Relaxed && new.0 > old.map_or(0, |old| old.0) {
                return Learned::NotYet;
            }
            *known = Some(Known { record: decided.record.clone(), decided_at: decided.now });
        }
        self.announce(now);
        Learned::New
    }

    /// Tells watchers how it stands at `now`, if that is news.
    pub(super) fn announce(&self, now: Timestamp) {
        // Locked first, so that the last to look is the last to tell.
        let mut last = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let Snapshot { standing, force, policy_version, .. } = self.snapshot(now);
        let told = Told(Some((
            standing.condition,
            standing.generation,
            standing.admitted_per_mille,
            standing.probe_due,
            force,
            policy_version,
        )));
        if *last != told {
            *last = told;
            drop(last);
            self.hub.wake(&self.record_key);
        }
    }

    /// Wakes at each change from now on, and once at first.
    pub(super) fn changes(self: &Arc<Self>) -> impl Stream<Item = ()> + Send + use<> {
        let watch = self.hub.watch(&self.record_key);
        let watching = Watching::new(Arc::clone(self));
        let later = stream::unfold((watch, watching), async |(mut watch, watching)| {
            watch.changed().await;
            Some(((), (watch, watching)))
        });
        stream::once(async {}).chain(later)
    }
}

/// Somebody watches a view: it is not to be forgotten.
struct Watching(Arc<View>);

impl Watching {
    fn new(view: Arc<View>) -> Self {
        view.watchers.fetch_add(1, Ordering::SeqCst);
        Self(view)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.watchers.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use semel_domain::breaker::{Outcome, State};
    use semel_domain::name::{Dependency, Tenant};

    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

    fn view() -> Arc<View> {
        let tenant = Tenant::parse("acme").expect("valid");
        let dependency = Dependency::parse("stripe").expect("valid");
        View::new(Downstream { tenant, dependency }, 0, &WatchHub::new())
    }

    fn open(generation: u64, decided_us: u64) -> Decided {
        let now = Timestamp::from_micros(decided_us);
        let state = State::Open { since: NOW, until: NOW, level: 0 };
        let record = Record { generation, state, ..Record::fresh(now) };
        Decided { outcome: Outcome::Get(None), record: Some(Arc::new(record)), now }
    }

    #[test]
    fn what_is_known_never_goes_back() {
        let view = view();
        assert!(!view.is_known());
        assert_eq!(view.learn(&open(2, 50), Durability::Synced, NOW), Learned::New);
        assert_eq!(view.learn(&open(1, 90), Durability::Synced, NOW), Learned::Old);
        assert_eq!(view.learn(&open(2, 49), Durability::Synced, NOW), Learned::Old);
        assert_eq!(view.learn(&open(2, 51), Durability::Relaxed, NOW), Learned::New);
        let none = Decided { record: None, ..open(0, 99) };
        assert_eq!(view.learn(&none, Durability::Synced, NOW), Learned::Old);
        assert_eq!(view.standing(NOW).generation, 2);
    }

    #[test]
    fn a_state_that_may_not_be_on_disk_yet_is_not_acted_upon() {
        let view = view();
        assert_eq!(view.learn(&open(1, 50), Durability::Relaxed, NOW), Learned::NotYet);
        assert_eq!(view.standing(NOW).condition, Condition::Closed);
        assert_eq!(view.learn(&open(1, 50), Durability::Synced, NOW), Learned::New);
        assert_eq!(view.standing(NOW).condition, Condition::Open);
    }
}
