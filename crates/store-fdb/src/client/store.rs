//! The handle that callers hold, and the thread behind it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use foundationdb::Database;
use foundationdb::options::DatabaseOption;
use semel_store::limits;
use semel_store::optimistic::{Answers, Ending, StoreThread, random_number};
use semel_store::{Page, Scan, Store, StoreError, Transition, Update, Watch};
use tokio::sync::oneshot;

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
    shared: Arc<Shared>,
    thread: Arc<StoreThread>,
    /// The last to go.
    _network: Arc<Network>,
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
        let node = random_number().map_err(OpenError::Thread)?;
        let room = options.queue_updates;
        let (opened, outcome) = oneshot::channel();
        let of_thread = Arc::clone(network);
        let life = move |ending| async move {
            live(options, database, node, &ending, opened).await;
            // The last to go here, too.
            of_thread
        };
        let thread = StoreThread::start("store-fdb", room, life).map_err(OpenError::Thread)?;
        let ended = |_| OpenError::Unreachable("the thread of the store ended".to_owned());
        let shared = outcome.await.map_err(ended)??;
        Ok(Self { shared, thread: Arc::new(thread), _network: Arc::clone(network) })
    }

    /// Whether updates can be taken now: the cluster answered the last time that it was asked.
    #[must_use]
    pub fn healthy(&self) -> bool {
        self.shared.is_up()
    }

    /// Looks for settings of the cluster with which acknowledged changes can be lost, and says each in a
    /// sentence for the operator.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unavailable`] while the cluster does not answer.
    pub async fn durability_warnings(&self) -> Result<Vec<String>, StoreError> {
        let shared = Arc::clone(&self.shared);
        let found = self.thread.run(async move { read_status(&shared).await }).await;
        let status = found?.map_err(Failure::into_store_error)?;
        warnings::find(&status).map_err(StoreError::Unavailable)
    }

    /// Takes no more updates, finishes those that were handed over, and ends the thread. Blocks until
    /// that is done, up to the time that one update may take; closing again has no effect.
    pub fn close(&self) {
        self.thread.end();
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
async fn live(
    options: FdbOptions,
    database: Database,
    node: u64,
    ending: &Ending,
    opened: oneshot::Sender<Result<Arc<Shared>, OpenError>>,
) {
    let prepared = tokio::select! {
        prepared = prepare(options, database, node) => prepared,
        // Nobody waits for it any more.
        () = ending.told() => return,
    };
    match prepared {
        Ok((shared, fleet)) => {
            let shared = Arc::new(shared);
            // Who opens it may be gone.
            if opened.send(Ok(Arc::clone(&shared))).is_ok() {
                run(&shared, fleet, ending).await;
            }
        }
        Err(error) => {
            let _ = opened.send(Err(error));
        }
    }
}

/// Serves until the thread is told to end, and what was handed over is finished.
async fn run(shared: &Shared, fleet: Fleet, ending: &Ending) {
    let serve = async {
        tokio::select! {
            () = heartbeat::run(shared, fleet) => {}
            () = wakes::run(shared) => {}
            () = ending.told() => {}
        }
        // One try, and as long again to settle it.
        ending.finished(shared.options.transaction_timeout() * 2 + Duration::from_secs(1)).await;
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

impl Store for FdbStore {
    async fn update<T: Transition>(&self, batch: Vec<Update<T>>) -> Answers<T> {
        let shared = Arc::clone(&self.shared);
        let run =
            |batch| async move { shared.updates.run(&*shared, batch, shared.patience()).await };
        self.thread.update(batch, run).await
    }

    async fn scan(&self, scan: Scan) -> Result<Page, StoreError> {
        limits::check_scan(&scan)?;
        let shared = Arc::clone(&self.shared);
        let page = self.thread.run(async move { scan::run(&shared, &scan).await }).await;
        page?.map_err(Failure::into_store_error)
    }

    fn watch(&self, key: &[u8]) -> Watch {
        let shared = &self.shared;
        let watch = shared.updates.watched().watch(key);
        shared.wakes.arm(key);
        watch
    }
}

impl fmt::Debug for FdbStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("FdbStore")
            .field("options", &self.shared.options)
            .field("healthy", &self.healthy())
            .finish_non_exhaustive()
    }
}
