//! The suite that every engine must pass. A crash is one of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use semel_store::conformance::{End, Harness, Named, THEMES, run_theme};
use semel_store::{Clock, ManualClock};
use semel_store_fdb::FdbStore;

use crate::bench::{Bench, Test};

/// Those that crash the server.
const ALONE: [&str; 2] = ["time", "durability"];

pub(crate) fn tests() -> Vec<Test> {
    let test = |theme: &&'static str| {
        let theme = *theme;
        let run = move |bench| run_theme(Cluster(bench), theme);
        let test = Test::new(format!("conformance::{theme}"), run);
        if ALONE.contains(&theme) { test.alone() } else { test }
    };
    THEMES.iter().map(test).collect()
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

impl Cluster {
    async fn open(&self, name: String, clock: ManualClock) -> Named<FdbStore> {
        let options = self.0.options(&name).with_clock(Followed::from(clock));
        Named { store: self.0.try_open(options).await.unwrap(), name }
    }
}

impl Harness for Cluster {
    type Store = Named<FdbStore>;

    async fn open(&self, clock: ManualClock) -> Named<FdbStore> {
        Cluster::open(self, self.0.name(), clock).await
    }

    async fn reopen(
        &self,
        store: Self::Store,
        clock: ManualClock,
        end: End,
    ) -> Option<Self::Store> {
        let Named { store, name } = store;
        match end {
            End::Closed => store.close(),
            End::Crashed => self.0.crash(|| store.close()),
        }
        Some(Cluster::open(self, name, clock).await)
    }
}
