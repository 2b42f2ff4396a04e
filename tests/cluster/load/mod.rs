//! The load: clients that go through all nodes, repeat with the same ids what they have no answer to, and
//! record what they were told.
//!
//! - `keys`: claims, renewals, releases, completions and replays of keys that many owners want
//! - `budgets`: deposits, tokens, refunds
//! - `breakers`: outcomes and probes
//! - `steady`: a client that a lost node costs a delay, and nothing else

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tonic::Status;

use crate::call::{Client, Timed, is_unknown};
use crate::checker;
use crate::support::ask::reason;

pub(crate) mod breakers;
pub(crate) mod budgets;
pub(crate) mod keys;
pub(crate) mod steady;

/// How long a call of the load may take.
pub(crate) const DEADLINE: Duration = Duration::from_millis(1_500);

/// What all clients recorded.
#[derive(Debug, Default)]
pub(crate) struct Records {
    pub(crate) keys: Mutex<BTreeMap<String, Vec<checker::keys::Call>>>,
    pub(crate) budgets: Mutex<BTreeMap<String, checker::budgets::History>>,
    pub(crate) breakers: Mutex<BTreeMap<String, checker::breakers::History>>,
    calls: AtomicU64,
    unknown: AtomicU64,
}

impl Records {
    /// How many calls there were, and of how many nobody knows what came of them.
    pub(crate) fn counted(&self) -> (u64, u64) {
        (self.calls.load(Ordering::Relaxed), self.unknown.load(Ordering::Relaxed))
    }

    pub(crate) fn count<R>(&self, timed: &Timed<R>) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if matches!(&timed.result, Err(status) if is_unknown(status)) {
            self.unknown.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn budget(&self, dependency: &str, note: impl FnOnce(&mut checker::budgets::History)) {
        note(self.budgets.lock().unwrap().entry(dependency.to_owned()).or_default());
    }

    fn breaker(&self, dependency: &str, note: impl FnOnce(&mut checker::breakers::History)) {
        note(self.breakers.lock().unwrap().entry(dependency.to_owned()).or_default());
    }
}

/// What every client has.
#[derive(Debug)]
pub(crate) struct Caller {
    /// One for each node.
    pub(crate) nodes: Vec<Client>,
    pub(crate) random: SmallRng,
    pub(crate) records: Arc<Records>,
}

impl Caller {
    pub(crate) fn new(nodes: Vec<Client>, seed: u64, records: &Arc<Records>) -> Self {
        let random = SmallRng::seed_from_u64(seed);
        Self { nodes, random, records: Arc::clone(records) }
    }

    pub(crate) fn any_node(&mut self) -> usize {
        self.random.random_range(0..self.nodes.len())
    }

    pub(crate) fn next_node(&self, node: usize) -> usize {
        (node + 1) % self.nodes.len()
    }

    pub(crate) fn ids(&mut self) -> [u8; 16] {
        self.random.random()
    }

    /// True once in so many.
    pub(crate) fn once_in(&mut self, many: u32) -> bool {
        self.random.random_range(0..many) == 0
    }

    /// The pace of a client: up to so long of doing something else.
    pub(crate) async fn pause(&mut self, at_most: Duration) {
        let pause = at_most.mul_f64(self.random.random());
        tokio::time::sleep(pause).await;
    }
}

/// An error as a checker is to see it.
pub(crate) fn refusal(status: &Status, asked: &impl Debug) -> String {
    format!("{:?} {} {}: {asked:?}", status.code(), reason(status), status.message())
}
