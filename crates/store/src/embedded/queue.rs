//! A bounded queue from async callers to one thread.
//!
//! Invariants: what waits never outweighs the bound; whoever comes when it is reached waits without
//! holding a thread; after [`Queue::close`], or when the [`Receiver`] is gone, nothing enters, and
//! what had entered is still handed out by the receiver.

use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

/// The end that callers hold.
#[derive(Debug)]
pub(super) struct Queue<T>(Arc<Shared<T>>);

/// The end that the thread holds.
#[derive(Debug)]
pub(super) struct Receiver<T>(Arc<Shared<T>>);

/// The queue takes nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Closed;

#[derive(Debug)]
struct Shared<T> {
    room: Semaphore,
    state: Mutex<State<T>>,
    arrived: Condvar,
}

#[derive(Debug)]
struct State<T> {
    waiting: Vec<T>,
    /// The weight of all that waits, to be given back as room.
    weight: usize,
    closed: bool,
    /// Whether the receiver sleeps: waking costs a call into the kernel even if nobody does.
    receiver_sleeps: bool,
}

/// Makes a queue that holds up to `bound` weight, at least the weight of the heaviest item.
pub(super) fn bounded<T>(bound: usize) -> (Queue<T>, Receiver<T>) {
    let state = State { waiting: Vec::new(), weight: 0, closed: false, receiver_sleeps: false };
    let shared = Arc::new(Shared {
        room: Semaphore::new(bound.min(Semaphore::MAX_PERMITS)),
        state: Mutex::new(state),
        arrived: Condvar::new(),
    });
    (Queue(Arc::clone(&shared)), Receiver(shared))
}

impl<T> Queue<T> {
    /// Hands `item` over, waiting for room.
    pub(super) async fn send(&self, item: T, weight: u32) -> Result<(), Closed> {
        let permit = self.0.room.acquire_many(weight).await.map_err(|_| Closed)?;
        let mut state = self.0.lock();
        if state.closed {
            return Err(Closed);
        }
        permit.forget();
        state.waiting.push(item);
        state.weight += usize::try_from(weight).unwrap_or(usize::MAX);
        if mem::take(&mut state.receiver_sleeps) {
            drop(state);
            self.0.arrived.notify_one();
        }
        Ok(())
    }

    /// Lets nothing more in.
    pub(super) fn close(&self) {
        self.0.close();
    }
}

impl<T> Receiver<T> {
    /// Waits until something is there and takes all of it, in order, into `items`, which must be
    /// empty. False: the queue is closed and empty.
    pub(super) fn take(&self, items: &mut Vec<T>) -> bool {
        let mut state = self.0.lock();
        while state.waiting.is_empty() {
            if state.closed {
                return false;
            }
            state.receiver_sleeps = true;
            state = self.0.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        mem::swap(&mut state.waiting, items);
        let weight = mem::take(&mut state.weight);
        drop(state);
        self.0.room.add_permits(weight);
        true
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.close();
        self.0.lock().waiting.clear();
    }
}

impl<T> Shared<T> {
    fn close(&self) {
        self.lock().closed = true;
        self.room.close();
        self.arrived.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // The state is whole at every point where a thread could have died.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run<F: Future>(future: F) -> F::Output {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    #[test]
    fn all_that_waits_comes_at_once_and_in_order() {
        let (queue, receiver) = bounded(10);
        run(async {
            queue.send(1, 4).await.unwrap();
            queue.send(2, 6).await.unwrap();
        });
        let mut items = Vec::new();
        assert!(receiver.take(&mut items));
        assert_eq!(items, [1, 2]);
    }

    #[test]
    fn a_full_queue_holds_its_callers_until_there_is_room() {
        let (queue, receiver) = bounded(10);
        run(async {
            queue.send(1, 10).await.unwrap();
            let mut second = std::pin::pin!(queue.send(2, 1));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(second.as_mut().poll(&mut context).is_pending());
            assert!(receiver.take(&mut Vec::new()));
            second.await.unwrap();
        });
        let mut items = Vec::new();
        assert!(receiver.take(&mut items));
        assert_eq!(items, [2]);
    }

    #[test]
    fn a_closed_queue_gives_out_what_it_has_and_takes_no_more() {
        let (queue, receiver) = bounded(10);
        run(queue.send(1, 1)).unwrap();
        queue.close();
        assert_eq!(run(queue.send(2, 1)), Err(Closed));
        let mut items = Vec::new();
        assert!(receiver.take(&mut items));
        assert_eq!(items, [1]);
        assert!(!receiver.take(&mut items));
    }

    #[test]
    fn a_receiver_that_is_gone_closes_the_queue_and_drops_what_waits() {
        let (queue, receiver) = bounded(10);
        let held = Arc::new(());
        run(queue.send(Arc::clone(&held), 1)).unwrap();
        drop(receiver);
        assert_eq!(Arc::strong_count(&held), 1);
        assert_eq!(run(queue.send(Arc::clone(&held), 1)), Err(Closed));
    }

    #[test]
    fn a_sleeping_receiver_wakes_for_an_item_and_for_the_end() {
        let (queue, receiver) = bounded(1);
        let thread = std::thread::Builder::new()
            .spawn(move || {
                let (mut items, mut all) = (Vec::new(), Vec::new());
                while receiver.take(&mut items) {
                    all.append(&mut items);
                }
                all
            })
            .unwrap();
        run(async {
            for number in 0..100 {
                queue.send(number, 1).await.unwrap();
            }
        });
        queue.close();
        assert_eq!(thread.join().unwrap(), (0..100).collect::<Vec<_>>());
    }
}
