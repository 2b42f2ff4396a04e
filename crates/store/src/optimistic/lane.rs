//! Lanes: what several batches ask of the database at the same time goes in one request.
//!
//! A request costs the database as much as many records do, so a busy node sends few large ones. Nothing
//! is held back for that: what is asked while enough requests are on their way makes up the next one,
//! and a lone batch goes at once.
//!
//! Invariants: whatever was asked is answered, or its asker learns that the lane is gone; a lane holds no
//! more than the updates that the store has room for.

use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::{Notify, oneshot};
use tokio::time::sleep;

use super::longest;

/// How many requests more are on their way if the usual ones are stuck behind a lock or a slow disk.
const SPARE: usize = 2;
/// How long something waits for the others to get on before it goes all the same.
const STUCK: Duration = Duration::from_millis(20);
/// How many records one request takes at the most, unless one batch has more.
const RECORDS: usize = 2_048;

/// A queue of questions, each about some records `R`, and each answered by an `A`.
pub(super) struct Lane<R, A> {
    queue: Mutex<Vec<Asked<R, A>>>,
    arrived: Notify,
    /// How many requests are on their way as a rule.
    usual: usize,
}

/// A question, and who wants to know.
pub(super) struct Asked<R, A> {
    pub(super) records: Vec<R>,
    /// How long the answer is of use; `None`: as long as it takes.
    pub(super) patience: Option<Duration>,
    pub(super) asker: oneshot::Sender<A>,
}

/// How long the most patient of them waits.
pub(super) fn patience<R, A>(asked: &[Asked<R, A>]) -> Option<Duration> {
    longest(asked.iter().map(|it| it.patience))
}

impl<R, A> Lane<R, A> {
    /// A lane with `usual` requests on their way, as a rule.
    pub(super) fn new(usual: usize) -> Self {
        Self { queue: Mutex::default(), arrived: Notify::new(), usual }
    }

    /// Asks, and waits for the answer; `None`: the store is closed.
    pub(super) async fn ask(&self, records: Vec<R>, patience: Option<Duration>) -> Option<A> {
        let (asker, answer) = oneshot::channel();
        self.lock().push(Asked { records, patience, asker });
        self.arrived.notify_one();
        answer.await.ok()
    }

    /// Carries what is asked, for ever.
    pub(super) async fn drive<F: Future<Output = ()>>(
        &self,
        carry: impl Fn(Vec<Asked<R, A>>) -> F,
    ) {
        let mut under_way = FuturesUnordered::new();
        let mut stuck = pin!(sleep(STUCK));
        loop {
            let mut allowed = self.usual;
            tokio::select! {
                biased;
                Some(()) = under_way.next() => stuck.set(sleep(STUCK)),
                () = self.arrived.notified() => {
                    // Let the batches that are ready to ask join this one.
                    tokio::task::yield_now().await;
                }
                () = &mut stuck, if under_way.len() < self.usual + SPARE && !self.lock().is_empty() => {
                    allowed = under_way.len() + 1;
                }
            }
            while under_way.len() < allowed {
                let taken = self.take();
                if taken.is_empty() {
                    break;
                }
                stuck.set(sleep(STUCK));
                under_way.push(carry(taken));
            }
        }
    }

    /// As much as fits into one request.
    fn take(&self) -> Vec<Asked<R, A>> {
        let mut queue = self.lock();
        let mut records = 0;
        let fits = queue.iter().take_while(|asked| {
            records += asked.records.len();
            records <= RECORDS
        });
        let count = fits.count().max(1).min(queue.len());
        queue.drain(..count).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Asked<R, A>>> {
        // The queue is whole at every point where a thread could have died.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Asks eight times at once, with a request that never ends for each question in `stuck`; returns
    /// the sizes of the requests.
    async fn sizes(stuck: &[u32]) -> Vec<usize> {
        let lane = Lane::<u32, u32>::new(2);
        let sizes = RefCell::new(Vec::new());
        let carry = async |asked: Vec<Asked<u32, u32>>| {
            sizes.borrow_mut().push(asked.len());
            if asked.iter().any(|it| it.records.iter().any(|it| stuck.contains(it))) {
                std::future::pending::<()>().await;
            }
            sleep(Duration::from_millis(16)).await;
            for Asked { records, asker, .. } in asked {
                asker.send(records[0]).unwrap();
            }
        };
        let askers = async {
            let ask = async |number: u32| {
                sleep(Duration::from_millis(3 * u64::from(number))).await;
                if !stuck.contains(&number) {
                    assert_eq!(lane.ask(vec![number], None).await, Some(number));
                } else {
                    tokio::select! {
                        _ = lane.ask(vec![number], None) => panic!("it is stuck"),
                        () = sleep(Duration::from_secs(1)) => {}
                    }
                }
            };
            futures::future::join_all((0..8).map(ask)).await;
        };
        tokio::select! {
            () = lane.drive(carry) => {}
            _ = askers => {}
        }
        sizes.into_inner()
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_asked_meanwhile_goes_together() {
        assert_eq!(sizes(&[]).await, [1, 1, 4, 1, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_stuck_keeps_nobody_for_long() {
        assert_eq!(sizes(&[0, 1]).await, [1, 1, 6]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_takes_a_bounded_number_of_records_or_one_batch() {
        let lane = Lane::<u8, ()>::new(1);
        for records in [RECORDS, 1, RECORDS + 1, RECORDS - 1, 1, 1] {
            let (asker, _) = oneshot::channel();
            lane.lock().push(Asked { records: vec![0; records], patience: None, asker });
        }
        let taken = || lane.take().iter().map(|asked| asked.records.len()).collect::<Vec<_>>();
        assert_eq!(taken(), [RECORDS]);
        assert_eq!(taken(), [1]);
        assert_eq!(taken(), [RECORDS + 1]);
        assert_eq!(taken(), [RECORDS - 1, 1]);
        assert_eq!(taken(), [1]);
        assert_eq!(taken(), [0; 0]);
    }
}
