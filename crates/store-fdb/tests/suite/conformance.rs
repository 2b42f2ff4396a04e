//! The suite that every engine must pass. A crash is one of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use semel_store::conformance::{End, Harness, run_theme};
use semel_store::{Clock, ManualClock};
use semel_store_fdb::FdbStore;

use crate::bench::{Bench, Test};

pub(crate) fn tests() -> Vec<Test> {
    let theme = |theme: &'static str| {
        Test::new(format!("conformance::{theme}"), move |bench| run_theme(Cluster(bench), theme))
    };
    let beside = [
        "updates",
        "values",
        "limits",
        "index",
        "scans",
        "concurrency",
        "linearizability",
        "watches",
    ];
    let alone = ["time", "durability"].map(|it| theme(it).alone());
    beside.map(theme).into_iter().chain(alone).collect()
}

/// Each store has a name of its own.
struct Cluster(Arc<Bench>);

/// The suite's clock, which it sets as if time had passed: this engine tells that by the monotonic one.
struct Followed {
    clock: ManualClock,
    latest_us: AtomicU64,
}

impl From<ManualClock> for Followed {
    fn from(clock: ManualClock) -> Self {
        Self { clock, latest_us: AtomicU64::new(0) }
    }
}

impl Clock for Followed {
    fn now_us(&self) -> u64 {
        self.clock.now_us()
    }

    fn monotonic_us(&self) -> u64 {
        let now_us = self.clock.now_us();
        self.latest_us.fetch_max(now_us, Ordering::SeqCst).max(now_us)
    }
}

/// A store that knows its name.
struct Named {
    store: FdbStore,
    name: String,
}

impl Cluster {
    async fn open(&self, name: String, clock: ManualClock) -> Named {
        let options = self.0.options(&name).with_clock(Followed::from(clock));
        Named { store: self.0.try_open(options).await.unwrap(), name }
    }
}

impl semel_store::Store for Named {
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

impl Harness for Cluster {
    type Store = Named;

    async fn open(&self, clock: ManualClock) -> Named {
        Cluster::open(self, self.0.name(), clock).await
    }

    async fn reopen(&self, store: Named, clock: ManualClock, end: End) -> Option<Named> {
        let Named { store, name } = store;
        match end {
            End::Closed => store.close(),
            End::Crashed => self.0.crash(|| store.close()),
        }
        Some(Cluster::open(self, name, clock).await)
    }
}
