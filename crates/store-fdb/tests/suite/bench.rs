//! What the tests share: the network, the cluster, and names for their stores.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use foundationdb::directory::{Directory, DirectoryError, DirectoryLayer};
use foundationdb::{Database, Transaction};
use libtest_mimic::Trial;
use semel_store::{Clock, SystemClock};
use semel_store_fdb::{FdbOptions, FdbStore, Network, NetworkOptions, OpenError};
use tokio::runtime::Builder;

use crate::foundationdb_server::{FoundationDb, Redundancy, skip};

/// The cluster of all tests.
pub(crate) struct Bench {
    network: Arc<Network>,
    cluster_file: PathBuf,
    /// `None`: the cluster is somebody else's, and is not stopped.
    server: Option<Mutex<FoundationDb>>,
    /// Held alone by a test that stops the server.
    in_use: RwLock<()>,
    /// When it began: no two runs on one cluster have the same names.
    run: u64,
    names: AtomicU32,
}

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A test.
pub(crate) struct Test {
    name: String,
    run: Box<dyn FnOnce(Arc<Bench>) -> Running + Send>,
    /// Whether it stops the server.
    is_alone: bool,
    /// Whether it is run by another test only.
    is_part: bool,
}

impl Test {
    pub(crate) fn new<F: Future<Output = ()> + Send + 'static>(
        name: impl Into<String>,
        run: impl FnOnce(Arc<Bench>) -> F + Send + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            run: Box::new(|bench| Box::pin(run(bench))),
            is_alone: false,
            is_part: false,
        }
    }

    /// The same, with nobody else beside it.
    pub(crate) fn alone(mut self) -> Self {
        self.is_alone = true;
        self
    }

    /// The same, which is run only by another test that names it.
    pub(crate) fn part(mut self) -> Self {
        self.is_part = true;
        self
    }

    pub(crate) fn trial(self, bench: Option<&Arc<Bench>>) -> Trial {
        let bench = bench.cloned();
        let is_part = self.is_part;
        let trial = Trial::test(self.name.clone(), move || {
            let bench = bench.expect("a test that is run has a cluster");
            if self.is_alone && bench.server.is_none() {
                skip(&format!("{}: the cluster is not ours to stop", self.name));
                return Ok(());
            }
            let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
            let lock = (self.is_alone)
                .then(|| bench.in_use.write().unwrap_or_else(PoisonError::into_inner));
            let shared = (!self.is_alone)
                .then(|| bench.in_use.read().unwrap_or_else(PoisonError::into_inner));
            runtime.block_on((self.run)(Arc::clone(&bench)));
            drop((lock, shared));
            Ok(())
        });
        trial.with_ignored_flag(is_part)
    }
}

/// Lists tests by the names of their functions.
#[macro_export]
macro_rules! tests {
    ($($test:ident),+ $(,)?) => {
        vec![$($crate::bench::Test::new(
            concat!(module_path!(), "::", stringify!($test)).trim_start_matches("suite::"),
            $test,
        )),+]
    };
}

impl Bench {
    /// The cluster that `FDB_CLUSTER_FILE` names, or else a server of its own; `None` and a note of the
    /// skip if this machine has neither.
    pub(crate) fn start() -> Option<Self> {
        let given = std::env::var_os("FDB_CLUSTER_FILE").filter(|it| !it.is_empty());
        let (cluster_file, server) = match given {
            Some(given) => (given.into(), None),
            None => {
                let Some(server) = FoundationDb::start(Redundancy::Single) else {
                    skip(
                        "the FoundationDB engine: FDB_CLUSTER_FILE is not set, and fdbserver and fdbcli are not \
                         on PATH",
                    );
                    return None;
                };
                (server.cluster_file(), Some(server))
            }
        };
        let network = Network::start(&NetworkOptions::default()).expect("the network starts");
        Some(Self {
            network: Arc::new(network),
            cluster_file,
            server: server.map(Mutex::new),
            in_use: RwLock::new(()),
            run: SystemClock.now_us(),
            names: AtomicU32::new(0),
        })
    }

    /// A name that no store had before.
    pub(crate) fn name(&self) -> String {
        self.nth_name(self.names.fetch_add(1, Ordering::SeqCst))
    }

    fn nth_name(&self, number: u32) -> String {
        format!("test-{:x}-{number}", self.run)
    }

    pub(crate) fn options(&self, name: &str) -> FdbOptions {
        let mut options = FdbOptions::new(&self.cluster_file).with_name(name);
        options.connect_timeout_ms = 60_000;
        options
    }

    pub(crate) async fn open(&self, options: FdbOptions) -> Arc<FdbStore> {
        // Where faults are injected, transactions time out at once.
        for _ in 0..4 {
            match self.try_open(options.clone()).await {
                Err(OpenError::Unreachable(_)) => {}
                opened => return Arc::new(opened.expect("the store opens")),
            }
        }
        Arc::new(self.try_open(options).await.expect("the cluster is up"))
    }

    pub(crate) async fn try_open(&self, options: FdbOptions) -> Result<FdbStore, OpenError> {
        FdbStore::open(&self.network, options).await
    }

    /// How many hold the network.
    pub(crate) fn network_users(&self) -> usize {
        Arc::strong_count(&self.network)
    }

    /// Several nodes of a new store.
    pub(crate) async fn nodes(&self, count: usize) -> Vec<Arc<FdbStore>> {
        let name = self.name();
        let mut nodes = Vec::new();
        for _ in 0..count {
            nodes.push(self.open(self.options(&name)).await);
        }
        nodes
    }

    /// The server, for a test that is alone.
    pub(crate) fn server(&self) -> MutexGuard<'_, FoundationDb> {
        let server = self.server.as_ref().expect("the server is ours");
        server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the server as a crash does, does something, and starts it again.
    pub(crate) fn crash(&self, meanwhile: impl FnOnce()) {
        let mut server = self.server();
        server.kill_all();
        meanwhile();
        server.start_all_again();
    }

    pub(crate) fn cluster_file(&self) -> &Path {
        &self.cluster_file
    }

    /// Somebody else's way to the cluster.
    pub(crate) fn database(&self) -> Database {
        Database::from_path(self.cluster_file.to_str().unwrap()).unwrap()
    }

    pub(crate) fn transaction(&self) -> Transaction {
        self.database().create_trx().unwrap()
    }

    /// Where a store lies.
    pub(crate) async fn prefix(&self, name: &str) -> Vec<u8> {
        let path = ["semel".to_owned(), name.to_owned()];
        let opened =
            DirectoryLayer::default().open(&self.transaction(), &path, None).await.unwrap();
        opened.bytes().unwrap().to_vec()
    }

    /// Removes the stores, stops the network and then the server.
    pub(crate) fn end(self: Arc<Self>) {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        for number in 0..self.names.load(Ordering::SeqCst) {
            runtime.block_on(self.remove(&self.nth_name(number)));
        }
        let Ok(bench) = Arc::try_unwrap(self) else { panic!("a test still runs") };
        drop(bench.network);
        drop(bench.server);
    }

    async fn remove(&self, name: &str) {
        let path = ["semel".to_owned(), name.to_owned()];
        let mut transaction = self.transaction();
        loop {
            let removed = DirectoryLayer::default().remove_if_exists(&transaction, &path).await;
            transaction = match removed {
                Ok(_) => match transaction.commit().await {
                    Ok(_) => return,
                    Err(error) => error.on_error().await.unwrap(),
                },
                Err(DirectoryError::FdbError(error)) => transaction.on_error(error).await.unwrap(),
                Err(error) => panic!("{error:?}"),
            };
        }
    }
}
