//! Three layers, one inside the other, each of which makes three attempts at a call that always fails:
//! without a bound, one action of a user becomes 27 calls.

use std::io;
use std::pin::Pin;

use bytes::Bytes;
use semel_proto::v1;
use serde::Serialize;

use super::{Stage, acquire, question, span};
use crate::load::Caller;
use crate::random::Random;
use crate::world::play;

/// The layers, the outermost first.
const LAYERS: [&str; 3] = ["gateway", "orders", "payments"];
/// Attempts of each.
const ATTEMPTS: u32 = 3;
/// Retries of a whole call tree.
const RETRIES_PER_ROOT: u32 = 4;
/// Nodes of the cluster.
const NODES: usize = 3;

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Layers {
    /// Calls without Semel.
    pub calls_without: u32,
    /// Calls while the cap per root request travels with it: at most 1 and the retries of a root.
    pub calls_with_cap: u32,
    /// Calls while the policy names the one layer that retries: at most its attempts.
    pub calls_with_retry_layer: u32,
    /// Retries of a root that the policy allows.
    pub retries_per_root: u32,
    /// Attempts of each layer.
    pub attempts_per_layer: u32,
}

/// Plays it.
///
/// # Errors
///
/// The cluster could not be made.
pub fn run(seed: u64) -> io::Result<Layers> {
    Ok(Layers {
        calls_without: without(LAYERS.len()),
        calls_with_cap: with_semel(seed, "")?,
        calls_with_retry_layer: with_semel(seed, LAYERS[0])?,
        retries_per_root: RETRIES_PER_ROOT,
        attempts_per_layer: ATTEMPTS,
    })
}

/// Calls of so many layers that know nothing of each other.
fn without(layers: usize) -> u32 {
    if layers == 0 { 1 } else { (0..ATTEMPTS).map(|_| without(layers - 1)).sum() }
}

fn with_semel(seed: u64, retry_layer: &str) -> io::Result<u32> {
    play(async |world| {
        let mut stage = Stage::new(&world, NODES, seed)?;
        let policy = v1::RetryPolicy {
            attempts_max: ATTEMPTS,
            retries_per_root: Some(RETRIES_PER_ROOT),
            retry_layer: retry_layer.to_owned(),
            ..Default::default()
        };
        stage.set_retry_policy(policy).await?;
        let mut tree = Tree {
            root: stage.random.id(),
            random: stage.random.fork(),
            caller: stage.caller(),
            calls: 0,
        };
        // The user's own request: nobody above says how many retries there may be.
        tree.layer(&LAYERS, RETRIES_PER_ROOT).await;
        Ok(tree.calls)
    })?
}

/// The call tree of one action.
struct Tree {
    root: Bytes,
    random: Random,
    caller: Caller,
    calls: u32,
}

/// What a call came to: how many retries are left, after it failed.
type Failed<'a> = Pin<Box<dyn Future<Output = u32> + 'a>>;

impl Tree {
    /// One layer's attempts at the layers below. It is handed how many retries the tree may still make,
    /// and returns what is left of them.
    fn layer<'a>(&'a mut self, layers: &'a [&'static str], mut retries: u32) -> Failed<'a> {
        Box::pin(async move {
            let Some((layer, below)) = layers.split_first() else {
                self.calls += 1;
                return retries;
            };
            let request_id = self.random.id();
            for attempt in 1.. {
                retries = self.layer(below, retries).await;
                let asked = v1::AcquireRetryTokenRequest {
                    root: Some(v1::RootRequest {
                        id: self.root.clone(),
                        attempt: 1,
                        retries: Some(retries),
                    }),
                    layer: (*layer).to_owned(),
                    ..question(request_id.clone(), attempt)
                };
                let node = self.random.position(NODES);
                let reply = acquire(&mut self.caller, node, asked).await;
                if reply.verdict() != v1::RetryVerdict::Granted {
                    break;
                }
                retries = reply.root_retries_left;
                tokio::time::sleep(span(reply.delay).unwrap_or_default()).await;
            }
            retries
        })
    }
}
