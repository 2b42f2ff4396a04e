//! The records that somebody of this node watches, and the version that is known of each.
//!
//! Invariants: whoever watches a record is woken after each change that is not the one it read, whether this
//! node made it, heard of it, or finds it by polling, at the latest by the second poll; a record takes memory
//! only while it is watched, or until the next poll.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::watch::{Watch, WatchHub};

/// The watched records of a store that other nodes write, too.
#[derive(Debug, Default)]
pub struct Watched {
    hub: WatchHub,
    seen: Mutex<HashMap<Vec<u8>, Seen>>,
}

/// What is known of a watched record.
#[derive(Debug)]
struct Seen {
    /// `None`: absent.
    version: Option<i64>,
    /// Whether it was so when somebody who watches read it; if not, a change may have come before.
    certain: bool,
}

impl Watched {
    /// Watches `key`, starting now.
    #[must_use]
    pub fn watch(&self, key: &[u8]) -> Watch {
        self.hub.watch(key)
    }

    /// Whether anybody watches `key`.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        self.hub.is_watched(key)
    }

    /// The keys that are watched now, in order. What is known of others is forgotten.
    #[must_use]
    pub fn keys(&self) -> Vec<Arc<[u8]>> {
        self.lock().retain(|key, _| self.hub.is_watched(key));
        self.hub.watched_keys()
    }

    /// Wakes whoever watches `key`: another node said that it changed.
    pub fn wake(&self, key: &[u8]) {
        self.hub.wake(key);
    }

    /// Wakes all: nobody can tell any more what changed.
    pub fn wake_all(&self) {
        self.hub.wake_all();
    }

    /// Takes what was read of a record by an update: whoever watches it may have read it so.
    pub fn note(&self, key: &[u8], version: Option<i64>) {
        if !self.hub.is_watched(key) {
            return;
        }
        let old = self.lock().insert(key.to_vec(), Seen { version, certain: true });
        if old.is_some_and(|old| old.certain && old.version != version) {
            // Others who watch it read an older one, and polling would not find the difference any
            // more.
            self.hub.wake(key);
        }
    }

    /// Takes what this node committed of a record, and wakes whoever watches it; whether anybody did.
    pub fn committed(&self, key: &[u8], version: Option<i64>) -> bool {
        let watched = self.hub.is_watched(key);
        if watched {
            self.lock().insert(key.to_vec(), Seen { version, certain: true });
        }
        self.hub.wake(key);
        watched
    }

    /// Takes what polling found of a record, and wakes whoever watches it if that may be news.
    pub fn polled(&self, key: &[u8], version: Option<i64>) {
        let mut all = self.lock();
        let Some(seen) = all.get_mut(key) else {
            // It may have changed between the watch and now; the next time tells it.
            all.insert(key.to_vec(), Seen { version, certain: false });
            return;
        };
        let wake = !seen.certain || seen.version != version;
        *seen = Seen { version, certain: true };
        drop(all);
        if wake {
            self.hub.wake(key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Seen>> {
        // Whole at every point where a thread could have died.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn has_woken(watch: &mut Watch) -> bool {
        pin!(watch.changed()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn polling_finds_what_changed_since_it_was_read() {
        let watched = Watched::default();
        let mut watch = watched.watch(b"key");
        watched.note(b"key", Some(1));
        watched.polled(b"key", Some(1));
        assert!(!has_woken(&mut watch), "it is as it was read");
        watched.polled(b"key", Some(2));
        assert!(has_woken(&mut watch));
        watched.polled(b"key", Some(2));
        assert!(!has_woken(&mut watch), "that was told");
        watched.polled(b"key", None);
        assert!(has_woken(&mut watch), "it is gone");
    }

    #[test]
    fn what_nobody_read_is_told_by_the_second_poll_and_once() {
        let watched = Watched::default();
        let mut watch = watched.watch(b"key");
        let mut woken = Vec::new();
        for _ in 0..3 {
            watched.polled(b"key", Some(1));
            woken.push(has_woken(&mut watch));
        }
        assert_eq!(woken, [false, true, false]);
    }

    #[test]
    fn one_who_read_a_newer_one_wakes_those_who_read_an_older_one() {
        let watched = Watched::default();
        let mut watch = watched.watch(b"key");
        watched.note(b"key", Some(1));
        watched.note(b"key", Some(2));
        assert!(has_woken(&mut watch));
        assert!(watched.committed(b"key", Some(3)));
        assert!(has_woken(&mut watch));
        watched.polled(b"key", Some(3));
        assert!(!has_woken(&mut watch), "this node made it so");
    }

    #[test]
    fn what_nobody_watches_takes_no_memory() {
        let watched = Watched::default();
        watched.note(b"key", Some(1));
        assert!(!watched.committed(b"key", Some(2)));
        assert!(watched.lock().is_empty());
        let watch = watched.watch(b"key");
        watched.note(b"key", Some(2));
        assert_eq!(watched.lock().len(), 1);
        drop(watch);
        assert!(watched.keys().is_empty() && watched.lock().is_empty());
    }
}
