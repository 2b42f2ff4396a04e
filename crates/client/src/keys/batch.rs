//! The calls for many keys at once. Each item has its own result, as its single call would have it.

use std::time::Duration;

use semel_proto::v1;
use semel_proto::v1::keys_client::KeysClient;
use tokio::time::sleep;

use super::calls::{REPLY_MAX_BYTES, at_once, send};
use super::claim::{Claim, ClaimAnswer};
use super::request::ClaimRequest;
use super::work::{Completed, Work};
use crate::clock::Stopwatch;
use crate::connection::{Client, Error};
use crate::deadline::Deadline;

/// Before items are sent again that a node could not decide; it doubles.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// The longest such pause, whatever the node asks for.
const PAUSE_MAX: Duration = Duration::from_secs(3);

/// The most items of one call.
pub const BATCH_MAX: usize = 1_000;

type Results<T> = Result<Vec<Result<T, Error>>, Error>;

/// A request with the owner id that all its copies have.
type Owned<'a> = (&'a ClaimRequest, [u8; 16]);

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
        let owned: Vec<Owned<'_>> = requests
            .iter()
            .map(|request| (request, request.owned_by(|| self.pool.owner_id())))
            .collect();
        let since = Stopwatch::start();
        let mut results = self.claim_items(owned.iter().collect(), since, deadline).await?;
        let mut again = Again::within(deadline);
        while let Some(places) = again.undecided(&results).await {
            let items = at(&owned, &places);
            let Ok(answers) = self.claim_items(items, since, deadline).await else { break };
            put(&mut results, places, answers);
        }
        Ok(results)
    }

    async fn claim_items(
        &self,
        items: Vec<&Owned<'_>>,
        since: Stopwatch,
        deadline: Deadline,
    ) -> Results<ClaimAnswer> {
        let to_wire = |waited, (request, owner_id): &Owned<'_>| {
            request.to_wire(&self.tenant, *owner_id, waited)
        };
        let message = |waited| v1::ClaimKeysRequest {
            claims: items.iter().map(|item| to_wire(waited, item)).collect(),
        };
        let reply = self.pool.call(at_once(deadline), message, send!(claim_keys)).await?;
        all_of(items.len(), reply.results.len())?;
        let results = items.into_iter().zip(reply.results).map(|((request, owner_id), result)| {
            use v1::claim_key_result::Result as Item;
            match result.result {
                Some(Item::Response(reply)) => {
                    ClaimAnswer::from_wire(reply, request.name(&self.tenant), *owner_id, since)
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
        let mut results = self.complete_items(completions.iter().collect(), deadline).await?;
        let mut again = Again::within(deadline);
        while let Some(places) = again.undecided(&results).await {
            let items = at(completions, &places);
            let Ok(answers) = self.complete_items(items, deadline).await else { break };
            put(&mut results, places, answers);
        }
        Ok(results)
    }

    async fn complete_items(
        &self,
        items: Vec<&(Claim, Work)>,
        deadline: Deadline,
    ) -> Results<Completed> {
        let message = |_| v1::CompleteKeysRequest {
            completions: items.iter().map(|(claim, work)| work.to_wire(claim)).collect(),
        };
        let reply = self.pool.call(at_once(deadline), message, send!(complete_keys)).await?;
        all_of(items.len(), reply.results.len())?;
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

/// Items that a node could not decide just then are sent again, with the same ids, as a single call goes on until its
/// deadline. What no node answers any more stands as it was told.
struct Again {
    deadline: Deadline,
    pause: Duration,
}

impl Again {
    const fn within(deadline: Deadline) -> Self {
        Self { deadline, pause: PAUSE_MIN }
    }

    /// Waits for the time to send them again, and tells their places. `None`: there are none, or no time is left.
    async fn undecided<T>(&mut self, results: &[Result<T, Error>]) -> Option<Vec<usize>> {
        let errors = results.iter().enumerate().filter_map(|(place, result)| {
            let error = result.as_ref().err().filter(|error| error.is_repeatable())?;
            Some((place, error.retry_after().unwrap_or_default()))
        });
        let (places, waits): (Vec<usize>, Vec<Duration>) = errors.unzip();
        let wait = waits.into_iter().max()?.clamp(self.pause, PAUSE_MAX);
        if wait >= self.deadline.left() {
            return None;
        }
        sleep(wait).await;
        self.pause = self.pause.saturating_mul(2).min(PAUSE_MAX);
        Some(places)
    }
}

fn at<'a, T>(items: &'a [T], places: &[usize]) -> Vec<&'a T> {
    places.iter().filter_map(|place| items.get(*place)).collect()
}

fn put<T>(results: &mut [T], places: Vec<usize>, answers: Vec<T>) {
    for (place, answer) in places.into_iter().zip(answers) {
        if let Some(result) = results.get_mut(place) {
            *result = answer;
        }
    }
}

fn all_of(asked: usize, answered: usize) -> Result<(), Error> {
    let problem = || Error::NotUnderstood(format!("{answered} results for {asked} items"));
    (asked == answered).then_some(()).ok_or_else(problem)
}

fn empty() -> Error {
    Error::NotUnderstood("an item without a result".to_owned())
}
