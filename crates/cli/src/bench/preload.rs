//! Keys that are there before the measurement begins: claimed and completed in batches.

use semel_proto::v1::claim_key_result::Result as Claimed;
use semel_proto::v1::complete_key_result::Result as Completed;
use semel_proto::v1::keys_client::KeysClient;
use semel_proto::v1::{ClaimKeysRequest, CompleteKeysRequest};
use tokio::task::JoinSet;
use tonic::transport::Channel;

use super::callers::Scene;
use crate::failure::Failure;
use crate::output::Output;
use crate::target::connect;

const BATCH: u64 = 1_000;
/// Batches in flight, so that the node need not wait for the client.
const IN_FLIGHT: usize = 4;

/// Puts the scene's keys into the store of the node at `target`.
pub(crate) async fn run(target: &str, scene: &Scene, output: &mut Output) -> Result<(), Failure> {
    if scene.keys() == 0 {
        return Ok(());
    }
    let channel = connect(target).await?;
    let mut batches = JoinSet::new();
    let mut done = 0;
    for first in (0..scene.keys()).step_by(usize::try_from(BATCH).unwrap_or(usize::MAX)) {
        if batches.len() >= IN_FLIGHT {
            done += next(&mut batches).await?;
            output.progress(&format!("{done} of {} keys put into the store", scene.keys()))?;
        }
        let count = BATCH.min(scene.keys() - first);
        batches.spawn(batch(channel.clone(), scene.clone(), first, count));
    }
    while !batches.is_empty() {
        next(&mut batches).await?;
    }
    Ok(())
}

async fn next(batches: &mut JoinSet<Result<u64, Failure>>) -> Result<u64, Failure> {
    let ended = batches.join_next().await.unwrap_or(Ok(Ok(0)));
    ended.map_err(|error| Failure::broken(format!("a batch ended early: {error}")))?
}

async fn batch(channel: Channel, scene: Scene, first: u64, count: u64) -> Result<u64, Failure> {
    let mut keys = KeysClient::new(channel);
    let mut dice = scene.dice(u16::MAX);
    let owner_id = dice.owner_id();
    let numbers = first..first + count;
    let claims: Vec<_> =
        numbers.clone().map(|number| scene.claim(scene.key(number), owner_id.clone())).collect();
    let granted = keys.claim_keys(ClaimKeysRequest { claims: claims.clone() }).await?.into_inner();
    let mut completions = Vec::with_capacity(claims.len());
    for ((claim, result), number) in claims.iter().zip(granted.results).zip(numbers) {
        let fence = match result.result {
            Some(Claimed::Response(response)) => response.fence,
            other => return Err(Failure::broken(format!("a claim failed: {other:?}"))),
        };
        completions.push(Scene::completion(claim, fence, Scene::body(number)));
    }
    let accepted = keys.complete_keys(CompleteKeysRequest { completions }).await?.into_inner();
    let refused = accepted
        .results
        .iter()
        .find(|result| !matches!(result.result, Some(Completed::Response(_))));
    match refused {
        None => Ok(count),
        Some(result) => Err(Failure::broken(format!("a completion failed: {result:?}"))),
    }
}
