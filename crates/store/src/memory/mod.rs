//! An engine in memory, for tests and simulations. Nothing survives the process.
//!
//! Invariants: every batch commits under one mutex, so updates are linearizable over all keys; the
//! time that transitions see never goes back, whatever the clocks of the handles do; and a batch
//! meets exactly the faults that its [`Faults`] plan names.
//!
//! # Layout
//!
//! - `faults`: what goes wrong, and when
//! - `state`: the records, the index, and what a crash takes away
//!
//! # What it does not do
//!
//! It never syncs by itself: a relaxed change stays at risk until the next synced update.

mod faults;
mod state;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;

pub use self::faults::{Fault, Faults, Odds};
use self::state::State;
use crate::clock::Clock;
use crate::contract::{Page, Scan, Store, StoreError, Transition, Update};
use crate::limits;
use crate::watch::{Watch, WatchHub};

/// The engine. Clones are handles to the same records, the same clock and the same faults.
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<Shared>,
    clock: Arc<dyn Clock>,
    faults: Faults,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    hub: WatchHub,
}

/// The answers of one batch.
type Answers<T> = Vec<Result<<T as Transition>::Outcome, StoreError>>;

impl MemoryStore {
    /// An empty store without faults.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_faults(clock, Faults::none())
    }

    /// An empty store that meets `faults`.
    #[must_use]
    pub fn with_faults(clock: Arc<dyn Clock>, faults: Faults) -> Self {
        Self { shared: Arc::default(), clock, faults }
    }

    /// Another node's way to the same records, with its own clock and its own faults: so one node
    /// of a simulated cluster can be late, or cut off, and the others not.
    #[must_use]
    pub fn share(&self, clock: Arc<dyn Clock>, faults: Faults) -> Self {
        Self { shared: Arc::clone(&self.shared), clock, faults }
    }

    /// The faults of this handle, to be changed while it is in use.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Crashes and comes back: relaxed changes since the last synced update are lost, every answer
    /// that is still held or delayed turns into [`StoreError::Unknown`], and every watch wakes.
    pub fn crash(&self) {
        self.lock().crash(true);
        self.shared.hub.wake_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A transition that panics does so before anything is written.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs every transition that is to meet a conflict, for nothing.
    fn rehearse<T: Transition>(&self, batch: &[Update<T>], faults: &[Fault], round: u32) {
        let mut state = self.lock();
        state.tick(self.clock.now_us());
        for (update, fault) in batch.iter().zip(faults) {
            if matches!(fault, Fault::Conflict { times } if *times > round) {
                state.rehearse(update);
            }
        }
    }

    /// Commits the batch in one go. Also says how often the store had crashed by then.
    fn commit<T: Transition>(&self, batch: &[Update<T>], faults: &[Fault]) -> (Answers<T>, u64) {
        let mut answers = Vec::with_capacity(batch.len());
        let mut written = Vec::new();
        let mut crashed = false;
        let mut state = self.lock();
        let crashes = state.crashes();
        state.tick(self.clock.now_us());
        for (update, fault) in batch.iter().zip(faults) {
            answers.push(commit_item(&mut state, update, *fault, &mut written));
            if let Fault::Crash { lose_relaxed } = fault {
                state.crash(*lose_relaxed);
                crashed = true;
                break;
            }
        }
        drop(state);
        for key in &written {
            self.shared.hub.wake(key);
        }
        if crashed {
            self.shared.hub.wake_all();
        }
        (answers, crashes)
    }
}

/// Commits one item, or has it fail as its fault says.
fn commit_item<T: Transition>(
    state: &mut State,
    update: &Update<T>,
    fault: Fault,
    written: &mut Vec<Bytes>,
) -> Result<T::Outcome, StoreError> {
    match fault {
        Fault::Unavailable => Err(unavailable()),
        Fault::Unknown { committed: false } => {
            state.rehearse(update);
            Err(unknown())
        }
        Fault::Unknown { committed: true } => {
            state.commit(update, written)?;
            Err(unknown())
        }
        _ => state.commit(update, written),
    }
}

impl Store for MemoryStore {
    async fn update<T: Transition>(&self, batch: Vec<Update<T>>) -> Answers<T> {
        if let Err(error) = limits::check_batch(batch.len()) {
            return fail_all::<T>(batch.len(), &error);
        }
        let Some(faults) = self.faults.take(batch.len()) else {
            return fail_all::<T>(batch.len(), &unavailable());
        };
        let (before, after) = longest_delays(&faults);
        wait(before).await;
        for round in 0..most_conflicts(&faults) {
            self.rehearse(&batch, &faults, round);
            tokio::task::yield_now().await;
        }
        if self.faults.is_down() {
            return fail_all::<T>(batch.len(), &unavailable());
        }
        let (answers, crashes) = self.commit(&batch, &faults);
        wait(after).await;
        if faults.contains(&Fault::Hold) {
            self.faults.hold().await;
        }
        if self.lock().crashes() > crashes {
            return fail_all::<T>(batch.len(), &unknown());
        }
        answers
    }

    async fn scan(&self, scan: Scan) -> Result<Page, StoreError> {
        limits::check_scan(&scan)?;
        if self.faults.fails_scan() {
            return Err(unavailable());
        }
        Ok(self.lock().scan(&scan))
    }

    fn watch(&self, key: &[u8]) -> Watch {
        self.shared.hub.watch(key)
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("MemoryStore").field("faults", &self.faults).finish_non_exhaustive()
    }
}

/// Waits on tokio's clock; not at all, not even for the runtime, if there is nothing to wait for.
async fn wait(delay: Duration) {
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
}

fn longest_delays(faults: &[Fault]) -> (Duration, Duration) {
    faults.iter().fold((Duration::ZERO, Duration::ZERO), |longest, fault| match fault {
        Fault::Delay { before, after } => (longest.0.max(*before), longest.1.max(*after)),
        _ => longest,
    })
}

fn most_conflicts(faults: &[Fault]) -> u32 {
    let times = faults.iter().map(|fault| match fault {
        Fault::Conflict { times } => *times,
        _ => 0,
    });
    times.max().unwrap_or(0)
}

fn fail_all<T: Transition>(items: usize, error: &StoreError) -> Answers<T> {
    (0..items).map(|_| Err(error.clone())).collect()
}

fn unavailable() -> StoreError {
    StoreError::Unavailable("a fault was injected before the commit; try again".into())
}

fn unknown() -> StoreError {
    StoreError::Unknown("a fault was injected around the commit; run the update again".into())
}
