//! What a command on a budget can come to, in the order in which it is decided.

use super::record::{Granted, Record};
use crate::time::Timestamp;

/// What a command came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Of a sync.
    Sync(SyncOutcome),
    /// Of replacing the policy.
    SetPolicy(SetPolicyOutcome),
    /// The record, with all that has left its window taken out; absent: a fresh one.
    Get(Box<Record>),
    /// Whether the record was removed.
    Expire {
        /// It was.
        removed: bool,
    },
}

/// What a sync came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyncOutcome {
    /// A newer sync of this node was carried out before: this one is void.
    Stale,
    /// Carried out, now or before.
    Done(Done),
}

/// A sync that was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The slice that it was granted.
    pub granted: Option<Granted>,
    /// With less granted than was wanted: when something spent leaves the window, at the earliest.
    pub more_at: Option<Timestamp>,
    /// Another node wants something, and there is nothing to lease: what this node can spare is needed.
    pub others_want: bool,
    /// It had been carried out before.
    pub repeated: bool,
}

/// What replacing the policy came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetPolicyOutcome {
    /// Just this policy was in force already.
    Unchanged {
        /// Its version.
        version: u64,
    },
    /// Another version than the expected one is in force: nothing was written.
    Conflict {
        /// The one in force.
        current: u64,
    },
    /// Replaced.
    Replaced {
        /// The new version.
        version: u64,
    },
}
