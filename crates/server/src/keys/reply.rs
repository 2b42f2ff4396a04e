//! Outcomes to wire replies. Expected answers become dispositions; the rest become refusals.

use std::time::Duration;

use bytes::Bytes;
use semel_domain::keys::layout::Address;
use semel_domain::keys::{
    Answer, Attempt, AttemptEnd, AuditAction, ClaimOutcome, CompleteOutcome, Conclusion,
    ForgetOutcome, Grant, GrantKind, InProgress, OnOwnerLost, ReconcileOutcome, Record,
    ReleaseOutcome, RenewOutcome, ReplayOutcome, Stage, State,
};
use semel_domain::response::{Content, Response};
use semel_domain::time::Timestamp;
use semel_proto::v1;

use super::body;
use crate::jitter::Jitter;
use crate::refusal::{Reason, Refusal};
use crate::wire::{wire_duration, wire_time};

type Reply<T> = Result<T, Refusal>;

/// The longest hint: an owner that finishes early should not leave callers waiting for its lease.
const HINT_MAX: Duration = Duration::from_secs(5);
/// The shortest hint before jitter, unless the lease ends sooner.
const HINT_MIN: Duration = Duration::from_millis(20);

pub(crate) fn claim(
    outcome: ClaimOutcome,
    address: &Address,
    jitter: &Jitter,
) -> Reply<v1::ClaimKeyResponse> {
    use v1::claim_key_response::Disposition;
    let disposed = |disposition: Disposition| v1::ClaimKeyResponse {
        disposition: disposition.into(),
        ..Default::default()
    };
    match outcome {
        ClaimOutcome::PayloadMismatch => Err(Refusal::new(
            Reason::KeyPayloadMismatch,
            "this key was used for something else: an intent has one key, and a key one intent",
        )),
        ClaimOutcome::FingerprintIncomparable => Err(Refusal::new(
            Reason::FingerprintIncomparable,
            "none of these fingerprint algorithms is among those of the first claim: send the \
             earlier one along",
        )),
        ClaimOutcome::Expired => Err(expired()),
        ClaimOutcome::FirstSentInvalid => Err(Refusal::field(
            Reason::FirstSentInvalid,
            "first_sent",
            "lies further in the future than clocks may differ",
        )),
        ClaimOutcome::Replay(answer) => Ok(replayed(completion(&answer)?)),
        ClaimOutcome::Indeterminate => Ok(disposed(Disposition::Indeterminate)),
        ClaimOutcome::Released => Ok(disposed(Disposition::Released)),
        ClaimOutcome::InProgress(in_progress) => Ok(v1::ClaimKeyResponse {
            retry_after: Some(wire_duration(retry_after(in_progress, jitter))),
            ..disposed(Disposition::InProgress)
        }),
        ClaimOutcome::Granted(grant) => Ok(granted(*grant, address)),
    }
}

/// The reply that carries a stored answer.
pub(crate) fn replayed(completion: v1::Completion) -> v1::ClaimKeyResponse {
    v1::ClaimKeyResponse {
        disposition: v1::claim_key_response::Disposition::Replay.into(),
        completion: Some(completion),
        ..Default::default()
    }
}

fn granted(grant: Grant, address: &Address) -> v1::ClaimKeyResponse {
    use v1::claim_key_response::Disposition;
    let disposition = match grant.kind {
        GrantKind::Claimed => Disposition::Claimed,
        GrantKind::TakenOver => Disposition::TakenOver,
        GrantKind::ReconcileRequired => Disposition::ReconcileRequired,
    };
    v1::ClaimKeyResponse {
        disposition: disposition.into(),
        fence: grant.fence,
        lease: Some(wire_duration(grant.lease)),
        lease_expires_at: Some(wire_time(grant.expires_at)),
        derived_key: address.derived_key(),
        resumed: grant.resumed,
        checkpoint: grant.checkpoint.unwrap_or_default(),
        attempt: grant.attempt,
        history: grant.history.iter().map(attempt).collect(),
        ..Default::default()
    }
}

pub(crate) fn complete(
    outcome: &CompleteOutcome,
    omitted_too_large: bool,
) -> Reply<v1::CompleteKeyResponse> {
    match *outcome {
        CompleteOutcome::Unknown => Err(unknown()),
        CompleteOutcome::Expired => Err(expired()),
        CompleteOutcome::Fenced { current } => Err(fenced(current)),
        CompleteOutcome::Conflict => Err(conflict()),
        CompleteOutcome::Accepted { already, stage, expires_at } => Ok(v1::CompleteKeyResponse {
            already_completed: already,
            state: state(stage).into(),
            expires_at: expires_at.map(wire_time),
            omitted_too_large,
        }),
    }
}

pub(crate) fn renew(outcome: RenewOutcome) -> Reply<v1::RenewKeyResponse> {
    match outcome {
        RenewOutcome::Unknown => Err(unknown()),
        RenewOutcome::Fenced { current } => Err(fenced(current)),
        RenewOutcome::Renewed { stale, expires_at } => {
            Ok(v1::RenewKeyResponse { lease_expires_at: Some(wire_time(expires_at)), stale })
        }
    }
}

pub(crate) fn release(outcome: ReleaseOutcome) -> Reply<v1::ReleaseKeyResponse> {
    match outcome {
        ReleaseOutcome::Unknown => Err(unknown()),
        ReleaseOutcome::Fenced { current } => Err(fenced(current)),
        ReleaseOutcome::Released { already } => {
            Ok(v1::ReleaseKeyResponse { already_released: already })
        }
    }
}

pub(crate) fn replay(outcome: ReplayOutcome, jitter: &Jitter) -> Reply<v1::ReplayKeyResponse> {
    match outcome {
        ReplayOutcome::Unknown => Err(unknown()),
        ReplayOutcome::Expired => Err(expired()),
        ReplayOutcome::Replay(answer) => Ok(read(completion(&answer)?)),
        ReplayOutcome::InProgress(in_progress) => Ok(v1::ReplayKeyResponse {
            state: v1::KeyState::Claimed.into(),
            completion: None,
            retry_after: Some(wire_duration(retry_after(in_progress, jitter))),
        }),
        ReplayOutcome::Unanswered(stage) => Ok(v1::ReplayKeyResponse {
            state: state(stage).into(),
            completion: None,
            retry_after: None,
        }),
    }
}

/// The reply to a replay that carries a stored answer.
pub(crate) fn read(completion: v1::Completion) -> v1::ReplayKeyResponse {
    let state = match completion.outcome() {
        v1::Outcome::FailedFinal => v1::KeyState::FailedFinal,
        _ => v1::KeyState::Succeeded,
    };
    v1::ReplayKeyResponse { state: state.into(), completion: Some(completion), retry_after: None }
}

pub(crate) fn reconcile(outcome: ReconcileOutcome) -> Reply<v1::ReconcileKeyResponse> {
    match outcome {
        ReconcileOutcome::Unknown => Err(unknown()),
        ReconcileOutcome::Expired => Err(expired()),
        ReconcileOutcome::Fenced { current } => Err(fenced(current)),
        ReconcileOutcome::Conflict => Err(conflict()),
        ReconcileOutcome::ClaimLive { lease_left } => Err(Refusal::new(
            Reason::ClaimLive,
            "its owner is at work: there is nothing to settle until the lease runs out",
        )
        .retry_after(lease_left)),
        ReconcileOutcome::Settled { already, stage } => {
            Ok(v1::ReconcileKeyResponse { already_settled: already, state: state(stage).into() })
        }
    }
}

pub(crate) fn forget(outcome: ForgetOutcome) -> Reply<v1::ForgetKeyResponse> {
    match outcome {
        ForgetOutcome::Unknown => Err(unknown()),
        ForgetOutcome::NotCompleted(stage) => Err(Refusal::new(
            Reason::KeyNotCompleted,
            "erasing a key that is not completed would mean running it again: settle it with \
             ReconcileKey first",
        )
        .with("state", state(stage).as_str_name())),
        ForgetOutcome::Forgotten { already, expires_at } => Ok(v1::ForgetKeyResponse {
            already_forgotten: already,
            expires_at: Some(wire_time(expires_at)),
        }),
    }
}

/// A key as an operator sees it, without its history, answer and audit: a row of a list.
pub(crate) fn row(address: &Address, record: &Record, now: Timestamp) -> v1::KeyView {
    let labels = record.labels.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    let lease_expires_at = match &record.state {
        State::Claimed(claimed) => Some(wire_time(claimed.expires_at)),
        _ => None,
    };
    v1::KeyView {
        tenant: address.tenant.to_string(),
        operation: address.operation.to_string(),
        key: address.key.to_string(),
        state: state(record.stage(now)).into(),
        fence: record.fence,
        fingerprints: record.fingerprints.iter().map(fingerprint).collect(),
        on_owner_lost: on_owner_lost(record.on_owner_lost).into(),
        labels: labels.collect(),
        created_at: Some(wire_time(record.created_at)),
        touched_at: Some(wire_time(record.touched_at)),
        first_sent: record.first_sent.map(wire_time),
        lease_expires_at,
        owner_id: record.owner().map_or_else(Bytes::new, |owner| Bytes::copy_from_slice(&owner.0)),
        expires_at: record.expires_at().map(wire_time),
        attempts: record.attempts,
        checkpoint_bytes: record
            .checkpoint
            .as_ref()
            .map_or(0, |bytes| u32::try_from(bytes.len()).unwrap_or(u32::MAX)),
        derived_key: address.derived_key(),
        ..Default::default()
    }
}

/// A key whose record this node can't read: its names, so that an operator sees that it is there.
pub(crate) fn unreadable_row(address: &Address) -> v1::KeyView {
    v1::KeyView {
        tenant: address.tenant.to_string(),
        operation: address.operation.to_string(),
        key: address.key.to_string(),
        ..Default::default()
    }
}

/// A key as an operator sees it, whole; the body only if it was granted.
pub(crate) fn view(
    address: &Address,
    record: &Record,
    now: Timestamp,
    with_body: bool,
) -> Reply<v1::KeyView> {
    let answered = match &record.state {
        State::Completed(answer) if with_body => Some(completion(answer)?),
        State::Completed(answer) => Some(completion_without_body(answer)),
        _ => None,
    };
    let audit = record.audit.iter().map(|act| v1::AuditEntry {
        at: Some(wire_time(act.at)),
        actor: act.actor.to_string(),
        reason: act.reason.to_string(),
        action: match act.action {
            AuditAction::Reconcile => "reconcile".to_owned(),
            AuditAction::Forget => "forget".to_owned(),
        },
    });
    Ok(v1::KeyView {
        history: record.history.iter().map(attempt).collect(),
        completion: answered,
        audit: audit.collect(),
        ..row(address, record, now)
    })
}

/// A stored answer, byte for byte.
pub(crate) fn completion(answer: &Answer) -> Reply<v1::Completion> {
    let mut completion = completion_without_body(answer);
    if let (Some(wire), Some(stored)) = (&mut completion.response, &answer.response) {
        let bytes = body::load(&stored.body)
            .map_err(|error| Refusal::new(Reason::RecordUnreadable, error))?;
        if let Some(bytes) = bytes {
            wire.content = Some(v1::response::Content::Body(bytes));
        }
    }
    Ok(completion)
}

/// A stored answer whose body has no room in the reply: its digest says what it is.
pub(crate) fn left_out(answer: &Answer) -> v1::Completion {
    v1::Completion { body_left_out: true, ..completion_without_body(answer) }
}

fn completion_without_body(answer: &Answer) -> v1::Completion {
    let outcome = match answer.conclusion {
        Conclusion::Succeeded => v1::Outcome::Succeeded,
        Conclusion::FailedFinal => v1::Outcome::FailedFinal,
    };
    v1::Completion {
        outcome: outcome.into(),
        response: answer.response.as_ref().map(response_without_body),
        completed_at: Some(wire_time(answer.completed_at)),
        fence: answer.fence,
        expires_at: Some(wire_time(answer.expires_at)),
        omitted_too_large: answer.response.as_ref().is_some_and(is_omitted_too_large),
        body_left_out: false,
    }
}

pub(crate) fn is_omitted_too_large(response: &Response) -> bool {
    response.body.content == Content::OmittedTooLarge
}

fn response_without_body(response: &Response) -> v1::Response {
    let metadata = response.metadata.iter().map(|(name, value)| v1::MetadataEntry {
        name: name.to_string(),
        value: value.to_string(),
    });
    v1::Response {
        status: response.status,
        content_type: response.content_type.to_string(),
        metadata: metadata.collect(),
        content: Some(v1::response::Content::Omitted(v1::OmittedBody {
            sha256: Bytes::copy_from_slice(&response.body.sha256),
            length: response.body.length,
        })),
    }
}

/// When to look again: about as long as the work has taken so far, so that asking costs a fixed share
/// of the wait; never later than the lease.
fn retry_after(in_progress: InProgress, jitter: &Jitter) -> Duration {
    let hint = in_progress.held_for.clamp(HINT_MIN, HINT_MAX).min(in_progress.lease_left);
    jitter.upper_half(hint).max(Duration::from_micros(1))
}

fn expired() -> Refusal {
    Refusal::new(
        Reason::KeyExpired,
        "the answer to this intent is no longer kept, so running it could be a second time: look \
         what became of the first",
    )
}

fn unknown() -> Refusal {
    Refusal::new(Reason::KeyUnknown, "no such key, or it stands for something else")
}

fn fenced(current: u64) -> Refusal {
    Refusal::new(
        Reason::Fenced,
        "this claim is no longer held: another took over, or it was given back. Nothing was written",
    )
    .with("current_fence", current.to_string())
}

fn conflict() -> Refusal {
    Refusal::new(
        Reason::CompletionConflict,
        "the key was completed with another answer, and the first stands",
    )
}

pub(crate) fn state(stage: Stage) -> v1::KeyState {
    match stage {
        Stage::Claimed => v1::KeyState::Claimed,
        Stage::Lapsed => v1::KeyState::Lapsed,
        Stage::Released => v1::KeyState::Released,
        Stage::Succeeded => v1::KeyState::Succeeded,
        Stage::FailedFinal => v1::KeyState::FailedFinal,
        Stage::Indeterminate => v1::KeyState::Indeterminate,
        Stage::Forgotten => v1::KeyState::Forgotten,
    }
}

fn attempt(attempt: &Attempt) -> v1::Attempt {
    use v1::attempt::End;
    let end = match attempt.end {
        AttemptEnd::Released => End::Released,
        AttemptEnd::FailedRetryable => End::FailedRetryable,
        AttemptEnd::Lapsed => End::Lapsed,
        AttemptEnd::Indeterminate => End::Indeterminate,
        AttemptEnd::Reconciled => End::Reconciled,
    };
    v1::Attempt {
        fence: attempt.fence,
        owner_id: Bytes::copy_from_slice(&attempt.owner.0),
        claimed_at: Some(wire_time(attempt.claimed_at)),
        ended_at: Some(wire_time(attempt.ended_at)),
        end: end.into(),
    }
}

fn on_owner_lost(policy: OnOwnerLost) -> v1::OnOwnerLost {
    match policy {
        OnOwnerLost::TakeOver => v1::OnOwnerLost::TakeOver,
        OnOwnerLost::Reconcile => v1::OnOwnerLost::Reconcile,
        OnOwnerLost::Block => v1::OnOwnerLost::Block,
    }
}

fn fingerprint(fingerprint: &semel_domain::fingerprint::Fingerprint) -> v1::Fingerprint {
    v1::Fingerprint {
        algorithm: fingerprint.algorithm().to_owned(),
        digest: fingerprint.digest().clone(),
    }
}
