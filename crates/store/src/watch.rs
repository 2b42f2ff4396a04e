//! Wake-ups within one process: who waits for a record learns that it changed.
//!
//! Invariants: a watch is armed when [`WatchHub::watch`] returns, so a caller that watches first
//! and reads second misses no change that was committed after its read; a key takes memory only
//! while a [`Watch`] for it lives; and while nobody watches anything, a wake costs one atomic load.
//!
//! A wake-up is a hint. It may come without a change, several changes may come as one, and what
//! changed is for the caller to read: the hub carries no values.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Where an engine announces its commits, and where callers wait for them. Clones are handles to
/// the same hub.
#[derive(Clone, Default)]
pub struct WatchHub {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// How many keys are watched: a copy of the map's length that is read without its lock.
    watched_keys: AtomicUsize,
    /// Ordered, so that a simulation wakes its tasks in the same order each time it is run.
    keys: Mutex<BTreeMap<Arc<[u8]>, WatchedKey>>,
}

struct WatchedKey {
    wakes: Arc<Wakes>,
    watches: usize,
}

/// Not tokio's watch channel: that one wakes its receivers in random order, and a simulation that is run
/// twice would not be the same.
#[derive(Default)]
struct Wakes {
    count: AtomicU64,
    notify: Notify,
}

impl Wakes {
    fn wake(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.notify.notify_waiters();
    }
}

impl WatchHub {
    /// A hub that nobody watches.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Watches `key`, starting now.
    #[must_use]
    pub fn watch(&self, key: &[u8]) -> Watch {
        let key: Arc<[u8]> = key.into();
        let mut keys = self.shared.lock();
        let watched = keys
            .entry(Arc::clone(&key))
            .or_insert_with(|| WatchedKey { wakes: Arc::default(), watches: 0 });
        watched.watches += 1;
        let wakes = Arc::clone(&watched.wakes);
        self.shared.watched_keys.store(keys.len(), Ordering::SeqCst);
        drop(keys);
        let seen = wakes.count.load(Ordering::SeqCst);
        Watch { shared: Arc::clone(&self.shared), key, wakes, seen }
    }

    /// Wakes every watch of `key`. An engine calls it once the change can be read: a caller whose
    /// watch was armed too late for this wake then sees the change when it reads.
    pub fn wake(&self, key: &[u8]) {
        if self.shared.watched_keys.load(Ordering::SeqCst) == 0 {
            return;
        }
        let wakes = self.shared.lock().get(key).map(|watched| Arc::clone(&watched.wakes));
        // Outside the lock: a waker is foreign code, and may drop a watch.
        if let Some(wakes) = wakes {
            wakes.wake();
        }
    }

    /// Whether anybody watches `key`.
    #[must_use]
    pub fn is_watched(&self, key: &[u8]) -> bool {
        self.shared.watched_keys.load(Ordering::SeqCst) != 0 && self.shared.lock().contains_key(key)
    }

    /// The keys that are watched now, in order: for an engine that asks elsewhere whether they
    /// changed.
    #[must_use]
    pub fn watched_keys(&self) -> Vec<Arc<[u8]>> {
        self.shared.lock().keys().map(Arc::clone).collect()
    }

    /// Wakes every watch of every key: for an engine that can't tell any more what changed, since
    /// it was reopened or lost its notifications for a while.
    pub fn wake_all(&self) {
        let all: Vec<_> =
            self.shared.lock().values().map(|watched| Arc::clone(&watched.wakes)).collect();
        for wakes in all {
            wakes.wake();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<[u8]>, WatchedKey>> {
        // The map is whole at every point where a thread could have died.
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for WatchHub {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("WatchHub")
            .field("watched_keys", &self.shared.watched_keys.load(Ordering::SeqCst))
            .finish()
    }
}

/// A watch of one key, made by [`WatchHub::watch`].
pub struct Watch {
    shared: Arc<Shared>,
    key: Arc<[u8]>,
    wakes: Arc<Wakes>,
    /// How many wakes there had been when the watch was armed, or last woke.
    seen: u64,
}

impl Watch {
    /// Waits for a wake that came after the watch was armed, or after `changed` last returned; at
    /// once if one came already.
    ///
    /// Cancel-safe: a call that is dropped before it returns has used up no wake.
    pub async fn changed(&mut self) {
        loop {
            let mut woken = pin!(self.wakes.notify.notified());
            // Listen first, look second: a wake in between is not missed.
            woken.as_mut().enable();
            let count = self.wakes.count.load(Ordering::SeqCst);
            if count != self.seen {
                self.seen = count;
                return;
            }
            woken.await;
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut keys = self.shared.lock();
        if let Some(watched) = keys.get_mut(&self.key) {
            watched.watches -= 1;
            if watched.watches == 0 {
                keys.remove(&self.key);
            }
        }
        self.shared.watched_keys.store(keys.len(), Ordering::SeqCst);
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Watch").field("key", &self.key).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    /// Polls `changed` once and drops it.
    fn has_woken(watch: &mut Watch) -> bool {
        let changed = pin!(watch.changed());
        changed.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    fn watched_keys(hub: &WatchHub) -> (usize, usize) {
        (hub.shared.watched_keys.load(Ordering::SeqCst), hub.shared.lock().len())
    }

    #[test]
    fn a_wake_before_the_watch_does_not_count_and_one_after_it_does() {
        let hub = WatchHub::new();
        hub.wake(b"a");
        let mut watch = hub.watch(b"a");
        assert!(!has_woken(&mut watch));
        hub.wake(b"a");
        assert!(has_woken(&mut watch));
        assert!(!has_woken(&mut watch), "one wake was used up by one call");
    }

    #[test]
    fn several_wakes_come_as_one() {
        let hub = WatchHub::new();
        let mut watch = hub.watch(b"a");
        hub.wake(b"a");
        hub.wake(b"a");
        assert!(has_woken(&mut watch));
        assert!(!has_woken(&mut watch));
    }

    #[test]
    fn only_the_watches_of_the_key_wake_and_all_of_them() {
        let hub = WatchHub::new();
        let (mut first, mut second) = (hub.watch(b"a"), hub.watch(b"a"));
        let mut other = hub.watch(b"b");
        hub.wake(b"a");
        assert!(has_woken(&mut first));
        assert!(has_woken(&mut second));
        assert!(!has_woken(&mut other));
        hub.wake_all();
        assert!(has_woken(&mut first));
        assert!(has_woken(&mut second));
        assert!(has_woken(&mut other));
    }

    #[test]
    fn a_call_that_was_dropped_uses_up_no_wake() {
        let hub = WatchHub::new();
        let mut watch = hub.watch(b"a");
        {
            let changed = pin!(watch.changed());
            assert!(changed.poll(&mut Context::from_waker(Waker::noop())).is_pending());
            hub.wake(b"a");
        }
        assert!(has_woken(&mut watch));
    }

    #[test]
    fn a_key_takes_memory_only_while_it_is_watched() {
        let hub = WatchHub::new();
        let first = hub.watch(b"a");
        let second = hub.watch(b"a");
        let other = hub.watch(b"b");
        assert_eq!(watched_keys(&hub), (2, 2));
        assert!(hub.is_watched(b"a") && !hub.is_watched(b"c"));
        assert_eq!(hub.watched_keys(), [Arc::from(&b"a"[..]), Arc::from(&b"b"[..])]);
        drop(first);
        assert_eq!(watched_keys(&hub), (2, 2), "the second watch of the key still lives");
        drop(second);
        assert_eq!(watched_keys(&hub), (1, 1));
        drop(other);
        assert_eq!(watched_keys(&hub), (0, 0));
    }

    #[test]
    fn a_watch_outlives_the_handles_of_its_hub() {
        let hub = WatchHub::new();
        let mut watch = hub.watch(b"a");
        drop(hub);
        assert!(!has_woken(&mut watch));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_wake_is_lost_between_threads() {
        const ROUNDS: u64 = 2_000;
        let hub = WatchHub::new();
        let written = Arc::new(AtomicU64::new(0));
        let mut waiters = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let (hub, written) = (hub.clone(), Arc::clone(&written));
            waiters.spawn(async move {
                loop {
                    let mut watch = hub.watch(b"a");
                    if written.load(Ordering::SeqCst) == ROUNDS {
                        return;
                    }
                    watch.changed().await;
                }
            });
        }
        for round in 1..=ROUNDS {
            written.store(round, Ordering::SeqCst);
            hub.wake(b"a");
            if round % 16 == 0 {
                tokio::task::yield_now().await;
            }
        }
        waiters.join_all().await;
        assert_eq!(watched_keys(&hub), (0, 0));
    }
}
