//! The embedded engine: one machine, on a log-structured tree (fjall), for one process.
//!
//! A batch of transitions goes through two threads. The *decider* reads old values, applies the
//! transitions in order and adds the changes to the open group. The *committer* writes one group
//! after the other, each as one atomic batch with one sync, and answers. Groups form by themselves:
//! whatever is decided while one group is synced makes up the next. Scans have a thread of their
//! own, so that no update waits behind one.
//!
//! # Invariants
//!
//! - What is answered as [`Synced`](crate::Durability::Synced) is on disk, and the acknowledged
//!   mark says so. Opening refuses a journal that holds less, and changes nothing.
//! - A value is visible to later transitions from the moment it was decided; a transition that saw
//!   it is answered no earlier than it is committed.
//! - Time, as transitions see it, never goes back: not with the clock, not over a restart.
//! - After a failed write, nothing that was decided on top of it is committed. The tree is reopened
//!   when the disk takes writes again; until then every update is refused at once.
//! - Queues, groups and memory are bounded by [`EmbeddedOptions`].
//!
//! # What it does not do
//!
//! It shares no directory with another process, it never repairs damage, and it does not expire
//! records: whoever knows what a record means deletes it.

mod acknowledged;
mod committer;
mod decider;
mod directory;
mod error;
mod files;
mod job;
mod journal;
mod options;
mod pipeline;
mod queue;
mod retired;
mod scanner;
mod shared;
mod stamp;
mod tree;

use std::fmt;
use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

pub use error::OpenError;
pub use options::EmbeddedOptions;

use committer::Committer;
use directory::{Directory, Opened};
use job::{Batch, Job};
use pipeline::Pipeline;
use queue::Queue;
use scanner::ScanJob;
use shared::Shared;

use crate::contract::{Page, Scan, Store, StoreError, Transition, Update};
use crate::limits;
use crate::watch::Watch;

/// A store in a directory of this machine. Clones are handles to the same store.
///
/// The store is closed by [`close`](Self::close), or when the last handle is dropped.
#[derive(Clone)]
pub struct EmbeddedStore {
    handle: Arc<Handle>,
}

struct Handle {
    shared: Arc<Shared>,
    updates: Queue<Box<dyn Job>>,
    scans: Queue<ScanJob>,
    path: PathBuf,
    threads: Mutex<Threads>,
}

#[derive(Default)]
struct Threads {
    /// Those that end when their queue is closed: the decider and the scanner.
    fed_by_queues: Vec<JoinHandle<()>>,
    committer: Option<JoinHandle<()>>,
}

impl EmbeddedStore {
    /// Opens the store in a directory, creating it if the directory is empty. Blocks while the
    /// journal is checked and replayed: about a second after a crash under load.
    ///
    /// # Errors
    ///
    /// [`OpenError`] says what was found and what to do. Nothing was changed on disk if the journal
    /// or the mark was refused.
    pub fn open(options: EmbeddedOptions) -> Result<Self, OpenError> {
        options.check()?;
        let clock = Arc::clone(&options.clock);
        let pipeline = Pipeline::new(&options);
        let (updates, update_receiver) = queue::bounded(options.queue_updates);
        let (scans, scan_receiver) = queue::bounded(options.queue_scans);
        let path = options.path.clone();
        let directory = Directory::lock(options)?;
        let Opened { tree, mark, last } = directory.open(u64::MAX)?;
        let shared = Arc::new(Shared::new(pipeline, clock, tree));
        let handle = Handle {
            shared: Arc::clone(&shared),
            updates,
            scans,
            path: path.clone(),
            threads: Mutex::default(),
        };
        let committer = Committer { shared: Arc::clone(&shared), directory, mark, last };
        let decider_shared = Arc::clone(&shared);
        let floor_us = last.now_us;
        let start = || -> io::Result<()> {
            let mut threads = handle.threads();
            threads.committer = Some(spawn("store-committer", move || committer.run())?);
            threads.fed_by_queues.push(spawn("store-decider", move || {
                decider::run(&decider_shared, &update_receiver, floor_us);
            })?);
            threads.fed_by_queues.push(spawn("store-scanner", move || {
                scanner::run(&shared, &scan_receiver);
            })?);
            Ok(())
        };
        start().map_err(|error| OpenError::io("start the threads for", &path, error))?;
        Ok(Self { handle: Arc::new(handle) })
    }

    /// The data directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.handle.path
    }

    /// Whether the store takes updates: false after a failed write until the tree is reopened, and
    /// after it was closed.
    #[must_use]
    pub fn healthy(&self) -> bool {
        self.handle.shared.healthy()
    }

    /// How many commits were written since the store was opened, each with one sync unless all of
    /// its changes were relaxed.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.handle.shared.commits()
    }

    /// Takes no more updates, commits and answers those that were handed over, and closes the
    /// files. Blocks until that is done, up to seconds while tables are merged; closing again has
    /// no effect.
    pub fn close(&self) {
        self.handle.close();
    }
}

impl Handle {
    fn close(&self) {
        self.updates.close();
        self.scans.close();
        let Threads { fed_by_queues, committer } = mem::take(&mut *self.threads());
        for thread in fed_by_queues {
            join(thread);
        }
        // The decider does this when it ends; this is for the case that it was never started.
        self.shared.pipeline.close();
        if let Some(thread) = committer {
            join(thread);
        }
    }

    fn threads(&self) -> std::sync::MutexGuard<'_, Threads> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.close();
    }
}

impl Store for EmbeddedStore {
    async fn update<T: Transition>(
        &self,
        batch: Vec<Update<T>>,
    ) -> Vec<Result<T::Outcome, StoreError>> {
        let items = batch.len();
        let all = |error: StoreError| (0..items).map(|_| Err(error.clone())).collect();
        if items == 0 {
            return Vec::new();
        }
        if let Err(error) = limits::check_batch(items) {
            return all(error);
        }
        let (caller, answer) = oneshot::channel();
        let job = Box::new(Batch::new(batch, caller));
        let weight = u32::try_from(items).unwrap_or(u32::MAX);
        if self.handle.updates.send(job, weight).await.is_err() {
            return all(closed());
        }
        answer.await.unwrap_or_else(|_| {
            all(StoreError::Unknown("the store was closed before it answered".to_owned()))
        })
    }

    async fn scan(&self, scan: Scan) -> Result<Page, StoreError> {
        limits::check_scan(&scan)?;
        let (caller, answer) = oneshot::channel();
        self.handle.scans.send(ScanJob { scan, caller }, 1).await.map_err(|_| closed())?;
        answer.await.unwrap_or_else(|_| Err(closed()))
    }

    fn watch(&self, key: &[u8]) -> Watch {
        self.handle.shared.hub.watch(key)
    }
}

impl fmt::Debug for EmbeddedStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("EmbeddedStore")
            .field("healthy", &self.healthy())
            .finish_non_exhaustive()
    }
}

fn closed() -> StoreError {
    StoreError::Unavailable("the store is closed".to_owned())
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run)
}

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("a thread of the store panicked; this is a bug");
    }
}

#[cfg(test)]
mod tests;
