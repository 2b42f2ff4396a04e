//! The handle that callers hold, and the thread behind it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use semel_store::limits;
use semel_store::optimistic::Answers;
use semel_store::{Page, Scan, Store, StoreError, Transition, Update, Watch};
use tokio::runtime::{Builder, Handle as RuntimeHandle};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::{Failure, OpenError};
use crate::options::PostgresOptions;
use crate::session::Duty;
use crate::shared::Shared;
use crate::{scan, schema, wakes, warnings};

/// A store in a PostgreSQL database. Clones are handles to the same connections.
///
/// The store is closed by [`close`](Self::close), or when the last handle is dropped.
#[derive(Clone)]
pub struct PostgresStore {
    handle: Arc<Handle>,
}

struct Handle {
    shared: Arc<Shared>,
    /// The runtime of the store's own thread: what callers give up is finished there.
    runtime: RuntimeHandle,
    tasks: TaskTracker,
    stop: CancellationToken,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl PostgresStore {
    /// Connects, applies the migrations that are missing, and opens the store. The connections live
    /// on a thread of their own, in a runtime of their own.
    ///
    /// # Errors
    ///
    /// [`OpenError`] says what is wrong: an option, the way to the database, or its schema.
    pub async fn open(options: PostgresOptions) -> Result<Self, OpenError> {
        options.check()?;
        let shared = Arc::new(Shared::new(options)?);
        let runtime =
            Builder::new_current_thread().enable_all().build().map_err(OpenError::Thread)?;
        let handle = Arc::new(Handle {
            shared: Arc::clone(&shared),
            runtime: runtime.handle().clone(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            thread: Mutex::new(None),
        });
        let (opened, outcome) = oneshot::channel();
        let (tasks, stop) = (handle.tasks.clone(), handle.stop.clone());
        let thread =
            std::thread::Builder::new().name("store-postgres".to_owned()).spawn(move || {
                runtime.block_on(run(shared, tasks, stop, opened));
            });
        *handle.thread() = Some(thread.map_err(OpenError::Thread)?);
        let ended = |_| OpenError::Unreachable("the thread of the store ended".to_owned());
        outcome.await.map_err(ended)??;
        Ok(Self { handle })
    }

    /// Whether updates can be taken now: a connection for synced writes is up.
    #[must_use]
    pub fn healthy(&self) -> bool {
        self.handle.shared.links.is_up()
    }

    /// Looks for settings of the database with which acknowledged changes can be lost, and says each in
    /// a sentence for the operator.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unavailable`] while there is no connection.
    pub async fn durability_warnings(&self) -> Result<Vec<String>, StoreError> {
        let shared = Arc::clone(&self.handle.shared);
        let found = self.handle.run(async move { warnings::find(&shared).await }).await;
        found.ok_or_else(closed)?.map_err(Failure::into_store_error)
    }

    /// Takes no more updates, finishes those that were handed over, and ends the connections. Blocks
    /// until that is done, up to the time that one update may take; closing again has no effect.
    pub fn close(&self) {
        self.handle.close();
    }
}

impl Handle {
    /// Runs `work` on the store's thread, whether or not the caller stays. `None`: the store is closed.
    async fn run<R: Send + 'static>(
        &self,
        work: impl Future<Output = R> + Send + 'static,
    ) -> Option<R> {
        if self.tasks.is_closed() {
            return None;
        }
        let (caller, answer) = oneshot::channel();
        self.tasks.spawn_on(
            async move {
                // A caller that is gone needs no answer.
                let _ = caller.send(work.await);
            },
            &self.runtime,
        );
        answer.await.ok()
    }

    fn close(&self) {
        self.shared.room.close();
        self.tasks.close();
        self.stop.cancel();
        let thread = self.thread().take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of the store panicked; this is a bug");
        }
    }

    fn thread(&self) -> std::sync::MutexGuard<'_, Option<JoinHandle<()>>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.close();
    }
}

/// The life of the store's thread.
async fn run(
    shared: Arc<Shared>,
    tasks: TaskTracker,
    stop: CancellationToken,
    opened: oneshot::Sender<Result<(), OpenError>>,
) {
    let prepared = tokio::select! {
        prepared = schema::prepare(&shared.options) => prepared,
        () = stop.cancelled() => return,
    };
    if let Err(error) = prepared {
        let _ = opened.send(Err(error));
        return;
    }
    let mut connected = JoinSet::new();
    for link in shared.links.all() {
        connected.spawn(Arc::clone(link).run(Arc::clone(&shared)));
    }
    connected.spawn(carry(Arc::clone(&shared)));
    let outcome = first_look(&shared)
        .await
        .map_err(|failure| OpenError::Unreachable(failure.into_store_error().to_string()));
    let failed = outcome.is_err();
    let nobody_waits = opened.send(outcome).is_err();
    if !failed && !nobody_waits {
        tokio::select! {
            () = wakes::announce(&shared) => {}
            () = wakes::wake_heard(&shared) => {}
            () = wakes::poll(&shared) => {}
            () = stop.cancelled() => {}
        }
    }
    let patience = shared.options.silence_timeout() * 2 + shared.options.lock_timeout();
    if tokio::time::timeout(patience, tasks.wait()).await.is_err() {
        tracing::error!("updates were given up while the store was closed");
    }
    shared.closing.cancel();
    while connected.join_next().await.is_some() {}
}

/// Carries what updates ask of the database, until the store is closed.
async fn carry(shared: Arc<Shared>) {
    tokio::select! {
        () = shared.updates.carry(&*shared) => {}
        () = shared.closing.cancelled() => {}
    }
}

/// Waits for the connections, or for one that can be used.
async fn first_look(shared: &Shared) -> Result<(), Failure> {
    let wait = Duration::from_millis(shared.options.connect_timeout_ms);
    shared.all_up_within(wait).await;
    shared.session_within(Duty::Synced, wait).await.map(drop)
}

impl Store for PostgresStore {
    async fn update<T: Transition>(&self, batch: Vec<Update<T>>) -> Answers<T> {
        let items = batch.len();
        let all = |error: StoreError| (0..items).map(|_| Err(error.clone())).collect();
        if items == 0 {
            return Vec::new();
        }
        if let Err(error) = limits::check_batch(items) {
            return all(error);
        }
        let shared = Arc::clone(&self.handle.shared);
        let weight = u32::try_from(items).unwrap_or(u32::MAX);
        let Ok(room) = Arc::clone(&shared.room).acquire_many_owned(weight).await else {
            return all(closed());
        };
        let work = async move {
            let answers = shared.updates.run(&*shared, batch, shared.patience()).await;
            drop(room);
            answers
        };
        let lost = "the store was closed before it answered".to_owned();
        self.handle.run(work).await.unwrap_or_else(|| all(StoreError::Unknown(lost)))
    }

    async fn scan(&self, scan: Scan) -> Result<Page, StoreError> {
        limits::check_scan(&scan)?;
        let shared = Arc::clone(&self.handle.shared);
        let page = self.handle.run(async move { scan::run(&shared, scan).await }).await;
        page.ok_or_else(closed)?.map_err(Failure::into_store_error)
    }

    fn watch(&self, key: &[u8]) -> Watch {
        self.handle.shared.updates.watched().watch(key)
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("PostgresStore")
            .field("options", &self.handle.shared.options)
            .field("healthy", &self.healthy())
            .finish_non_exhaustive()
    }
}

fn closed() -> StoreError {
    StoreError::Unavailable("the store is closed".to_owned())
}
