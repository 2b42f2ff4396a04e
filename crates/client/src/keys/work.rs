//! What the work came to, and what Semel made of it.

use std::time::SystemTime;

use bytes::Bytes;
use semel_proto::v1;

use super::claim::Claim;
use super::response::{Response, StoredAnswer};
use crate::connection::Error;
use crate::wire;

/// What the work of a claim came to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Work {
    /// Done. The response is stored and given out to whoever asks again.
    Succeeded(Response),
    /// Failed, and would fail again. The response is stored and given out to whoever asks again.
    FailedFinal(Response),
    /// Known not done: another attempt may run at once. Never after a timeout, a lost connection or a
    /// crash: those are [`Work::Unknown`].
    NotDone,
    /// Perhaps done. To be settled by whoever may look, as the key's policy has it.
    Unknown,
}

impl Work {
    /// How many bytes of a body it carries.
    pub(crate) fn body_bytes(&self) -> usize {
        match self {
            Self::Succeeded(response) | Self::FailedFinal(response) => {
                response.bytes().map_or(0, Bytes::len)
            }
            Self::NotDone | Self::Unknown => 0,
        }
    }

    pub(crate) fn to_wire(&self, claim: &Claim) -> v1::CompleteKeyRequest {
        let (outcome, response) = match self {
            Self::Succeeded(response) => (v1::Outcome::Succeeded, Some(response)),
            Self::FailedFinal(response) => (v1::Outcome::FailedFinal, Some(response)),
            Self::NotDone => (v1::Outcome::FailedRetryable, None),
            Self::Unknown => (v1::Outcome::Indeterminate, None),
        };
        v1::CompleteKeyRequest {
            tenant: claim.name.tenant().to_string(),
            operation: claim.name.operation().to_string(),
            key: claim.name.key().to_string(),
            fence: claim.fence,
            owner_id: Bytes::copy_from_slice(&claim.owner_id),
            outcome: outcome.into(),
            response: response.map(Response::to_wire),
        }
    }
}

/// An accepted completion.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Completed {
    /// This very completion had been accepted before: its first reply was lost.
    pub already: bool,
    /// When the answer will be removed, by the store's clock; `None` while its retention does not run.
    pub expires_at: Option<SystemTime>,
    /// The body was over the node's limit, and only its digest is stored.
    pub omitted_too_large: bool,
}

impl Completed {
    pub(super) fn from_wire(given: &v1::CompleteKeyResponse) -> Self {
        Self {
            already: given.already_completed,
            expires_at: wire::perhaps(given.expires_at),
            omitted_too_large: given.omitted_too_large,
        }
    }
}

/// An accepted renewal.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Renewed {
    /// When the lease ends now, by the client's monotonic clock, counted from before it asked.
    pub ends: crate::Deadline,
    /// When the lease ends now, by the store's clock.
    pub expires_at: SystemTime,
    /// A newer renewal had arrived before, and this one changed nothing.
    pub stale: bool,
}

/// The answer to a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub enum ReplayAnswer {
    /// It is done, and this is its answer.
    Done(StoredAnswer),
    /// Somebody is at it.
    InProgress {
        /// When to look again, jittered, at most what is left of the lease.
        retry_after: std::time::Duration,
    },
    /// Its owner's lease ran out, and nobody took over yet.
    Lapsed,
    /// It was given back undone.
    Released,
    /// Perhaps it is done.
    Indeterminate,
}

impl ReplayAnswer {
    pub(super) fn from_wire(given: v1::ReplayKeyResponse) -> Result<Self, Error> {
        match given.state() {
            v1::KeyState::Succeeded | v1::KeyState::FailedFinal => {
                StoredAnswer::from_wire(given.completion).map(Self::Done)
            }
            v1::KeyState::Claimed => {
                Ok(Self::InProgress { retry_after: wire::given(given.retry_after) })
            }
            v1::KeyState::Lapsed => Ok(Self::Lapsed),
            v1::KeyState::Released => Ok(Self::Released),
            v1::KeyState::Indeterminate => Ok(Self::Indeterminate),
            v1::KeyState::Unspecified | v1::KeyState::Forgotten => {
                Err(Error::NotUnderstood(format!("a replay of a key in state {}", given.state)))
            }
        }
    }
}
