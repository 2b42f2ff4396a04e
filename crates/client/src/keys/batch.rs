//! The calls for many keys at once. Each item has its own result, as its single call would have it.

use semel_proto::v1;
use semel_proto::v1::keys_client::KeysClient;

use super::calls::{REPLY_MAX_BYTES, at_once, send};
use super::claim::{Claim, ClaimAnswer};
use super::request::ClaimRequest;
use super::work::{Completed, Work};
use crate::clock::Stopwatch;
use crate::connection::{Client, Error};
use crate::deadline::Deadline;

/// The most items of one call.
pub const BATCH_MAX: usize = 1_000;

impl Client {
    /// Claims 1 to 1,000 keys in one call; the results are in the order of the requests. None may wait. The
    /// same key twice: the first wins, the second sees it.
    ///
    /// # Errors
    ///
    /// For all: the batch is empty or too long, or no node answered before the deadline. For one: as
    /// [`claim`](Self::claim) has it.
    pub async fn claim_batch(
        &self,
        requests: &[ClaimRequest],
        deadline: Deadline,
    ) -> Result<Vec<Result<ClaimAnswer, Error>>, Error> {
        let owned: Vec<(&ClaimRequest, [u8; 16])> = requests
            .iter()
            .map(|request| (request, request.owned_by(|| self.pool.owner_id())))
            .collect();
        let since = Stopwatch::start();
        let message = |waited| v1::ClaimKeysRequest {
            claims: owned
                .iter()
                .map(|(request, owner_id)| request.to_wire(&self.tenant, *owner_id, waited))
                .collect(),
        };
        let reply = self.pool.call(at_once(deadline), message, send!(claim_keys)).await?;
        all_of(owned.len(), reply.results.len())?;
        let results = owned.into_iter().zip(reply.results).map(|((request, owner_id), result)| {
            use v1::claim_key_result::Result as Item;
            match result.result {
                Some(Item::Response(reply)) => {
                    ClaimAnswer::from_wire(reply, request.name(&self.tenant), owner_id, since)
                }
                Some(Item::Error(status)) => Err(Error::of_item(&status)),
                None => Err(empty()),
            }
        });
        Ok(results.collect())
    }

    /// Completes 1 to 1,000 claims in one call; the results are in the order of the claims.
    ///
    /// # Errors
    ///
    /// For all: the batch is empty or too long, or no node answered before the deadline. For one: as
    /// [`complete`](Self::complete) has it.
    pub async fn complete_batch(
        &self,
        completions: &[(Claim, Work)],
        deadline: Deadline,
    ) -> Result<Vec<Result<Completed, Error>>, Error> {
        let message = |_| v1::CompleteKeysRequest {
            completions: completions.iter().map(|(claim, work)| work.to_wire(claim)).collect(),
        };
        let reply = self.pool.call(at_once(deadline), message, send!(complete_keys)).await?;
        all_of(completions.len(), reply.results.len())?;
        let results = reply.results.into_iter().map(|result| {
            use v1::complete_key_result::Result as Item;
            match result.result {
                Some(Item::Response(reply)) => Ok(Completed::from_wire(&reply)),
                Some(Item::Error(status)) => Err(Error::of_item(&status)),
                None => Err(empty()),
            }
        });
        Ok(results.collect())
    }
}

fn all_of(asked: usize, answered: usize) -> Result<(), Error> {
    let problem = || Error::NotUnderstood(format!("{answered} results for {asked} items"));
    (asked == answered).then_some(()).ok_or_else(problem)
}

fn empty() -> Error {
    Error::NotUnderstood("an item without a result".to_owned())
}
