//! Requests in a few words: `claim("k").owner(1).payload("x")`.

use bytes::Bytes;
use prost_types::Duration as WireDuration;
use semel_proto::v1;
use sha2::{Digest, Sha256};

pub(crate) use v1::claim_key_response::Disposition;
pub(crate) use v1::response::Content;

/// A claim of a key by owner 1, for the payload "x".
pub(crate) fn claim(key: &str) -> v1::ClaimKeyRequest {
    let request = v1::ClaimKeyRequest {
        tenant: "acme".to_owned(),
        operation: "payments.charge".to_owned(),
        key: key.to_owned(),
        ..Default::default()
    };
    request.owner(1).payload("x")
}

/// The words of a claim.
pub(crate) trait Claim: Sized {
    fn owner(self, number: u32) -> Self;
    fn payload(self, payload: &str) -> Self;
    /// Other fingerprints: names of algorithms, and a byte that makes up the digest.
    fn fingerprints(self, all: &[(&str, u8)]) -> Self;
    fn lease_ms(self, lease_ms: u64) -> Self;
    fn wait_ms(self, wait_ms: u64) -> Self;
    fn retention_s(self, retention_s: u64) -> Self;
    fn first_sent_us(self, at_us: u64) -> Self;
    fn on_owner_lost(self, policy: v1::OnOwnerLost) -> Self;
    fn label(self, name: &str, value: &str) -> Self;
}

impl Claim for v1::ClaimKeyRequest {
    fn owner(mut self, number: u32) -> Self {
        self.owner_id = owner_id(number);
        self
    }

    fn payload(mut self, payload: &str) -> Self {
        let digest = Bytes::copy_from_slice(&Sha256::digest(payload));
        self.fingerprints = vec![v1::Fingerprint { algorithm: "sha256/v1".to_owned(), digest }];
        self
    }

    fn fingerprints(mut self, all: &[(&str, u8)]) -> Self {
        let fingerprint = |&(algorithm, byte): &(&str, u8)| v1::Fingerprint {
            algorithm: algorithm.to_owned(),
            digest: Bytes::from(vec![byte; 32]),
        };
        self.fingerprints = all.iter().map(fingerprint).collect();
        self
    }

    fn lease_ms(mut self, lease_ms: u64) -> Self {
        self.lease = Some(milliseconds(lease_ms));
        self
    }

    fn wait_ms(mut self, wait_ms: u64) -> Self {
        self.wait = Some(milliseconds(wait_ms));
        self
    }

    fn retention_s(mut self, retention_s: u64) -> Self {
        self.retention = Some(milliseconds(retention_s * 1_000));
        self
    }

    fn first_sent_us(mut self, at_us: u64) -> Self {
        self.first_sent = Some(wire_time(at_us));
        self
    }

    fn on_owner_lost(mut self, policy: v1::OnOwnerLost) -> Self {
        self.on_owner_lost = policy.into();
        self
    }

    fn label(mut self, name: &str, value: &str) -> Self {
        self.labels.insert(name.to_owned(), value.to_owned());
        self
    }
}

/// The completion of a claim that was granted with `fence`.
pub(crate) fn complete(
    claim: &v1::ClaimKeyRequest,
    fence: u64,
    outcome: v1::Outcome,
) -> v1::CompleteKeyRequest {
    v1::CompleteKeyRequest {
        tenant: claim.tenant.clone(),
        operation: claim.operation.clone(),
        key: claim.key.clone(),
        fence,
        owner_id: claim.owner_id.clone(),
        outcome: outcome.into(),
        response: None,
    }
}

/// A successful completion with this body.
pub(crate) fn succeed(
    claim: &v1::ClaimKeyRequest,
    fence: u64,
    body: impl Into<Bytes>,
) -> v1::CompleteKeyRequest {
    let response = Some(response(body));
    v1::CompleteKeyRequest { response, ..complete(claim, fence, v1::Outcome::Succeeded) }
}

/// A response with nothing but a body.
pub(crate) fn response(body: impl Into<Bytes>) -> v1::Response {
    v1::Response {
        status: 200,
        content_type: "text/plain".to_owned(),
        metadata: Vec::new(),
        content: Some(Content::Body(body.into())),
    }
}

/// The body that a completion carries; `None`: it carries none.
pub(crate) fn body_of(completion: Option<&v1::Completion>) -> Option<&Bytes> {
    match completion?.response.as_ref()?.content.as_ref()? {
        Content::Body(body) => Some(body),
        Content::Omitted(_) => None,
    }
}

/// The n-th renewal of a claim that was granted with `fence`.
pub(crate) fn renew(claim: &v1::ClaimKeyRequest, fence: u64, renewal: u64) -> v1::RenewKeyRequest {
    v1::RenewKeyRequest {
        tenant: claim.tenant.clone(),
        operation: claim.operation.clone(),
        key: claim.key.clone(),
        fence,
        owner_id: claim.owner_id.clone(),
        renewal,
        lease: None,
        checkpoint: None,
    }
}

/// The release of a claim that was granted with `fence`.
pub(crate) fn release(claim: &v1::ClaimKeyRequest, fence: u64) -> v1::ReleaseKeyRequest {
    v1::ReleaseKeyRequest {
        tenant: claim.tenant.clone(),
        operation: claim.operation.clone(),
        key: claim.key.clone(),
        fence,
        owner_id: claim.owner_id.clone(),
    }
}

/// A replay by who knows what the claim's key stands for.
pub(crate) fn replay(claim: &v1::ClaimKeyRequest) -> v1::ReplayKeyRequest {
    v1::ReplayKeyRequest {
        tenant: claim.tenant.clone(),
        operation: claim.operation.clone(),
        key: claim.key.clone(),
        fingerprints: claim.fingerprints.clone(),
        wait: None,
    }
}

/// An operator's look at a claim's key.
pub(crate) fn get(claim: &v1::ClaimKeyRequest) -> v1::GetKeyRequest {
    v1::GetKeyRequest {
        tenant: claim.tenant.clone(),
        operation: claim.operation.clone(),
        key: claim.key.clone(),
        include_body: false,
    }
}

/// An operator's listing of the tenant of [`claim`].
pub(crate) fn list() -> v1::ListKeysRequest {
    v1::ListKeysRequest { tenant: "acme".to_owned(), ..Default::default() }
}

/// An operator's listing of what is stuck.
pub(crate) fn list_stuck() -> v1::ListStuckKeysRequest {
    v1::ListStuckKeysRequest { tenant: "acme".to_owned(), ..Default::default() }
}

/// An operator's settlement of a claim's key.
pub(crate) fn reconcile(
    claim: &v1::ClaimKeyRequest,
    fence: u64,
    resolution: v1::reconcile_key_request::Resolution,
) -> v1::ReconcileKeyRequest {
    v1::ReconcileKeyRequest {
        tenant: claim.tenant.clone(),
        operation: claim.operation.clone(),
        key: claim.key.clone(),
        fence,
        resolution: resolution.into(),
        response: None,
        actor: "olga".to_owned(),
        reason: "looked at the ledger".to_owned(),
    }
}

/// An operator's erasure of a claim's key.
pub(crate) fn forget(claim: &v1::ClaimKeyRequest) -> v1::ForgetKeyRequest {
    v1::ForgetKeyRequest {
        tenant: claim.tenant.clone(),
        operation: claim.operation.clone(),
        key: claim.key.clone(),
        actor: "olga".to_owned(),
        reason: "asked for by the customer".to_owned(),
    }
}

/// The id of an execution.
pub(crate) fn owner_id(number: u32) -> Bytes {
    Bytes::from([number.to_be_bytes(); 4].concat())
}

pub(crate) fn milliseconds(count: u64) -> WireDuration {
    WireDuration {
        seconds: i64::try_from(count / 1_000).expect("in range"),
        nanos: i32::try_from(count % 1_000 * 1_000_000).expect("in range"),
    }
}

pub(crate) fn wire_time(at_us: u64) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: i64::try_from(at_us / 1_000_000).expect("in range"),
        nanos: i32::try_from(at_us % 1_000_000 * 1_000).expect("in range"),
    }
}
