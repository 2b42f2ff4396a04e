//! The calls of services: claim, complete, replay, renew, release. Batches and the calls of operators
//! have files of their own.

use std::sync::Arc;

use bytes::Bytes;
use semel_domain::fingerprint::Fingerprints;
use semel_domain::keys::layout::Address;
use semel_domain::keys::{
    Answer, ClaimOutcome, Command, Complete, Completed, Outcome, ReplayOutcome,
};
use semel_domain::time::Timestamp;
use semel_proto::v1;
use semel_proto::v1::keys_server::Keys;
use semel_store::Store;
use tokio::sync::Semaphore;
use tonic::{Request, Response, Status};

use super::engine::{Call, Engine};
use super::replay_cache::ReplayCache;
use super::{batches, parse, reply};
use crate::deadline::Deadline;
use crate::jitter::Jitter;
use crate::options::KeyOptions;
use crate::refusal::{Reason, Refusal};

/// The Keys service on one serving thread.
pub(crate) struct KeysService<S> {
    pub(super) engine: Engine<S>,
    pub(super) cache: Arc<ReplayCache>,
    pub(super) options: Arc<KeyOptions>,
    jitter: Jitter,
    pub(super) batches: Semaphore,
}

impl<S: Store> KeysService<S> {
    pub(crate) fn new(
        engine: Engine<S>,
        cache: Arc<ReplayCache>,
        options: Arc<KeyOptions>,
        jitter: Jitter,
    ) -> Self {
        Self { engine, cache, options, jitter, batches: Semaphore::new(batches::UNDER_WAY_MAX) }
    }

    async fn claim(
        &self,
        request: v1::ClaimKeyRequest,
        deadline: Deadline,
    ) -> Result<v1::ClaimKeyResponse, Refusal> {
        let address = parse::address(&request.tenant, &request.operation, &request.key)?;
        let wait = parse::wait(request.wait)?;
        let claim = parse::claim(request, &self.options)?;
        self.engine.clock_guard.check()?;
        let call = Call::new(address, deadline);
        let cached = self.cache.get(&call.record_key, &claim.fingerprints, self.engine.now());
        if let Some(completion) = cached {
            return Ok(reply::replayed(completion));
        }
        let fingerprints = claim.fingerprints.clone();
        let command = Command::Claim(claim);
        // On the heap, so that the way through the cache does not carry its size along.
        let deciding = Box::pin(self.engine.decide_waiting(&call, command, wait));
        let (outcome, asked_at) = deciding.await?;
        self.claim_reply(outcome, &call.address, &call.record_key, &fingerprints, asked_at)
    }

    pub(super) fn claim_reply(
        &self,
        outcome: Outcome,
        address: &Address,
        record_key: &Bytes,
        fingerprints: &Fingerprints,
        asked_at: Timestamp,
    ) -> Result<v1::ClaimKeyResponse, Refusal> {
        match outcome {
            Outcome::Claim(ClaimOutcome::Replay(answer)) => {
                self.keep(record_key, fingerprints, &answer, asked_at).map(reply::replayed)
            }
            Outcome::Claim(outcome) => reply::claim(outcome, address, &self.jitter),
            _ => Err(mixed_up()),
        }
    }

    /// Makes an answer's wire form, and keeps it for whoever asks next.
    fn keep(
        &self,
        record_key: &Bytes,
        fingerprints: &Fingerprints,
        answer: &Answer,
        asked_at: Timestamp,
    ) -> Result<v1::Completion, Refusal> {
        let completion = reply::completion(answer)?;
        self.cache.put(record_key, fingerprints, answer, &completion, asked_at);
        Ok(completion)
    }

    async fn complete(
        &self,
        request: v1::CompleteKeyRequest,
        deadline: Deadline,
    ) -> Result<v1::CompleteKeyResponse, Refusal> {
        let address = parse::address(&request.tenant, &request.operation, &request.key)?;
        let complete = parse::complete(request, &self.options)?;
        let omitted = is_omitted(&complete);
        let call = Call::new(address, deadline);
        let decided = self.engine.decide(&call, Command::Complete(complete)).await?;
        complete_reply(&decided.outcome, omitted)
    }

    async fn replay(
        &self,
        request: v1::ReplayKeyRequest,
        deadline: Deadline,
    ) -> Result<v1::ReplayKeyResponse, Refusal> {
        let address = parse::address(&request.tenant, &request.operation, &request.key)?;
        let wait = parse::wait(request.wait)?;
        let replay = parse::replay(request.fingerprints)?;
        self.engine.clock_guard.check()?;
        let call = Call::new(address, deadline);
        let cached = self.cache.get(&call.record_key, &replay.fingerprints, self.engine.now());
        if let Some(completion) = cached {
            return Ok(reply::read(completion));
        }
        let fingerprints = replay.fingerprints.clone();
        let command = Command::Replay(replay);
        let deciding = Box::pin(self.engine.decide_waiting(&call, command, wait));
        let (outcome, asked_at) = deciding.await?;
        match outcome {
            Outcome::Replay(ReplayOutcome::Replay(answer)) => {
                self.keep(&call.record_key, &fingerprints, &answer, asked_at).map(reply::read)
            }
            Outcome::Replay(outcome) => reply::replay(outcome, &self.jitter),
            _ => Err(mixed_up()),
        }
    }

    async fn renew(
        &self,
        request: v1::RenewKeyRequest,
        deadline: Deadline,
    ) -> Result<v1::RenewKeyResponse, Refusal> {
        let address = parse::address(&request.tenant, &request.operation, &request.key)?;
        let renew = parse::renew(request)?;
        let call = Call::new(address, deadline);
        match self.engine.decide(&call, Command::Renew(renew)).await?.outcome {
            Outcome::Renew(outcome) => reply::renew(outcome),
            _ => Err(mixed_up()),
        }
    }

    async fn release(
        &self,
        request: v1::ReleaseKeyRequest,
        deadline: Deadline,
    ) -> Result<v1::ReleaseKeyResponse, Refusal> {
        let address = parse::address(&request.tenant, &request.operation, &request.key)?;
        let release = parse::release(&request)?;
        let call = Call::new(address, deadline);
        match self.engine.decide(&call, Command::Release(release)).await?.outcome {
            Outcome::Release(outcome) => reply::release(outcome),
            _ => Err(mixed_up()),
        }
    }

    pub(super) fn deadline_of<T>(&self, request: &Request<T>) -> Deadline {
        Deadline::of_call(request.metadata(), &*self.engine.clock)
    }

    pub(super) fn answer<T>(
        &self,
        deadline: Deadline,
        result: Result<T, Refusal>,
    ) -> Result<Response<T>, Status> {
        deadline.answer(result, &*self.engine.clock)
    }
}

pub(super) fn complete_reply(
    outcome: &Outcome,
    omitted_too_large: bool,
) -> Result<v1::CompleteKeyResponse, Refusal> {
    match outcome {
        Outcome::Complete(outcome) => reply::complete(outcome, omitted_too_large),
        _ => Err(mixed_up()),
    }
}

pub(super) fn is_omitted(complete: &Complete) -> bool {
    match &complete.completed {
        Completed::Concluded { response: Some(response), .. } => {
            reply::is_omitted_too_large(response)
        }
        _ => false,
    }
}

/// An outcome of another kind than its command: unreachable, and refused rather than trusted.
pub(super) fn mixed_up() -> Refusal {
    Refusal::new(Reason::RecordUnreadable, "the store answered another command than was asked")
}

#[tonic::async_trait]
impl<S: Store> Keys for KeysService<S> {
    async fn claim_key(
        &self,
        request: Request<v1::ClaimKeyRequest>,
    ) -> Result<Response<v1::ClaimKeyResponse>, Status> {
        let deadline = self.deadline_of(&request);
        self.answer(deadline, self.claim(request.into_inner(), deadline).await)
    }

    async fn complete_key(
        &self,
        request: Request<v1::CompleteKeyRequest>,
    ) -> Result<Response<v1::CompleteKeyResponse>, Status> {
        let deadline = self.deadline_of(&request);
        self.answer(deadline, self.complete(request.into_inner(), deadline).await)
    }

    async fn replay_key(
        &self,
        request: Request<v1::ReplayKeyRequest>,
    ) -> Result<Response<v1::ReplayKeyResponse>, Status> {
        let deadline = self.deadline_of(&request);
        self.answer(deadline, self.replay(request.into_inner(), deadline).await)
    }

    async fn renew_key(
        &self,
        request: Request<v1::RenewKeyRequest>,
    ) -> Result<Response<v1::RenewKeyResponse>, Status> {
        let deadline = self.deadline_of(&request);
        self.answer(deadline, self.renew(request.into_inner(), deadline).await)
    }

    async fn release_key(
        &self,
        request: Request<v1::ReleaseKeyRequest>,
    ) -> Result<Response<v1::ReleaseKeyResponse>, Status> {
        let deadline = self.deadline_of(&request);
        self.answer(deadline, self.release(request.into_inner(), deadline).await)
    }

    async fn claim_keys(
        &self,
        request: Request<v1::ClaimKeysRequest>,
    ) -> Result<Response<v1::ClaimKeysResponse>, Status> {
        let deadline = self.deadline_of(&request);
        self.answer(deadline, self.claim_all(request.into_inner().claims, deadline).await)
    }

    async fn complete_keys(
        &self,
        request: Request<v1::CompleteKeysRequest>,
    ) -> Result<Response<v1::CompleteKeysResponse>, Status> {
        let deadline = self.deadline_of(&request);
        self.answer(deadline, self.complete_all(request.into_inner().completions, deadline).await)
    }

    async fn get_key(
        &self,
        request: Request<v1::GetKeyRequest>,
    ) -> Result<Response<v1::GetKeyResponse>, Status> {
        let deadline = self.deadline_of(&request);
        self.answer(deadline, self.get(request.into_inner(), deadline).await)
    }

    async fn list_keys(
        &self,
        request: Request<v1::ListKeysRequest>,
    ) -> Result<Response<v1::ListKeysResponse>, Status> {
        let deadline = self.deadline_of(&request);
        self.answer(deadline, self.list(request.into_inner()).await)
    }

    async fn list_stuck_keys(
        &self,
        request: Request<v1::ListStuckKeysRequest>,
    ) -> Result<Response<v1::ListStuckKeysResponse>, Status> {
        let deadline = self.deadline_of(&request);
        self.answer(deadline, self.list_stuck(request.into_inner(), deadline).await)
    }

    async fn reconcile_key(
        &self,
        request: Request<v1::ReconcileKeyRequest>,
    ) -> Result<Response<v1::ReconcileKeyResponse>, Status> {
        let deadline = self.deadline_of(&request);
        self.answer(deadline, self.reconcile(request.into_inner(), deadline).await)
    }

    async fn forget_key(
        &self,
        request: Request<v1::ForgetKeyRequest>,
    ) -> Result<Response<v1::ForgetKeyResponse>, Status> {
        let deadline = self.deadline_of(&request);
        self.answer(deadline, self.forget(request.into_inner(), deadline).await)
    }
}
