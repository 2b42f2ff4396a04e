//! The handle that callers hold, and the thread behind it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use foundationdb::Database;
use foundationdb::options::DatabaseOption;
use semel_store::limits;
use semel_store::optimistic::Answers;
use semel_store::{Page, Scan, Store, StoreError, Transition, Update, Watch};
use tokio::runtime::{Builder, Handle as RuntimeHandle};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::failure::Failure;
use super::network::Network;
use super::shared::Shared;
use super::{heartbeat, open, scan, wakes};
use crate::error::OpenError;
use crate::fleet::Fleet;
use crate::options::FdbOptions;
use crate::warnings;

/// Where the cluster says how it is.
const STATUS_KEY: &[u8] = b"\xff\xff/status/json";

/// A store in a FoundationDB cluster. Clones are handles to the same connections.
///
/// The store is closed by [`close`](Self::close), or when the last handle is dropped.
#[derive(Clone)]
pub struct FdbStore {
    handle: Arc<Handle>,
}

struct Handle {
    shared: Arc<Shared>,
    /// The runtime of the store's own thread: what callers give up is finished there.
    runtime: RuntimeHandle,
    thread: StoreThread,
    /// The last to go.
    _network: Arc<Network>,
}

/// The store's thread. It is told to end and joined when this is dropped, so that it does not outlive
/// an opening that is given up either.
struct StoreThread {
    tasks: TaskTracker,
    stop: CancellationToken,
    running: Mutex<Option<JoinHandle<()>>>,
}

impl FdbStore {
    /// Opens the store that the options name, or makes it. Its work is done on a thread of its own, in
    /// a runtime of its own.
    ///
    /// # Errors
    ///
    /// [`OpenError`] says what is wrong: an option, the way to the cluster, or what is stored.
    pub async fn open(network: &Arc<Network>, options: FdbOptions) -> Result<Self, OpenError> {
        options.check()?;
        let database = connect(&options)?;
        let node = random()?;
        let runtime =
            Builder::new_current_thread().enable_all().build().map_err(OpenError::Thread)?;
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let runtime_handle = runtime.handle().clone();
        let (opened, outcome) = oneshot::channel();
        let of_thread = (tasks.clone(), stop.clone(), Arc::clone(network));
        let thread = std::thread::Builder::new().name("store-fdb".to_owned()).spawn(move || {
            let (tasks, stop, network) = of_thread;
            runtime.block_on(async {
                let prepared = tokio::select! {
                    prepared = prepare(options, database, node) => prepared,
                    // Nobody waits for it any more.
                    () = stop.cancelled() => return,
                };
                match prepared {
                    Ok((shared, fleet)) => {
                        let shared = Arc::new(shared);
                        // Who opens it may be gone.
                        if opened.send(Ok(Arc::clone(&shared))).is_ok() {
                            run(&shared, fleet, &tasks, &stop).await;
                        }
                    }
                    Err(error) => {
                        let _ = opened.send(Err(error));
                    }
                }
            });
            // The last to go here, too.
            drop((runtime, network));
        });
        let running = Mutex::new(Some(thread.map_err(OpenError::Thread)?));
        let thread = StoreThread { tasks, stop, running };
        let ended = |_| OpenError::Unreachable("the thread of the store ended".to_owned());
        let shared = outcome.await.map_err(ended)??;
        let handle =
            Handle { shared, runtime: runtime_handle, thread, _network: Arc::clone(network) };
        Ok(Self { handle: Arc::new(handle) })
    }

    /// Whether updates can be taken now: the cluster answered the last time that it was asked.
    #[must_use]
    pub fn healthy(&self) -> bool {
        self.handle.shared.is_up()
    }

    /// Looks for settings of the cluster with which acknowledged changes can be lost, and says each in a
    /// sentence for the operator.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unavailable`] while the cluster does not answer.
    pub async fn durability_warnings(&self) -> Result<Vec<String>, StoreError> {
        let shared = Arc::clone(&self.handle.shared);
        let found = self.handle.run(async move { read_status(&shared).await }).await;
        let status = found.ok_or_else(closed)?.map_err(Failure::into_store_error)?;
        warnings::find(&status).map_err(StoreError::Unavailable)
    }

    /// Takes no more updates, finishes those that were handed over, and ends the thread. Blocks until
    /// that is done, up to the time that one update may take; closing again has no effect.
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
        let tasks = &self.thread.tasks;
        if tasks.is_closed() {
            return None;
        }
        let (caller, answer) = oneshot::channel();
        tasks.spawn_on(
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
        self.thread.end();
    }
}

impl StoreThread {
    fn end(&self) {
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

impl Drop for Handle {
    fn drop(&mut self) {
        self.close();
    }
}

fn connect(options: &FdbOptions) -> Result<Database, OpenError> {
    let unreadable = |reason: String| OpenError::File {
        option: "cluster_file",
        path: options.cluster_file.display().to_string(),
        reason,
    };
    let path =
        options.cluster_file.to_str().ok_or_else(|| unreadable("it is not UTF-8".to_owned()))?;
    // The library would wait for a file that is not there.
    std::fs::read(path).map_err(|error| unreadable(error.to_string()))?;
    if path.contains('\0') {
        return Err(unreadable("it has a zero byte".to_owned()));
    }
    let refused = |error: foundationdb::FdbError| unreadable(error.message().to_owned());
    let database = Database::from_path(path).map_err(refused)?;
    // Room for those that are armed again while the old ones end.
    let watches = options.watches.saturating_mul(2).clamp(1, 1_000_000);
    let watches = i32::try_from(watches).unwrap_or(i32::MAX);
    database.set_option(DatabaseOption::MaxWatches(watches)).map_err(refused)?;
    Ok(database)
}

/// Opens what is stored, and learns what time the fleet has.
async fn prepare(
    options: FdbOptions,
    database: Database,
    node: u64,
) -> Result<(Shared, Fleet), OpenError> {
    let opened = open::open(&database, &options).await?;
    let shared = Shared::new(options, database, node, opened);
    let mut fleet = Fleet::default();
    let within = Duration::from_millis(shared.options.connect_timeout_ms);
    let beaten = tokio::time::timeout(within, heartbeat::first(&shared, &mut fleet)).await;
    let beaten = beaten.unwrap_or_else(|_| Err(Failure::silent()));
    let unreachable =
        |failure: Failure| OpenError::Unreachable(failure.into_store_error().to_string());
    let others = beaten.map_err(unreachable)?;
    heartbeat::learn(&shared, &mut fleet, others).await;
    if let Err(failure) = heartbeat::sweep(&shared).await {
        tracing::debug!(?failure, "what other nodes left behind is still there");
    }
    Ok((shared, fleet))
}

/// The life of the store's thread.
async fn run(shared: &Shared, fleet: Fleet, tasks: &TaskTracker, stop: &CancellationToken) {
    let serve = async {
        tokio::select! {
            () = heartbeat::run(shared, fleet) => {}
            () = wakes::run(shared) => {}
            () = stop.cancelled() => {}
        }
        // One try, and as long again to settle it.
        let patience = shared.options.transaction_timeout() * 2 + Duration::from_secs(1);
        if tokio::time::timeout(patience, tasks.wait()).await.is_err() {
            tracing::error!("updates were given up while the store was closed");
        }
    };
    tokio::select! {
        () = serve => {}
        () = shared.updates.carry(shared) => {}
    }
    if let Err(failure) = heartbeat::end(shared).await {
        tracing::debug!(?failure, "the node left its markers behind");
    }
}

async fn read_status(shared: &Shared) -> Result<Vec<u8>, Failure> {
    let transaction = shared.transaction(shared.options.transaction_timeout())?;
    let status = transaction.get(STATUS_KEY, false).await?;
    Ok(status.map(|status| status.to_vec()).unwrap_or_default())
}

#[allow(clippy::disallowed_methods, reason = "the one place where a store takes its random number")]
fn random() -> Result<u64, OpenError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)
        .map_err(|error| OpenError::Thread(std::io::Error::other(error.to_string())))?;
    Ok(u64::from_le_bytes(bytes))
}

impl Store for FdbStore {
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
        let page = self.handle.run(async move { scan::run(&shared, &scan).await }).await;
        page.ok_or_else(closed)?.map_err(Failure::into_store_error)
    }

    fn watch(&self, key: &[u8]) -> Watch {
        let shared = &self.handle.shared;
        let watch = shared.updates.watched().watch(key);
        shared.wakes.arm(key);
        watch
    }
}

impl fmt::Debug for FdbStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("FdbStore")
            .field("options", &self.handle.shared.options)
            .field("healthy", &self.healthy())
            .finish_non_exhaustive()
    }
}

fn closed() -> StoreError {
    StoreError::Unavailable("the store is closed".to_owned())
}
