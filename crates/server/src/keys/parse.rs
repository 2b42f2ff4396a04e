//! Wire requests to commands. What is malformed is refused here, field by field, before anything is
//! read or written; what is absent takes its default here, and only here: absent is not zero.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use bytes::Bytes;
use prost_types::{Duration as WireDuration, Timestamp as WireTimestamp};
use semel_domain::fingerprint::{Fingerprint, Fingerprints};
use semel_domain::keys::layout::Address;
use semel_domain::keys::{
    Claim, Complete, Completed, Conclusion, Forget, OnOwnerLost, OwnerId, Reconcile, Release,
    Renew, Replay, Resolution, Stage,
};
use semel_domain::limits;
use semel_domain::name::{Key, Operation, is_name_character};
use semel_domain::response::{Body, Content, Response};
use semel_domain::time::Timestamp;
use semel_proto::v1;

use super::body;
use crate::options::KeyOptions;
use crate::refusal::{Reason, Refusal};
use crate::wire::{Parsed, audit, choice, duration, positive, tenant};

pub(crate) fn operation(text: &str) -> Parsed<Operation> {
    Operation::parse(text)
        .map_err(|error| Refusal::field(Reason::OperationInvalid, "operation", error))
}

/// An operation as a filter: empty means all.
pub(crate) fn operation_filter(text: &str) -> Parsed<Option<Operation>> {
    if text.is_empty() { Ok(None) } else { operation(text).map(Some) }
}

pub(crate) fn address(tenant_text: &str, operation_text: &str, key: &str) -> Parsed<Address> {
    Ok(Address {
        tenant: tenant(tenant_text)?,
        operation: operation(operation_text)?,
        key: Key::parse(key).map_err(|error| Refusal::field(Reason::KeyInvalid, "key", error))?,
    })
}

pub(crate) fn claim(request: v1::ClaimKeyRequest, options: &KeyOptions) -> Parsed<Claim> {
    let on_owner_lost = on_owner_lost(request.on_owner_lost)?;
    Ok(Claim {
        fingerprints: fingerprints(request.fingerprints)?,
        owner: owner(&request.owner_id)?,
        lease: lease(request.lease)?,
        retention: retention(request.retention)?,
        policy: options.policy(),
        first_sent: first_sent(request.first_sent, options)?,
        on_owner_lost,
        labels: labels(request.labels)?,
        may_acquire: true,
    })
}

pub(crate) fn complete(request: v1::CompleteKeyRequest, options: &KeyOptions) -> Parsed<Complete> {
    let (fence, owner) = (fence(request.fence)?, owner(&request.owner_id)?);
    let response = response(request.response, options)?;
    let completed = match (choice("outcome", request.outcome)?, response) {
        (v1::Outcome::Succeeded, response) => {
            Completed::Concluded { conclusion: Conclusion::Succeeded, response }
        }
        (v1::Outcome::FailedFinal, response) => {
            Completed::Concluded { conclusion: Conclusion::FailedFinal, response }
        }
        (v1::Outcome::FailedRetryable, None) => Completed::FailedRetryable,
        (v1::Outcome::Indeterminate, None) => Completed::Indeterminate,
        (v1::Outcome::Unspecified, _) => {
            let problem = "say what the work came to: SUCCEEDED, FAILED_FINAL, FAILED_RETRYABLE or \
                           INDETERMINATE";
            return Err(Refusal::field(Reason::OutcomeInvalid, "outcome", problem));
        }
        (_, Some(_)) => {
            let problem = "only SUCCEEDED and FAILED_FINAL have a response";
            return Err(Refusal::field(Reason::ResponseInvalid, "response", problem));
        }
    };
    Ok(Complete { fence, owner, completed })
}

pub(crate) fn renew(request: v1::RenewKeyRequest) -> Parsed<Renew> {
    if request.renewal == 0 {
        return Err(Refusal::field(Reason::RenewalInvalid, "renewal", "count from 1"));
    }
    Ok(Renew {
        fence: fence(request.fence)?,
        owner: owner(&request.owner_id)?,
        renewal: request.renewal,
        lease: lease(request.lease)?,
        checkpoint: request.checkpoint.map(checkpoint).transpose()?,
    })
}

pub(crate) fn release(request: &v1::ReleaseKeyRequest) -> Parsed<Release> {
    Ok(Release { fence: fence(request.fence)?, owner: owner(&request.owner_id)? })
}

pub(crate) fn replay(fingerprints_given: Vec<v1::Fingerprint>) -> Parsed<Replay> {
    Ok(Replay { fingerprints: fingerprints(fingerprints_given)? })
}

pub(crate) fn reconcile(
    request: v1::ReconcileKeyRequest,
    options: &KeyOptions,
) -> Parsed<Reconcile> {
    use v1::reconcile_key_request::Resolution as Wire;
    let fence = fence(request.fence)?;
    let response = response(request.response, options)?;
    let resolution = match (choice("resolution", request.resolution)?, response) {
        (Wire::Succeeded, response) => {
            Resolution::Concluded { conclusion: Conclusion::Succeeded, response }
        }
        (Wire::FailedFinal, response) => {
            Resolution::Concluded { conclusion: Conclusion::FailedFinal, response }
        }
        (Wire::NotDone, None) => Resolution::NotDone,
        (Wire::NotDone, Some(_)) => {
            let problem = "work that was not done has no response";
            return Err(Refusal::field(Reason::ResponseInvalid, "response", problem));
        }
        (Wire::Unspecified, _) => {
            let problem = "say what you found: SUCCEEDED, FAILED_FINAL or NOT_DONE";
            return Err(Refusal::field(Reason::OutcomeInvalid, "resolution", problem));
        }
    };
    let (actor, reason) = audit(&request.actor, &request.reason)?;
    Ok(Reconcile { fence, resolution, actor, reason })
}

pub(crate) fn forget(request: &v1::ForgetKeyRequest) -> Parsed<Forget> {
    let (actor, reason) = audit(&request.actor, &request.reason)?;
    Ok(Forget { actor, reason })
}

/// How long a call may wait; zero: not at all.
pub(crate) fn wait(given: Option<WireDuration>) -> Parsed<Duration> {
    let Some(given) = given else { return Ok(Duration::ZERO) };
    let wait = duration("wait", given)?;
    if wait > limits::WAIT_MAX {
        return Err(Refusal::field(Reason::DurationInvalid, "wait", "must be at most 24 h"));
    }
    Ok(wait)
}

/// How long keys must have been stuck.
pub(crate) fn stuck_for(given: Option<WireDuration>) -> Parsed<Duration> {
    given.map_or(Ok(Duration::ZERO), |given| duration("stuck_for", given))
}

/// A stage as a filter: unspecified means any.
pub(crate) fn stage_filter(state: i32) -> Parsed<Option<Stage>> {
    Ok(match choice("state", state)? {
        v1::KeyState::Unspecified => None,
        v1::KeyState::Claimed => Some(Stage::Claimed),
        v1::KeyState::Lapsed => Some(Stage::Lapsed),
        v1::KeyState::Released => Some(Stage::Released),
        v1::KeyState::Succeeded => Some(Stage::Succeeded),
        v1::KeyState::FailedFinal => Some(Stage::FailedFinal),
        v1::KeyState::Indeterminate => Some(Stage::Indeterminate),
        v1::KeyState::Forgotten => Some(Stage::Forgotten),
    })
}

pub(crate) fn labels(given: HashMap<String, String>) -> Parsed<BTreeMap<Box<str>, Box<str>>> {
    let refuse = |problem: String| Refusal::field(Reason::LabelInvalid, "labels", problem);
    if given.len() > limits::LABELS_MAX {
        let (max, actual) = (limits::LABELS_MAX, given.len());
        return Err(refuse(format!("at most {max} labels, not {actual}")));
    }
    for (name, value) in &given {
        let named = !name.is_empty() && name.chars().all(is_name_character);
        if !named || name.len() > limits::LABEL_NAME_MAX_BYTES {
            let max = limits::LABEL_NAME_MAX_BYTES;
            return Err(refuse(format!("a name has 1 to {max} bytes of [A-Za-z0-9._:/-]")));
        }
        if value.len() > limits::LABEL_VALUE_MAX_BYTES {
            let max = limits::LABEL_VALUE_MAX_BYTES;
            return Err(refuse(format!("the value of {name:?} is over {max} bytes")));
        }
    }
    Ok(given.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
}

fn fingerprints(given: Vec<v1::Fingerprint>) -> Parsed<Fingerprints> {
    let refuse = |error| Refusal::field(Reason::FingerprintInvalid, "fingerprints", error);
    // The number first: a long list is not worth reading.
    if given.len() > limits::FINGERPRINTS_MAX {
        let count = semel_domain::fingerprint::FingerprintError::Count(given.len());
        return Err(refuse(count));
    }
    let all = given
        .into_iter()
        .map(|one| Fingerprint::new(&one.algorithm, one.digest))
        .collect::<Result<Vec<_>, _>>()
        .map_err(refuse)?;
    Fingerprints::new(all).map_err(refuse)
}

fn owner(bytes: &[u8]) -> Parsed<OwnerId> {
    <[u8; 16]>::try_from(bytes).map(OwnerId).map_err(|_| {
        let problem = format!("must be 16 random bytes, but has {}", bytes.len());
        Refusal::field(Reason::OwnerIdInvalid, "owner_id", problem)
    })
}

fn fence(fence: u64) -> Parsed<u64> {
    if fence == 0 {
        let problem = "give the fence of the claim; it is never 0";
        return Err(Refusal::field(Reason::FenceInvalid, "fence", problem));
    }
    Ok(fence)
}

fn lease(given: Option<WireDuration>) -> Parsed<Duration> {
    let Some(given) = given else { return Ok(limits::LEASE_DEFAULT) };
    let lease = positive("lease", given)?;
    Ok(lease.clamp(limits::LEASE_MIN, limits::LEASE_MAX))
}

fn retention(given: Option<WireDuration>) -> Parsed<Option<Duration>> {
    let Some(given) = given else { return Ok(None) };
    let retention = positive("retention", given)?;
    if retention > limits::RETENTION_MAX {
        return Err(Refusal::field(Reason::DurationInvalid, "retention", "must be at most 30 d"));
    }
    Ok(Some(retention))
}

fn first_sent(given: Option<WireTimestamp>, options: &KeyOptions) -> Parsed<Option<Timestamp>> {
    let refuse = |problem| Refusal::field(Reason::FirstSentInvalid, "first_sent", problem);
    let Some(given) = given else {
        return if options.require_first_sent {
            Err(refuse("this node's policy requires it: when was the intent made?"))
        } else {
            Ok(None)
        };
    };
    let seconds = u64::try_from(given.seconds).ok();
    let nanos = u32::try_from(given.nanos).ok().filter(|&nanos| nanos < 1_000_000_000);
    let micros = seconds.zip(nanos).and_then(|(seconds, nanos)| {
        seconds.checked_mul(1_000_000)?.checked_add(u64::from(nanos / 1_000))
    });
    micros
        .map(|micros| Some(Timestamp::from_micros(micros)))
        .ok_or_else(|| refuse("is no instant since 1970"))
}

fn on_owner_lost(value: i32) -> Parsed<OnOwnerLost> {
    Ok(match choice("on_owner_lost", value)? {
        v1::OnOwnerLost::Unspecified => OnOwnerLost::default(),
        v1::OnOwnerLost::TakeOver => OnOwnerLost::TakeOver,
        v1::OnOwnerLost::Reconcile => OnOwnerLost::Reconcile,
        v1::OnOwnerLost::Block => OnOwnerLost::Block,
    })
}

fn checkpoint(bytes: Bytes) -> Parsed<Bytes> {
    if bytes.len() > limits::CHECKPOINT_MAX_BYTES {
        let problem = format!("must be at most 64 KiB, but has {} bytes", bytes.len());
        return Err(Refusal::field(Reason::CheckpointInvalid, "checkpoint", problem));
    }
    Ok(bytes)
}

fn response(given: Option<v1::Response>, options: &KeyOptions) -> Parsed<Option<Response>> {
    let Some(given) = given else { return Ok(None) };
    let refuse =
        |field: &str, problem: &str| Refusal::field(Reason::ResponseInvalid, field, problem);
    if given.content_type.len() > limits::CONTENT_TYPE_MAX_BYTES {
        return Err(refuse("response.content_type", "must be at most 255 bytes"));
    }
    let total: usize =
        given.metadata.iter().map(|entry| entry.name.len() + entry.value.len()).sum();
    let too_long = given.metadata.iter().any(|entry| {
        entry.name.is_empty()
            || entry.name.len() > limits::METADATA_NAME_MAX_BYTES
            || entry.value.len() > limits::METADATA_VALUE_MAX_BYTES
    });
    if given.metadata.len() > limits::METADATA_MAX || total > limits::METADATA_MAX_BYTES || too_long
    {
        let problem = "at most 64 entries and 16 KiB, names of 1 to 255 bytes, values up to 8 KiB";
        return Err(refuse("response.metadata", problem));
    }
    let body = match given.content {
        Some(v1::response::Content::Omitted(omitted)) => Body {
            length: omitted.length,
            sha256: omitted.sha256.as_ref().try_into().map_err(|_| {
                refuse("response.omitted.sha256", "must be the 32 bytes of a SHA-256")
            })?,
            content: Content::OmittedByCaller,
        },
        Some(v1::response::Content::Body(bytes)) => body::store(bytes, options.body_limit_bytes),
        None => body::store(Bytes::new(), options.body_limit_bytes),
    };
    let metadata = given.metadata.into_iter().map(|entry| (entry.name.into(), entry.value.into()));
    Ok(Some(Response {
        status: given.status,
        content_type: given.content_type.into(),
        metadata: metadata.collect(),
        body,
    }))
}
