//! What can be answered. The variants of each enum stand in the order in which they are tried: the
//! first that fits is the answer.

use std::time::Duration;

use bytes::Bytes;

use super::record::{Answer, Attempt, Record, Stage};
use crate::time::Timestamp;

/// The answer to a [`Command`](super::Command) of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// To a claim.
    Claim(ClaimOutcome),
    /// To a completion.
    Complete(CompleteOutcome),
    /// To a renewal.
    Renew(RenewOutcome),
    /// To a release.
    Release(ReleaseOutcome),
    /// To a replay.
    Replay(ReplayOutcome),
    /// To a look: the record, if there is one.
    Get(Option<Box<Record>>),
    /// To a reconciliation.
    Reconcile(ReconcileOutcome),
    /// To an erasure.
    Forget(ForgetOutcome),
    /// To the sweeper.
    Expire {
        /// Whether the record was removed.
        removed: bool,
    },
}

/// The answer to a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// The key stands for something else. Outranks every state.
    PayloadMismatch,
    /// No algorithm in common: nobody can tell whether it stands for the same. Never a run.
    FingerprintIncomparable,
    /// The answer was erased, or the intent is older than the memory of its operation.
    Expired,
    /// Done: here is the answer.
    Replay(Box<Answer>),
    /// Perhaps done, and the policy is to wait until it is settled.
    Indeterminate,
    /// The claim is the caller's.
    Granted(Box<Grant>),
    /// Somebody else holds a live claim.
    InProgress(InProgress),
    /// This owner gave the claim back before: a late copy of its request.
    Released,
    /// The intent was made further in the future than clocks may differ.
    FirstSentInvalid,
}

/// A granted claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Under which circumstances.
    pub kind: GrantKind,
    /// Whether the same owner held it already.
    pub resumed: bool,
    /// The fence.
    pub fence: u64,
    /// The lease granted, from now.
    pub lease: Duration,
    /// When it lapses.
    pub expires_at: Timestamp,
    /// How many claims were granted, this one included.
    pub attempt: u32,
    /// The last recovery point of the earlier owners.
    pub checkpoint: Option<Bytes>,
    /// The attempts that ended, oldest first.
    pub history: Vec<Attempt>,
}

/// The circumstances of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantKind {
    /// Nobody may have done the work.
    Claimed,
    /// The last owner was lost; the policy is to begin again.
    TakenOver,
    /// The work may have been done: look first.
    ReconcileRequired,
}

/// Somebody else's live claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InProgress {
    /// What is left of its lease; more than zero.
    pub lease_left: Duration,
    /// How long it has been held.
    pub held_for: Duration,
}

/// The answer to a completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompleteOutcome {
    /// There is no such key.
    Unknown,
    /// The answer was erased.
    Expired,
    /// Another fence or owner holds the key, or the claim was given back.
    Fenced {
        /// The newest fence.
        current: u64,
    },
    /// The key was completed with another answer, and the first stands.
    Conflict,
    /// Accepted.
    Accepted {
        /// It had been accepted before.
        already: bool,
        /// Where the key stands now.
        stage: Stage,
        /// When the record will be removed, if its retention runs.
        expires_at: Option<Timestamp>,
    },
}

/// The answer to a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenewOutcome {
    /// There is no such key.
    Unknown,
    /// Another fence or owner holds the key, or nobody does.
    Fenced {
        /// The newest fence.
        current: u64,
    },
    /// Accepted.
    Renewed {
        /// A newer renewal came before, and nothing changed.
        stale: bool,
        /// When the claim lapses now.
        expires_at: Timestamp,
    },
}

/// The answer to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// There is no such key.
    Unknown,
    /// Another fence or owner holds the key, or nobody does.
    Fenced {
        /// The newest fence.
        current: u64,
    },
    /// Accepted.
    Released {
        /// It had been accepted before.
        already: bool,
    },
}

/// The answer to a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayOutcome {
    /// There is no such key, or it stands for something else: a guess learns nothing.
    Unknown,
    /// The answer was erased.
    Expired,
    /// Done: here is the answer.
    Replay(Box<Answer>),
    /// Somebody holds a live claim.
    InProgress(InProgress),
    /// There is no answer, and nobody is at work on one.
    Unanswered(Stage),
}

/// The answer to a reconciliation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconcileOutcome {
    /// There is no such key.
    Unknown,
    /// The answer was erased.
    Expired,
    /// The key has moved on since the operator looked.
    Fenced {
        /// The newest fence.
        current: u64,
    },
    /// The key was completed with another answer, and the first stands.
    Conflict,
    /// Its owner is at work: nothing to settle yet.
    ClaimLive {
        /// What is left of its lease.
        lease_left: Duration,
    },
    /// Settled.
    Settled {
        /// It had been settled just so before.
        already: bool,
        /// Where the key stands now.
        stage: Stage,
    },
}

/// The answer to an erasure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForgetOutcome {
    /// There is no such key.
    Unknown,
    /// The key is not completed: erasing it would mean running again.
    NotCompleted(Stage),
    /// Erased.
    Forgotten {
        /// It had been erased before.
        already: bool,
        /// When the tombstone will be removed.
        expires_at: Timestamp,
    },
}
