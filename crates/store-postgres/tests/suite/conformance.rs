//! The suite that every engine must pass. Each theme has a server of its own, which a crash stops as a
//! loss of power would: what was not written to the log is gone.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use semel_store::ManualClock;
use semel_store::conformance::{End, Harness, run_theme};
use semel_store_postgres::{PostgresOptions, PostgresStore};

use crate::postgres::{Postgres, Stop};

/// Each store has a schema of its own.
struct Database {
    server: Mutex<Postgres>,
    schemas: AtomicU32,
}

impl Database {
    fn new(theme: &str) -> Option<Self> {
        // What is relaxed stays away from the disk for as long as the server lets it.
        let settings = ["wal_writer_delay=10s"];
        let server = Postgres::start(&format!("the conformance theme {theme}"), &settings)?;
        Some(Self { server: Mutex::new(server), schemas: AtomicU32::new(0) })
    }

    fn options(&self, schema: &str) -> PostgresOptions {
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        PostgresOptions::parse(&server.url()).unwrap().with_schema(schema)
    }
}

/// A store that knows its schema.
struct Schemed {
    store: PostgresStore,
    schema: String,
}

impl semel_store::Store for Schemed {
    async fn update<T: semel_store::Transition>(
        &self,
        batch: Vec<semel_store::Update<T>>,
    ) -> Vec<Result<T::Outcome, semel_store::StoreError>> {
        self.store.update(batch).await
    }

    async fn scan(
        &self,
        scan: semel_store::Scan,
    ) -> Result<semel_store::Page, semel_store::StoreError> {
        self.store.scan(scan).await
    }

    fn watch(&self, key: &[u8]) -> semel_store::Watch {
        self.store.watch(key)
    }
}

impl Harness for Database {
    type Store = Schemed;

    async fn open(&self, _clock: ManualClock) -> Schemed {
        let schema = format!("semel_{}", self.schemas.fetch_add(1, Ordering::SeqCst));
        let store = PostgresStore::open(self.options(&schema)).await.unwrap();
        Schemed { store, schema }
    }

    async fn reopen(&self, store: Schemed, _clock: ManualClock, end: End) -> Option<Schemed> {
        let Schemed { store, schema } = store;
        match end {
            End::Closed => store.close(),
            End::Crashed => {
                let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
                server.stop(Stop::Immediate);
                store.close();
                server.start_again();
            }
        }
        let store = PostgresStore::open(self.options(&schema)).await.unwrap();
        Some(Schemed { store, schema })
    }
}

macro_rules! themes {
    ($($theme:ident),+ $(,)?) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $theme() {
            if let Some(database) = Database::new(stringify!($theme)) {
                run_theme(database, stringify!($theme)).await;
            }
        }
    )+};
}

themes![
    updates,
    values,
    limits,
    index,
    scans,
    concurrency,
    linearizability,
    time,
    watches,
    durability,
];
