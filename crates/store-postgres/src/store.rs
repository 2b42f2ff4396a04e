//! The handle that callers hold, and the thread behind it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use semel_store::limits;
use semel_store::optimistic::{Answers, Ending, StoreThread};
use semel_store::{Page, Scan, Store, StoreError, Transition, Update, Watch};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

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
    shared: Arc<Shared>,
    thread: Arc<StoreThread>,
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
        let (opened, outcome) = oneshot::channel();
        let (room, of_thread) = (shared.options.queue_updates, Arc::clone(&shared));
        let life = move |ending| run(of_thread, ending, opened);
        let thread = StoreThread::start("store-postgres", room, life).map_err(OpenError::Thread)?;
        let ended = |_| OpenError::Unreachable("the thread of the store ended".to_owned());
        outcome.await.map_err(ended)??;
        Ok(Self { shared, thread: Arc::new(thread) })
    }

    /// Whether updates can be taken now: a connection for synced writes is up.
    #[must_use]
    pub fn healthy(&self) -> bool {
        self.shared.links.is_up()
    }

    /// Looks for settings of the database with which acknowledged changes can be lost, and says each in
    /// a sentence for the operator.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unavailable`] while there is no connection.
    pub async fn durability_warnings(&self) -> Result<Vec<String>, StoreError> {
        let shared = Arc::clone(&self.shared);
        let found = self.thread.run(async move { warnings::find(&shared).await }).await;
        found?.map_err(Failure::into_store_error)
    }

    /// Takes no more updates, finishes those that were handed over, and ends the connections. Blocks
    /// until that is done, up to the time that one update may take; closing again has no effect.
    pub fn close(&self) {
        self.thread.end();
    }
}

/// The life of the store's thread.
async fn run(shared: Arc<Shared>, ending: Ending, opened: oneshot::Sender<Result<(), OpenError>>) {
    let prepared = tokio::select! {
        prepared = schema::prepare(&shared.options) => prepared,
        () = ending.told() => return,
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
            () = ending.told() => {}
        }
    }
    let patience = shared.options.silence_timeout() * 2 + shared.options.lock_timeout();
    ending.finished(patience).await;
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
        let shared = Arc::clone(&self.shared);
        let run =
            |batch| async move { shared.updates.run(&*shared, batch, shared.patience()).await };
        self.thread.update(batch, run).await
    }

    async fn scan(&self, scan: Scan) -> Result<Page, StoreError> {
        limits::check_scan(&scan)?;
        let shared = Arc::clone(&self.shared);
        let page = self.thread.run(async move { scan::run(&shared, scan).await }).await;
        page?.map_err(Failure::into_store_error)
    }

    fn watch(&self, key: &[u8]) -> Watch {
        self.shared.updates.watched().watch(key)
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("PostgresStore")
            .field("options", &self.shared.options)
            .field("healthy", &self.healthy())
            .finish_non_exhaustive()
    }
}
