//! The suite that defines a correct engine: whoever writes one, runs [`conformance_tests!`] or
//! [`run_all`] on it.
//!
//! [`conformance_tests!`]: crate::conformance_tests
//!
//! A check opens a store of its own through the engine's [`Harness`] and asserts what the
//! [`contract`](crate::contract) promises, and nothing that is only a habit of one engine. It waits
//! for events, not for time; one that waits in vain fails after two minutes. The store must meet no
//! faults but conflicts, so that every update has one right answer; the theme `linearizability`
//! alone may be run under any fault.
//!
//! # Layout
//!
//! - `world`, `step`: a store under check, and the transitions that checks run on it
//! - `history`: whether a recorded concurrent history is linearizable
//! - the others: one theme each
//!
//! A check belongs to the list at the head of its theme, and a theme to the one list in
//! `conformance_tests`. One that is in no list is dead code, which doesn't compile.

#![deny(dead_code)]
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "test support: a check that fails must panic, and say what it found"
)]

/// The checks of a theme, from the names of their functions.
macro_rules! checks {
    ($($check:ident),+ $(,)?) => {
        vec![$(crate::conformance::Check {
            theme: module_path!().rsplit("::").next().unwrap_or_default(),
            name: stringify!($check),
            run: |harness| Box::pin(async move {
                $check(crate::conformance::world::World::open(harness).await).await;
            }),
        }),+]
    };
}

mod concurrency;
mod durability;
mod history;
mod index;
mod limits;
mod linearizability;
mod named;
mod scans;
pub(crate) mod step;
#[cfg(test)]
mod tests;
mod time;
mod updates;
mod values;
mod watches;
mod world;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};

pub use self::named::Named;
use crate::clock::ManualClock;
use crate::contract::Store;

/// Declares one test for each theme of the suite, so that they run side by side and none can be
/// left out: `conformance_tests!(MyHarness::new());` in a module of its own.
///
/// The tests are `#[tokio::test]`, on a runtime of two threads.
#[macro_export]
macro_rules! conformance_tests {
    ($harness:expr) => {
        $crate::conformance_tests! { @themes (@tests ($harness)) }
    };
    (@themes ($($then:tt)+)) => {
        $crate::conformance_tests! {
            $($then)+ updates, values, limits, index, scans, concurrency, linearizability, time,
            watches, durability
        }
    };
    (@tests ($harness:expr) $($theme:ident),+) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $theme() {
            $crate::conformance::run_theme($harness, stringify!($theme)).await;
        }
    )+};
    (@names $($theme:ident),+) => {
        &[$(stringify!($theme)),+]
    };
    (@checks $($theme:ident),+) => {
        [$($theme::checks()),+].into_iter().flatten().collect()
    };
}

/// The themes of the suite: for an engine that can't use [`conformance_tests!`](crate::conformance_tests).
pub const THEMES: &[&str] = conformance_tests! { @themes (@names) };

fn all_checks<H: Harness>() -> Vec<Check<H>> {
    conformance_tests! { @themes (@checks) }
}

/// How the suite gets at an engine.
pub trait Harness: Send + Sync + 'static {
    /// The engine.
    type Store: Store;

    /// A new and empty store. It tells time by `clock`, unless the engine has a clock of its own;
    /// the suite never sets `clock` past 2020.
    fn open(&self, clock: ManualClock) -> impl Future<Output = Self::Store> + Send;

    /// Ends the store and opens what it left behind. `None`: this engine can't end that way and
    /// leave anything, so the checks that need it prove nothing.
    fn reopen(
        &self,
        store: Self::Store,
        clock: ManualClock,
        end: End,
    ) -> impl Future<Output = Option<Self::Store>> + Send;
}

/// How a store ends before it is opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Closed in good order.
    Closed,
    /// Lost in a crash, and with it whatever the engine would lose then.
    Crashed,
}

/// A check that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The theme it belongs to.
    pub theme: &'static str,
    /// Its name, a sentence about a correct engine.
    pub check: &'static str,
    /// What it found instead.
    pub reason: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}::{}: {}", self.theme, self.check, self.reason)
    }
}

/// Runs every check, within a tokio runtime that has time enabled.
///
/// # Panics
///
/// If any check failed, after all of them ran, with the reason of each.
pub async fn run_all<H: Harness>(harness: H) {
    report(&failures(harness).await);
}

/// Runs the checks of one theme: `updates`, `values`, `limits`, `index`, `scans`, `concurrency`,
/// `linearizability`, `time`, `watches` or `durability`.
///
/// # Panics
///
/// If any of them failed, or there is no such theme.
pub async fn run_theme<H: Harness>(harness: H, theme: &str) {
    report(&theme_failures(harness, theme).await);
}

/// Runs every check and returns those that failed: for showing that a wrong engine is found out.
pub async fn failures<H: Harness>(harness: H) -> Vec<Failure> {
    run(harness, all_checks()).await
}

/// Runs the checks of one theme, as [`run_theme`] does, and returns those that failed.
///
/// # Panics
///
/// If there is no such theme.
pub async fn theme_failures<H: Harness>(harness: H, theme: &str) -> Vec<Failure> {
    let mut checks = all_checks();
    checks.retain(|check| check.theme == theme);
    assert!(!checks.is_empty(), "no theme of the suite is called {theme:?}");
    run(harness, checks).await
}

struct Check<H> {
    theme: &'static str,
    name: &'static str,
    run: fn(Arc<H>) -> Running,
}

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

async fn run<H: Harness>(harness: H, checks: Vec<Check<H>>) -> Vec<Failure> {
    let harness = Arc::new(harness);
    let mut failures = Vec::new();
    for check in checks {
        if let Err(reason) = run_one(&check, Arc::clone(&harness)).await {
            failures.push(Failure { theme: check.theme, check: check.name, reason });
        }
    }
    failures
}

async fn run_one<H: Harness>(check: &Check<H>, harness: Arc<H>) -> Result<(), String> {
    const PATIENCE: Duration = Duration::from_secs(120);
    // A task of its own, so that its panic ends this check and no other.
    let mut tasks = JoinSet::new();
    tasks.spawn(tokio::time::timeout(PATIENCE, (check.run)(harness)));
    match tasks.join_next().await.expect("a task was spawned") {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(format!("it was still waiting after {} s", PATIENCE.as_secs())),
        Err(error) => Err(panic_message(error)),
    }
}

fn panic_message(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "it was cancelled".into() };
    match panic.downcast::<String>() {
        Ok(message) => *message,
        Err(panic) => panic.downcast_ref::<&str>().map_or("it panicked", |it| it).to_owned(),
    }
}

fn report(failures: &[Failure]) {
    let reasons: String = failures.iter().map(|failure| format!("\n  {failure}")).collect();
    assert!(failures.is_empty(), "{} checks failed:{reasons}", failures.len());
}
