//! What is asked for: a claim, or a stored answer.

use std::time::{Duration, SystemTime};

use semel_proto::v1;

use super::claiming::{Claiming, claim_options};
use super::name::KeyName;
use crate::fingerprint::Fingerprint;
use crate::wire;

/// What happens to a key whose owner's lease ran out before it completed. Kept from the first claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnOwnerLost {
    /// The next caller gets the claim and simply does the work. For work that is safe to begin again.
    TakeOver,
    /// The next caller gets the claim and has to look first whether the work was done.
    #[default]
    Reconcile,
    /// Nobody gets the claim until an operator settles it.
    Block,
}

impl OnOwnerLost {
    const fn to_wire(self) -> v1::OnOwnerLost {
        match self {
            Self::TakeOver => v1::OnOwnerLost::TakeOver,
            Self::Reconcile => v1::OnOwnerLost::Reconcile,
            Self::Block => v1::OnOwnerLost::Block,
        }
    }
}

/// Asks for the exclusive right to do the work of a key, or for the answer if it is done.
#[derive(Clone, Debug)]
#[must_use]
pub struct ClaimRequest {
    pub(crate) operation: String,
    pub(crate) key: String,
    fingerprints: Vec<Fingerprint>,
    owner_id: Option<[u8; 16]>,
    pub(crate) claiming: Claiming,
}

impl ClaimRequest {
    claim_options!(claiming: lease, retention, wait, first_sent, on_owner_lost, label);

    /// A request for this key (1 to 255 bytes, one per intent) of this operation. It needs a
    /// [`fingerprint`](Self::fingerprint).
    pub fn new(operation: &str, key: &str) -> Self {
        Self {
            operation: operation.to_owned(),
            key: key.to_owned(),
            fingerprints: Vec::new(),
            owner_id: None,
            claiming: Claiming::default(),
        }
    }

    /// What the key stands for. Up to four, each by another algorithm: send the earlier one along while
    /// you change to a new one.
    pub fn fingerprint(mut self, fingerprint: Fingerprint) -> Self {
        self.fingerprints.push(fingerprint);
        self
    }

    /// The owner of the execution: 16 random bytes. Default: drawn for each request. Give the one of an
    /// earlier request only to send that same request again before the work began.
    pub const fn owner_id(mut self, owner_id: [u8; 16]) -> Self {
        self.owner_id = Some(owner_id);
        self
    }

    /// Claims it so.
    pub(crate) fn claiming(mut self, claiming: Claiming) -> Self {
        self.claiming = claiming;
        self
    }

    /// The owner id that was given, or else the one that `draw` makes.
    pub(crate) fn owned_by(&self, draw: impl FnOnce() -> [u8; 16]) -> [u8; 16] {
        self.owner_id.unwrap_or_else(draw)
    }

    /// How long the node is to wait.
    pub(crate) const fn waits(&self) -> Duration {
        self.claiming.wait
    }

    pub(crate) fn name(&self, tenant: &str) -> KeyName {
        KeyName::new(tenant, &self.operation, &self.key)
    }

    /// The request after so much of its wait has passed.
    pub(crate) fn to_wire(
        &self,
        tenant: &str,
        owner_id: [u8; 16],
        waited: Duration,
    ) -> v1::ClaimKeyRequest {
        v1::ClaimKeyRequest {
            tenant: tenant.to_owned(),
            operation: self.operation.clone(),
            key: self.key.clone(),
            fingerprints: self.fingerprints.iter().map(Fingerprint::to_wire).collect(),
            owner_id: owner_id.to_vec().into(),
            lease: self.claiming.lease.map(wire::to_wire),
            retention: self.claiming.retention.map(wire::to_wire),
            wait: rest_of(self.claiming.wait, waited),
            first_sent: self.claiming.first_sent.map(Into::into),
            on_owner_lost: self.claiming.on_owner_lost.to_wire().into(),
            labels: self.claiming.labels.iter().cloned().collect(),
        }
    }
}

/// Asks for a stored answer; never claims.
#[derive(Clone, Debug)]
#[must_use]
pub struct ReplayRequest {
    operation: String,
    key: String,
    fingerprints: Vec<Fingerprint>,
    wait: Duration,
}

impl ReplayRequest {
    /// A request for the answer of this key. It needs a [`fingerprint`](Self::fingerprint): guessing a key
    /// shows nothing.
    pub fn new(operation: &str, key: &str) -> Self {
        Self {
            operation: operation.to_owned(),
            key: key.to_owned(),
            fingerprints: Vec::new(),
            wait: Duration::ZERO,
        }
    }

    /// What the key stands for; as in [`ClaimRequest::fingerprint`].
    pub fn fingerprint(mut self, fingerprint: Fingerprint) -> Self {
        self.fingerprints.push(fingerprint);
        self
    }

    /// How long to wait for the answer: up to 24 h, and to the deadline. Default: not at all.
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    pub(crate) const fn waits(&self) -> Duration {
        self.wait
    }

    pub(crate) fn to_wire(&self, tenant: &str, waited: Duration) -> v1::ReplayKeyRequest {
        v1::ReplayKeyRequest {
            tenant: tenant.to_owned(),
            operation: self.operation.clone(),
            key: self.key.clone(),
            fingerprints: self.fingerprints.iter().map(Fingerprint::to_wire).collect(),
            wait: rest_of(self.wait, waited),
        }
    }
}

fn rest_of(wait: Duration, waited: Duration) -> Option<prost_types::Duration> {
    let rest = wait.saturating_sub(waited);
    (!rest.is_zero()).then(|| wire::to_wire(rest))
}
