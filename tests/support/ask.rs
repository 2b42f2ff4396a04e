//! Requests and replies with the tedious parts filled in.

use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use semel_proto::v1::claim_key_response::Disposition;
use semel_proto::v1::reconcile_key_request::Resolution;
use semel_proto::v1::response::Content;
use semel_proto::v1::{
    ClaimKeyRequest, ClaimKeyResponse, CompleteKeyRequest, Fingerprint, ForgetKeyRequest,
    OnOwnerLost, Outcome, ReconcileKeyRequest, ReleaseKeyRequest, RenewKeyRequest,
    ReplayKeyRequest, Response,
};
use sha2::{Digest, Sha256};
use tonic::{Code, Status};
use tonic_types::StatusExt;

pub(crate) const TENANT: &str = "acme";
pub(crate) const OPERATION: &str = "payments.charge";

/// Who asks.
pub(crate) type Owner = [u8; 16];

/// An owner told from others by a number.
pub(crate) fn owner(number: u128) -> Owner {
    number.to_be_bytes()
}

/// What a key stands for in these tests: a digest of the key itself.
pub(crate) fn fingerprint(key: &str) -> Fingerprint {
    let digest = Bytes::copy_from_slice(&Sha256::digest(key));
    Fingerprint { algorithm: "sha256/v1".to_owned(), digest }
}

/// A claim that waits for nobody, with the default lease and policy.
pub(crate) fn claim(key: &str, owner: Owner) -> ClaimKeyRequest {
    ClaimKeyRequest {
        tenant: TENANT.to_owned(),
        operation: OPERATION.to_owned(),
        key: key.to_owned(),
        fingerprints: vec![fingerprint(key)],
        owner_id: Bytes::copy_from_slice(&owner),
        ..ClaimKeyRequest::default()
    }
}

/// A claim that whoever comes next simply takes over when its lease has run out.
pub(crate) fn brief_claim(key: &str, owner: Owner, lease: Duration) -> ClaimKeyRequest {
    ClaimKeyRequest {
        lease: Some(lease.try_into().unwrap()),
        on_owner_lost: OnOwnerLost::TakeOver.into(),
        ..claim(key, owner)
    }
}

/// A completion with this body.
pub(crate) fn complete(key: &str, owner: Owner, fence: u64, body: &[u8]) -> CompleteKeyRequest {
    CompleteKeyRequest {
        tenant: TENANT.to_owned(),
        operation: OPERATION.to_owned(),
        key: key.to_owned(),
        fence,
        owner_id: Bytes::copy_from_slice(&owner),
        outcome: Outcome::Succeeded.into(),
        response: Some(response(body)),
    }
}

fn response(body: &[u8]) -> Response {
    Response {
        status: 201,
        content_type: "text/plain".to_owned(),
        content: Some(Content::Body(Bytes::copy_from_slice(body))),
        ..Response::default()
    }
}

/// The owner says that it does not know whether the work was done.
pub(crate) fn doubt(key: &str, owner: Owner, fence: u64) -> CompleteKeyRequest {
    let outcome = Outcome::Indeterminate.into();
    CompleteKeyRequest { outcome, response: None, ..complete(key, owner, fence, b"") }
}

/// An operator says that the work was done, with this answer, or that it was not.
pub(crate) fn settle(key: &str, fence: u64, found: Option<&[u8]>) -> ReconcileKeyRequest {
    let resolution = if found.is_some() { Resolution::Succeeded } else { Resolution::NotDone };
    ReconcileKeyRequest {
        tenant: TENANT.to_owned(),
        operation: OPERATION.to_owned(),
        key: key.to_owned(),
        fence,
        resolution: resolution.into(),
        response: found.map(response),
        actor: "operator".to_owned(),
        reason: "a test".to_owned(),
    }
}

/// An operator erases what a key was answered.
pub(crate) fn forget(key: &str) -> ForgetKeyRequest {
    ForgetKeyRequest {
        tenant: TENANT.to_owned(),
        operation: OPERATION.to_owned(),
        key: key.to_owned(),
        actor: "operator".to_owned(),
        reason: "a test".to_owned(),
    }
}

pub(crate) fn replay(key: &str) -> ReplayKeyRequest {
    ReplayKeyRequest {
        tenant: TENANT.to_owned(),
        operation: OPERATION.to_owned(),
        key: key.to_owned(),
        fingerprints: vec![fingerprint(key)],
        wait: None,
    }
}

pub(crate) fn renew(key: &str, owner: Owner, fence: u64, renewal: u64) -> RenewKeyRequest {
    RenewKeyRequest {
        tenant: TENANT.to_owned(),
        operation: OPERATION.to_owned(),
        key: key.to_owned(),
        fence,
        owner_id: Bytes::copy_from_slice(&owner),
        renewal,
        ..RenewKeyRequest::default()
    }
}

pub(crate) fn release(key: &str, owner: Owner, fence: u64) -> ReleaseKeyRequest {
    ReleaseKeyRequest {
        tenant: TENANT.to_owned(),
        operation: OPERATION.to_owned(),
        key: key.to_owned(),
        fence,
        owner_id: Bytes::copy_from_slice(&owner),
    }
}

/// The body of a stored response.
pub(crate) fn body(response: &Response) -> &[u8] {
    match &response.content {
        Some(Content::Body(body)) => body,
        other => panic!("no body but {other:?}"),
    }
}

/// The body of the answer that a claim was replayed.
pub(crate) fn replayed_body(reply: &ClaimKeyResponse) -> &[u8] {
    assert_eq!(reply.disposition(), Disposition::Replay, "{reply:?}");
    body(reply.completion.as_ref().unwrap().response.as_ref().unwrap())
}

/// The error of a batch's item as that of a call.
pub(crate) fn item_status(error: &tonic_types::Status) -> Status {
    let details = Bytes::from(error.encode_to_vec());
    Status::with_details(Code::from_i32(error.code), &error.message, details)
}

/// The stable reason of an error; empty if there is none.
pub(crate) fn reason(status: &Status) -> String {
    status.get_details_error_info().map(|info| info.reason).unwrap_or_default()
}

/// When the error says to ask again.
pub(crate) fn retry_after(status: &Status) -> Option<Duration> {
    status.get_details_retry_info().and_then(|info| info.retry_delay)
}
