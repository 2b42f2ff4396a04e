//! What can be asked of a budget's record.

use std::sync::Arc;

use super::ledger::Amount;
use super::policy::Policy;
use super::record::Incarnation;

/// One command on one budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A node and the store settle their accounts.
    Sync(Sync),
    /// An operator replaces the policy.
    SetPolicy(ReplacePolicy),
    /// Reads the record.
    Get,
    /// Removes a record that says nothing any more.
    Expire,
}

/// A node's accounts since its last sync. Sent again with the same number until its result is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sync {
    /// The node.
    pub node: Incarnation,
    /// Counts its syncs of this budget, from 1.
    pub seq: u64,
    /// Deposits that it hands over, by slots of the store's time: no longer its own since it sent this.
    pub deposits: Vec<Amount>,
    /// What became of slices that it holds.
    pub settled: Vec<Settled>,
    /// What it would like to have, in milli-tokens.
    pub want_milli: u64,
    /// What of that is for calls of high criticality: the reserve is open to it.
    pub high_milli: u64,
    /// The share that a recovering breaker admits, in thousandths.
    pub admitted_per_mille: u32,
}

/// What became of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The sync that it had been granted to.
    pub slice: u64,
    /// What was spent of it.
    pub spent: Vec<Spent>,
    /// What comes back unspent, in milli-tokens.
    pub returned_milli: u64,
}

/// An amount that a node spent of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spent {
    /// When it is used, in microseconds after the sync was first sent; negative: before. The store adds
    /// it to its own time, which is later than the sending: so it counts no shorter than it should.
    pub offset_us: i64,
    /// How much, in milli-tokens.
    pub milli: u64,
}

/// Replaces the policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplacePolicy {
    /// The new one.
    pub policy: Policy,
    /// The version to be replaced; `None`: whatever is there.
    pub expected_version: Option<u64>,
    /// Who replaces it.
    pub actor: Arc<str>,
}
