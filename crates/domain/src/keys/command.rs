//! What can be asked of a key. Values are checked and defaults are filled in before a command is
//! made: a rule sees nothing malformed.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use super::record::{Conclusion, OnOwnerLost, OwnerId};
use crate::fingerprint::Fingerprints;
use crate::response::Response;
use crate::time::Timestamp;

/// A command on one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Asks for the claim.
    Claim(Claim),
    /// Says what the work came to.
    Complete(Complete),
    /// Extends a lease.
    Renew(Renew),
    /// Gives a claim back.
    Release(Release),
    /// Reads the answer.
    Replay(Replay),
    /// Reads the whole record, for operators.
    Get,
    /// Settles a stuck key, for operators.
    Reconcile(Reconcile),
    /// Erases an answer, for operators.
    Forget(Forget),
    /// Removes the record if it has outlived its retention, for the sweeper.
    Expire,
}

/// What an operation's policy says about its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How long answers are kept at the least.
    pub retention: Duration,
    /// How far the clocks of callers and store may be apart.
    pub allowed_skew: Duration,
}

/// Asks for the claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Who asks.
    pub owner: OwnerId,
    /// What the key stands for.
    pub fingerprints: Fingerprints,
    /// For how long, within the limits.
    pub lease: Duration,
    /// The retention that was asked for, if any: counts only where it is longer than the policy's.
    pub retention: Option<Duration>,
    /// The operation's policy.
    pub policy: Policy,
    /// When the intent was made, if the caller said so.
    pub first_sent: Option<Timestamp>,
    /// What to do if this owner is lost.
    pub on_owner_lost: OnOwnerLost,
    /// Names and values to find the key by.
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// False for a waiter that has too little time left to use a claim: it only looks.
    pub may_acquire: bool,
}

/// Says what the work came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complete {
    /// The claim's fence.
    pub fence: u64,
    /// The claim's owner.
    pub owner: OwnerId,
    /// What the work came to.
    pub completed: Completed,
}

/// What work came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completed {
    /// It is over, and this is its answer.
    Concluded {
        /// How it ended.
        conclusion: Conclusion,
        /// What to answer from now on.
        response: Option<Response>,
    },
    /// It was not done, and may be tried again.
    FailedRetryable,
    /// Nobody knows.
    Indeterminate,
}

/// Extends a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renew {
    /// The claim's fence.
    pub fence: u64,
    /// The claim's owner.
    pub owner: OwnerId,
    /// The number of this renewal, counting from 1.
    pub renewal: u64,
    /// For how long from now, within the limits.
    pub lease: Duration,
    /// A new recovery point, if any.
    pub checkpoint: Option<Bytes>,
}

/// Gives a claim back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// The claim's fence.
    pub fence: u64,
    /// The claim's owner.
    pub owner: OwnerId,
}

/// Reads the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// What the key stands for.
    pub fingerprints: Fingerprints,
}

/// How an operator settles a stuck key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// The work is over, and this is its answer.
    Concluded {
        /// How it ended.
        conclusion: Conclusion,
        /// What to answer from now on.
        response: Option<Response>,
    },
    /// The work was not done, and may be tried again.
    NotDone,
}

/// Settles a stuck key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reconcile {
    /// The fence that the operator looked at.
    pub fence: u64,
    /// What was found.
    pub resolution: Resolution,
    /// Who settles it.
    pub actor: Box<str>,
    /// Why.
    pub reason: Box<str>,
}

/// Erases an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forget {
    /// Who erases it.
    pub actor: Box<str>,
    /// Why.
    pub reason: Box<str>,
}
