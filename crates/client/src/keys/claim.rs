//! What a claim brings: the work, or an answer, or word that somebody is at it.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use semel_proto::v1;
use semel_proto::v1::claim_key_response::Disposition as WireDisposition;

use super::name::KeyName;
use super::response::StoredAnswer;
use crate::clock::Stopwatch;
use crate::connection::Error;
use crate::deadline::Deadline;
use crate::wire;

/// The answer to a claim.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[must_use]
pub enum ClaimAnswer {
    /// The work is yours to do: look at the claim's [`disposition`](Claim::disposition) first.
    Yours(Box<Claim>),
    /// Somebody else is at it.
    InProgress {
        /// When to look again, jittered, at most what is left of the lease.
        retry_after: Duration,
    },
    /// It is done, and this is its answer.
    Done(StoredAnswer),
    /// Perhaps it is done, and nobody may try until an operator has settled it.
    Indeterminate,
    /// This owner id gave the claim back: the request was a late copy. Do nothing.
    Released,
}

/// How the work comes to be yours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disposition {
    /// Nobody can have done it.
    Claimed,
    /// An earlier owner was lost, perhaps midway; the work is said to be safe to begin again.
    TakenOver,
    /// An earlier owner may have done it: look first, then act.
    ReconcileRequired,
}

/// The exclusive right to do the work of a key, while its lease runs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Claim {
    /// The key.
    pub name: KeyName,
    /// Greater than every earlier one of this key. Write it along with what the work writes.
    pub fence: u64,
    /// Who holds the claim.
    pub owner_id: [u8; 16],
    /// How the work comes to be yours.
    pub disposition: Disposition,
    /// The lease that was granted.
    pub lease: Duration,
    /// When the lease ends, by the client's monotonic clock, counted from before it asked: never later than
    /// the node has it.
    pub ends: Deadline,
    /// When the lease ends, by the store's clock.
    pub expires_at: SystemTime,
    /// A stable name of this intent for a provider that takes idempotency keys: the same for every attempt.
    pub derived_key: String,
    /// This owner id held it already, and its first reply was lost.
    pub resumed: bool,
    /// The last checkpoint of the earlier owners.
    pub checkpoint: Option<Bytes>,
    /// How many claims were granted on this key, this one included.
    pub attempt: u32,
    /// The earlier attempts, oldest first (the last 8).
    pub history: Vec<Attempt>,
}

/// An earlier execution that held the claim.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// The fence that it held.
    pub fence: u64,
    /// Its owner id.
    pub owner_id: [u8; 16],
    /// When it got the claim, by the store's clock.
    pub claimed_at: SystemTime,
    /// When it ended, by the store's clock.
    pub ended_at: Option<SystemTime>,
    /// How it ended.
    pub end: AttemptEnd,
}

/// How an earlier attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttemptEnd {
    /// It gave the claim back.
    Released,
    /// It reported that the work was not done.
    NotDone,
    /// Its lease ran out.
    Lapsed,
    /// It reported that it does not know.
    Unknown,
    /// An operator settled it as not done.
    Reconciled,
    /// In a way that this version of the client does not know.
    Other,
}

impl ClaimAnswer {
    pub(super) fn from_wire(
        given: v1::ClaimKeyResponse,
        name: KeyName,
        owner_id: [u8; 16],
        since: Stopwatch,
    ) -> Result<Self, Error> {
        let disposition = match given.disposition() {
            WireDisposition::Claimed => Disposition::Claimed,
            WireDisposition::TakenOver => Disposition::TakenOver,
            WireDisposition::ReconcileRequired => Disposition::ReconcileRequired,
            WireDisposition::InProgress => {
                return Ok(Self::InProgress { retry_after: wire::given(given.retry_after) });
            }
            WireDisposition::Replay => {
                return StoredAnswer::from_wire(given.completion).map(Self::Done);
            }
            WireDisposition::Indeterminate => return Ok(Self::Indeterminate),
            WireDisposition::Released => return Ok(Self::Released),
            WireDisposition::Unspecified => {
                return Err(Error::NotUnderstood(format!("disposition {}", given.disposition)));
            }
        };
        let lease = wire::given(given.lease);
        let claim = Claim {
            name,
            fence: given.fence,
            owner_id,
            disposition,
            lease,
            ends: since.end_of(lease),
            expires_at: wire::moment(given.lease_expires_at, "lease_expires_at")?,
            derived_key: given.derived_key,
            resumed: given.resumed,
            checkpoint: Some(given.checkpoint).filter(|checkpoint| !checkpoint.is_empty()),
            attempt: given.attempt,
            history: given.history.iter().map(Attempt::from_wire).collect::<Result<_, _>>()?,
        };
        Ok(Self::Yours(Box::new(claim)))
    }
}

impl Attempt {
    fn from_wire(given: &v1::Attempt) -> Result<Self, Error> {
        use v1::attempt::End;
        let end = match given.end() {
            End::Released => AttemptEnd::Released,
            End::FailedRetryable => AttemptEnd::NotDone,
            End::Lapsed => AttemptEnd::Lapsed,
            End::Indeterminate => AttemptEnd::Unknown,
            End::Reconciled => AttemptEnd::Reconciled,
            End::Unspecified => AttemptEnd::Other,
        };
        Ok(Self {
            fence: given.fence,
            owner_id: wire::array(&given.owner_id, "an earlier owner id")?,
            claimed_at: wire::moment(given.claimed_at, "claimed_at")?,
            ended_at: wire::perhaps(given.ended_at),
            end,
        })
    }
}
