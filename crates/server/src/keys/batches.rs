//! Many claims or completions in one call, with a result for each. They are decided in rounds: a round
//! is one commit, and bounds what is in memory at once however large the stored answers are.

use semel_domain::keys::layout::Address;
use semel_domain::keys::{Answer, Claim, ClaimOutcome, Command, Complete, Outcome};
use semel_domain::limits::BATCH_MAX;
use semel_proto::v1;
use semel_store::Store;

use super::service::{KeysService, complete_reply, is_omitted, mixed_up};
use super::transition::Decided;
use super::{parse, reply};
use crate::deadline::Deadline;
use crate::refusal::{Reason, Refusal};
use crate::wire::check_batch;

/// Batches, and pages of stuck keys, under way at once on one serving thread; more claims and pages
/// are shed, more completions queue.
pub(super) const UNDER_WAY_MAX: usize = 16;
/// Items decided in one round.
const ROUND: usize = 64;
/// Bodies that one reply carries, in bytes: half of the 4 MiB that gRPC clients accept unless told
/// otherwise. The other half is for the rest, which is not counted: headers and checkpoints.
const BODIES_MAX_BYTES: u64 = 2 * 1024 * 1024;

impl<S: Store> KeysService<S> {
    pub(super) async fn claim_all(
        &self,
        claims: Vec<v1::ClaimKeyRequest>,
        deadline: Deadline,
    ) -> Result<v1::ClaimKeysResponse, Refusal> {
        use v1::claim_key_result::Result as Item;
        check_batch("claims", claims.len(), BATCH_MAX)?;
        self.engine.clock_guard.check()?;
        let Ok(_place) = self.batches.try_acquire() else {
            return Err(Refusal::overloaded());
        };
        let mut bodies_left = BODIES_MAX_BYTES;
        let mut results = Vec::with_capacity(claims.len());
        let mut claims = claims.into_iter();
        while !claims.as_slice().is_empty() {
            let asked_at = self.engine.now();
            let round: Vec<_> =
                claims.by_ref().take(ROUND).map(|one| self.parse_batched_claim(one)).collect();
            let commands = round.iter().flatten();
            let commands =
                commands.map(|(address, claim)| (address.clone(), Command::Claim(claim.clone())));
            let mut decided =
                self.engine.decide_all(deadline, commands.collect()).await.into_iter();
            for item in round {
                let result = item.and_then(|(address, claim)| {
                    let outcome = next(&mut decided)?.outcome;
                    if let Outcome::Claim(ClaimOutcome::Replay(answer)) = &outcome {
                        match bodies_left.checked_sub(stored_bytes(answer)) {
                            Some(left) => bodies_left = left,
                            None => return Ok(reply::replayed(reply::left_out(answer))),
                        }
                    }
                    let (key, prints) = (address.record_key(), &claim.fingerprints);
                    self.claim_reply(outcome, &address, &key, prints, asked_at)
                });
                let position = results.len();
                let error = |refusal: Refusal| {
                    Item::Error(refusal.in_item("claims", position).into_message())
                };
                let result = Some(result.map_or_else(error, Item::Response));
                results.push(v1::ClaimKeyResult { result });
            }
        }
        Ok(v1::ClaimKeysResponse { results })
    }

    pub(super) async fn complete_all(
        &self,
        completions: Vec<v1::CompleteKeyRequest>,
        deadline: Deadline,
    ) -> Result<v1::CompleteKeysResponse, Refusal> {
        use v1::complete_key_result::Result as Item;
        check_batch("completions", completions.len(), BATCH_MAX)?;
        let Ok(_place) = self.batches.acquire().await else {
            return Err(Refusal::shutting_down());
        };
        let mut results = Vec::with_capacity(completions.len());
        let mut completions = completions.into_iter();
        while !completions.as_slice().is_empty() {
            let round = completions.by_ref().take(ROUND);
            let round: Vec<_> = round.map(|one| self.parse_completion(one)).collect();
            let commands = round
                .iter()
                .flatten()
                .map(|(address, complete)| (address.clone(), Command::Complete(complete.clone())));
            let mut decided =
                self.engine.decide_all(deadline, commands.collect()).await.into_iter();
            for item in round {
                let result = item.and_then(|(_, complete)| {
                    complete_reply(&next(&mut decided)?.outcome, is_omitted(&complete))
                });
                let position = results.len();
                let error = |refusal: Refusal| {
                    Item::Error(refusal.in_item("completions", position).into_message())
                };
                let result = Some(result.map_or_else(error, Item::Response));
                results.push(v1::CompleteKeyResult { result });
            }
        }
        Ok(v1::CompleteKeysResponse { results })
    }

    fn parse_batched_claim(
        &self,
        request: v1::ClaimKeyRequest,
    ) -> Result<(Address, Claim), Refusal> {
        let address = parse::address(&request.tenant, &request.operation, &request.key)?;
        if !parse::wait(request.wait)?.is_zero() {
            let problem = "not allowed in a batch: one slow key would hold up the others";
            return Err(Refusal::field(Reason::DurationInvalid, "wait", problem));
        }
        Ok((address, parse::claim(request, &self.options)?))
    }

    fn parse_completion(
        &self,
        request: v1::CompleteKeyRequest,
    ) -> Result<(Address, Complete), Refusal> {
        let address = parse::address(&request.tenant, &request.operation, &request.key)?;
        Ok((address, parse::complete(request, &self.options)?))
    }
}

/// What was decided for the next item that was well-formed.
fn next(decided: &mut impl Iterator<Item = Result<Decided, Refusal>>) -> Result<Decided, Refusal> {
    decided.next().unwrap_or_else(|| Err(mixed_up()))
}

/// How long the body of an answer is, if it is stored.
fn stored_bytes(answer: &Answer) -> u64 {
    use semel_domain::response::Content;
    match answer.response.as_ref().map(|response| &response.body) {
        Some(body) if matches!(body.content, Content::Plain(_) | Content::Zstd(_)) => body.length,
        _ => 0,
    }
}
