//! The suite that every engine must pass. Each theme has a server of its own, which a crash stops as a
//! loss of power would: what was not written to the log is gone.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use semel_store::ManualClock;
use semel_store::conformance::{End, Harness, Named, run_theme};
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

impl Harness for Database {
    type Store = Named<PostgresStore>;

    async fn open(&self, _clock: ManualClock) -> Self::Store {
        let schema = format!("semel_{}", self.schemas.fetch_add(1, Ordering::SeqCst));
        let store = PostgresStore::open(self.options(&schema)).await.unwrap();
        Named { store, name: schema }
    }

    async fn reopen(
        &self,
        store: Self::Store,
        _clock: ManualClock,
        end: End,
    ) -> Option<Self::Store> {
        let Named { store, name: schema } = store;
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
        Some(Named { store, name: schema })
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
