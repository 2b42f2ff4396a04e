//! Turns: the updates of one node that touch the same record go one after the other.
//!
//! Otherwise they would race each other for it in the database, and all but one of them in vain; and
//! a read could be given a later time than a write that comes after it.
//!
//! Invariants: whoever enters takes its place for all of its keys at once, so nobody waits in a
//! circle; turns come in the order of entering; a key takes memory only while somebody has a place.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

/// The places of all who are at a record or wait for one.
#[derive(Debug, Default)]
pub(super) struct Turns {
    queues: Mutex<HashMap<Bytes, VecDeque<Arc<Ticket>>>>,
}

#[derive(Debug)]
struct Ticket {
    /// In how many queues somebody is ahead.
    behind: AtomicUsize,
    ready: Notify,
}

/// A place for some keys, given up when it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    turns: Arc<Turns>,
    keys: Vec<Bytes>,
    ticket: Arc<Ticket>,
}

impl Turns {
    /// Takes a place for `keys`, which must be distinct.
    pub(super) fn enter(self: &Arc<Self>, keys: Vec<Bytes>) -> Turn {
        let ticket = Arc::new(Ticket { behind: AtomicUsize::new(0), ready: Notify::new() });
        let mut queues = self.lock();
        let mut behind = 0;
        for key in &keys {
            let queue = queues.entry(key.clone()).or_default();
            behind += usize::from(!queue.is_empty());
            queue.push_back(Arc::clone(&ticket));
        }
        ticket.behind.store(behind, Ordering::SeqCst);
        drop(queues);
        Turn { turns: Arc::clone(self), keys, ticket }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Bytes, VecDeque<Arc<Ticket>>>> {
        // The map is whole at every point where a thread could have died.
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    /// Waits until nobody is ahead at any key.
    pub(super) async fn come(&self) {
        while self.ticket.behind.load(Ordering::SeqCst) != 0 {
            self.ticket.ready.notified().await;
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut queues = self.turns.lock();
        for key in &self.keys {
            let Some(queue) = queues.get_mut(key) else { continue };
            let first = queue.front().is_some_and(|it| Arc::ptr_eq(it, &self.ticket));
            queue.retain(|it| !Arc::ptr_eq(it, &self.ticket));
            match queue.front() {
                None => {
                    queues.remove(key);
                }
                Some(next) if first => {
                    if next.behind.fetch_sub(1, Ordering::SeqCst) == 1 {
                        next.ready.notify_one();
                    }
                }
                Some(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn has_come(turn: &Turn) -> bool {
        pin!(turn.come()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    fn keys(keys: &[&'static str]) -> Vec<Bytes> {
        keys.iter().map(|key| Bytes::from_static(key.as_bytes())).collect()
    }

    #[test]
    fn turns_come_in_order_and_only_those_of_other_keys_pass() {
        let turns = Arc::new(Turns::default());
        let first = turns.enter(keys(&["a", "b"]));
        let second = turns.enter(keys(&["b", "c"]));
        let third = turns.enter(keys(&["c"]));
        let other = turns.enter(keys(&["d"]));
        assert!(has_come(&first) && has_come(&other));
        assert!(!has_come(&second) && !has_come(&third));
        drop(first);
        assert!(has_come(&second) && !has_come(&third));
        drop(second);
        assert!(has_come(&third));
        drop((third, other));
        assert!(turns.lock().is_empty(), "a key takes memory only while it is used");
    }

    #[test]
    fn who_gives_up_while_waiting_is_passed_over() {
        let turns = Arc::new(Turns::default());
        let first = turns.enter(keys(&["a"]));
        let gone = turns.enter(keys(&["a", "b"]));
        let third = turns.enter(keys(&["b", "a"]));
        drop(gone);
        assert!(!has_come(&third));
        drop(first);
        assert!(has_come(&third));
    }
}
