//! The load: clients that go through all nodes, repeat with the same ids what they have no answer to, and
//! record what they were told.
//!
//! - `keys`: owners that want the same keys, work, doubt, and are lost; `key_calls`: their calls
//! - `batches`: the same with many keys in a call
//! - `operators`: keys that are settled and erased
//! - `budgets`: deposits, tokens, refunds
//! - `breakers`: outcomes and probes; `watchers`: streams of changes
//! - `steady`: a client that a lost node costs a delay, and nothing else

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tonic::{Response, Status};

use crate::call::{Client, Timed, is_unknown};
use crate::checker;
use crate::checker::keys::Answered;
use crate::support::ask::reason;

pub(crate) mod batches;
pub(crate) mod breakers;
pub(crate) mod budgets;
mod key_calls;
pub(crate) mod keys;
pub(crate) mod operators;
pub(crate) mod steady;
pub(crate) mod watchers;

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

    /// Records a call on a key. All that were told the same share its bytes.
    fn key(&self, key: &str, mut call: checker::keys::Call) {
        let mut keys = self.keys.lock().unwrap();
        let history = keys.entry(key.to_owned()).or_default();
        if let Answered::Told { body, .. } = &mut call.answered {
            let known = history.iter().find_map(|before| match &before.answered {
                Answered::Told { body: known, .. } if known == body => Some(known.clone()),
                _ => None,
            });
            *body = known.unwrap_or_else(|| body.clone());
        }
        history.push(call);
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

    /// An answer that nobody else gives.
    pub(crate) fn body(&mut self) -> Bytes {
        let length = self.random.random_range(16..300);
        (0..length).map(|_| self.random.random::<u8>()).collect()
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

/// The same bytes by themselves: those of a reply keep all that was received with them.
pub(crate) fn detached(bytes: &Bytes) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

/// Makes a call that can be repeated until it is answered, as the load can't begin without it.
pub(crate) async fn insist<R, F>(make: impl Fn() -> F) -> R
where
    F: Future<Output = Result<Response<R>, Status>>,
{
    for _ in 0..10 {
        match make().await {
            Ok(reply) => return reply.into_inner(),
            Err(status) => assert!(is_unknown(&status), "{status:?}"),
        }
    }
    panic!("there is no answer although all is well");
}

/// An error as a checker is to see it.
pub(crate) fn refusal(status: &Status, asked: &impl Debug) -> String {
    format!("{:?} {} {}: {asked:?}", status.code(), reason(status), status.message())
}
