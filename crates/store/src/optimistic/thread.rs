//! The thread of a store, with a runtime of its own, on which its work is done.
//!
//! Invariants: what was handed over is finished there, whether or not its caller stays; no more items than there
//! is room for are on their way, others wait; the thread is told to end, and joined, at the latest when its handle
//! is dropped, so it does not outlive an opening that is given up either.

use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Answers;
use crate::contract::{StoreError, Transition, Update};
use crate::limits;

/// The handle of a store's thread.
#[derive(Debug)]
pub struct StoreThread {
    runtime: Handle,
    /// Room for items on their way.
    room: Arc<Semaphore>,
    tasks: TaskTracker,
    stop: CancellationToken,
    running: Mutex<Option<JoinHandle<()>>>,
}

/// How the life of a thread learns of its end.
#[derive(Debug)]
pub struct Ending {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl StoreThread {
    /// Starts a thread that lives as long as the future of `life`, with room for so many items. What that future
    /// returns is dropped last, after all that is still in the runtime.
    ///
    /// # Errors
    ///
    /// The machine gives no thread or no runtime.
    pub fn start<F: Future>(
        name: &str,
        room: usize,
        life: impl FnOnce(Ending) -> F + Send + 'static,
    ) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let ending = Ending { tasks: tasks.clone(), stop: stop.clone() };
        let handle = runtime.handle().clone();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let last = runtime.block_on(life(ending));
            drop(runtime);
            drop(last);
        });
        let running = Mutex::new(Some(thread?));
        Ok(Self { runtime: handle, room: Arc::new(Semaphore::new(room)), tasks, stop, running })
    }

    /// Runs `work` on the thread, whether or not the caller stays.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unavailable`]: the store is closed. The work was perhaps begun.
    pub async fn run<R: Send + 'static>(
        &self,
        work: impl Future<Output = R> + Send + 'static,
    ) -> Result<R, StoreError> {
        if self.tasks.is_closed() {
            return Err(closed());
        }
        let (caller, answer) = oneshot::channel();
        self.tasks.spawn_on(
            async move {
                // A caller that is gone needs no answer.
                let _ = caller.send(work.await);
            },
            &self.runtime,
        );
        answer.await.map_err(|_| closed())
    }

    /// Runs an update on the thread once there is room for it, if the contract allows it.
    pub async fn update<T: Transition, F>(
        &self,
        batch: Vec<Update<T>>,
        run: impl FnOnce(Vec<Update<T>>) -> F + Send,
    ) -> Answers<T>
    where
        F: Future<Output = Answers<T>> + Send + 'static,
    {
        let items = batch.len();
        let all = |error: StoreError| (0..items).map(|_| Err(error.clone())).collect();
        if items == 0 {
            return Vec::new();
        }
        if let Err(error) = limits::check_batch(items) {
            return all(error);
        }
        let weight = u32::try_from(items).unwrap_or(u32::MAX);
        let Ok(room) = Arc::clone(&self.room).acquire_many_owned(weight).await else {
            return all(closed());
        };
        let work = run(batch);
        let work = async move {
            let answers = work.await;
            drop(room);
            answers
        };
        let lost =
            |_| all(StoreError::Unknown("the store was closed before it answered".to_owned()));
        self.run(work).await.unwrap_or_else(lost)
    }

    /// Takes no more work, and blocks until what was handed over is finished and the thread is gone. Again, it
    /// has no effect.
    pub fn end(&self) {
        self.room.close();
        self.tasks.close();
        self.stop.cancel();
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if running.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of the store panicked; this is a bug");
        }
    }
}

impl Drop for StoreThread {
    fn drop(&mut self) {
        self.end();
    }
}

impl Ending {
    /// Waits until the thread is told to end.
    pub async fn told(&self) {
        self.stop.cancelled().await;
    }

    /// Waits until all that was handed over is finished, but no longer than `patience`.
    pub async fn finished(&self, patience: Duration) {
        if tokio::time::timeout(patience, self.tasks.wait()).await.is_err() {
            tracing::error!("updates were given up while the store was closed");
        }
    }
}

fn closed() -> StoreError {
    StoreError::Unavailable("the store is closed".to_owned())
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicBool, Ordering};

    use futures::poll;

    use super::*;
    use crate::contract::{Change, Durability};

    const PATIENCE: Duration = Duration::from_secs(60);

    async fn until_told(ending: Ending) {
        ending.told().await;
        ending.finished(PATIENCE).await;
    }

    #[tokio::test]
    async fn what_was_handed_over_is_finished_though_its_caller_is_gone() {
        let thread = StoreThread::start("store-test", 1, until_told).unwrap();
        let (go, wait) = oneshot::channel::<()>();
        let is_done = Arc::new(AtomicBool::new(false));
        let done = Arc::clone(&is_done);
        let work = async move {
            let _ = wait.await;
            done.store(true, Ordering::SeqCst);
        };
        tokio::select! {
            biased;
            _ = thread.run(work) => panic!("it waits"),
            () = std::future::ready(()) => {}
        }
        go.send(()).unwrap();
        thread.end();
        assert!(is_done.load(Ordering::SeqCst));
        assert_eq!(thread.run(std::future::ready(())).await, Err(closed()));
    }

    #[tokio::test]
    async fn a_thread_that_nobody_holds_is_gone() {
        struct Last(Arc<AtomicBool>);
        impl Drop for Last {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let is_gone = Arc::new(AtomicBool::new(false));
        let last = Last(Arc::clone(&is_gone));
        let thread = StoreThread::start("store-test", 1, |ending| async move {
            ending.told().await;
            last
        });
        drop(thread.unwrap());
        assert!(is_gone.load(Ordering::SeqCst));
    }

    #[derive(Clone)]
    struct Keep;

    impl Transition for Keep {
        type Outcome = ();

        fn apply(&self, _old: Option<&[u8]>, _now_us: u64) -> (Change, ()) {
            (Change::keep(), ())
        }
    }

    #[tokio::test]
    async fn who_finds_no_room_waits_and_who_comes_after_the_end_is_refused() {
        let thread = StoreThread::start("store-test", 2, until_told).unwrap();
        let batch = |items: usize| {
            let item = Update {
                key: "key".into(),
                durability: Durability::Synced,
                patience: None,
                transition: Keep,
            };
            vec![item; items]
        };
        let answer = |batch: Vec<Update<Keep>>| std::future::ready(vec![Ok(()); batch.len()]);
        assert_eq!(thread.update(batch(0), answer).await, []);
        let refused = thread.update(batch(4_097), answer).await;
        assert!(matches!(refused[..], [Err(StoreError::Invalid(_)), ..]), "{}", refused.len());

        let (go, wait) = oneshot::channel::<()>();
        let mut first = pin!(thread.update(batch(2), |batch| async move {
            let _ = wait.await;
            vec![Ok(()); batch.len()]
        }));
        let has_begun = Arc::new(AtomicBool::new(false));
        let begun = Arc::clone(&has_begun);
        let mut second = pin!(thread.update(batch(1), |batch| async move {
            begun.store(true, Ordering::SeqCst);
            vec![Ok(()); batch.len()]
        }));
        assert!(poll!(&mut first).is_pending() && poll!(&mut second).is_pending());
        thread.run(std::future::ready(())).await.unwrap();
        assert!(!has_begun.load(Ordering::SeqCst), "there is no room");
        go.send(()).unwrap();
        assert_eq!(first.await, [Ok(()), Ok(())]);
        assert_eq!(second.await, [Ok(())]);
        thread.end();
        assert_eq!(thread.update(batch(2), answer).await, [Err(closed()), Err(closed())]);
    }
}
