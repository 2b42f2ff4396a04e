//! What is stored for a budget: its policy, its window, and what nodes hold of it.

use crate::time::Timestamp;

use super::ledger::Ledger;
use super::policy::{Policy, SetPolicy};

/// One start of a node, or of a client: 16 random bytes, never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub [u8; 16]);

/// A budget, as the store has it. Absent is the same as fresh: nothing spent, the floor full.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The policy, if one was set.
    pub policy: Option<SetPolicy>,
    /// What nodes handed over, and what was spent.
    pub ledger: Ledger,
    /// The nodes that have dealt with it lately.
    pub members: Vec<Member>,
    /// When it last changed.
    pub touched_at: Timestamp,
}

/// A node, as a budget knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The node.
    pub node: Incarnation,
    /// Its newest sync that was carried out.
    pub seq: u64,
    /// What that one was granted, to answer it again.
    pub granted: Option<Granted>,
    /// Whether it wanted something then: it counts when the rest is split.
    pub wants: bool,
    /// What it holds.
    pub slices: Vec<Slice>,
    /// When it last synced.
    pub touched_at: Timestamp,
}

/// What a sync was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// How much, in milli-tokens.
    pub milli: u64,
    /// Whether only calls of high criticality may spend it.
    pub high_only: bool,
    /// When it was given. The node counts its length from before it asked.
    pub granted_at: Timestamp,
    /// When it ends.
    pub expires_at: Timestamp,
}

/// A part of a budget that a node holds, debited before it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The sync that it was granted to.
    pub seq: u64,
    /// What is not yet accounted for, in milli-tokens.
    pub left_milli: u64,
    /// When it ends. What has not come back by then counts as spent.
    pub expires_at: Timestamp,
}

impl Record {
    /// The policy in force.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.policy.as_ref().map(|set| set.policy.clone()).unwrap_or_default()
    }

    /// Its version; 0: the default policy.
    #[must_use]
    pub fn policy_version(&self) -> u64 {
        self.policy.as_ref().map_or(0, |set| set.version)
    }

    /// What nodes hold, in milli-tokens.
    #[must_use]
    pub fn outstanding_milli(&self) -> u64 {
        self.members
            .iter()
            .flat_map(|member| &member.slices)
            .fold(0, |sum, slice| sum.saturating_add(slice.left_milli))
    }

    /// What may be spent in a window, in milli-tokens, while a recovering breaker admits a share.
    #[must_use]
    pub fn limit_milli(&self, policy: &Policy, admitted_per_mille: u32) -> u64 {
        let whole = self.ledger.deposited_milli().saturating_add(policy.floor_milli());
        part(whole, admitted_per_mille)
    }

    /// What could be leased, in milli-tokens.
    #[must_use]
    pub fn available_milli(&self, policy: &Policy, admitted_per_mille: u32) -> u64 {
        self.limit_milli(policy, admitted_per_mille)
            .saturating_sub(self.ledger.spent_milli())
            .saturating_sub(self.outstanding_milli())
    }
}

/// So many thousandths of an amount, rounded down.
#[must_use]
pub fn part(milli: u64, per_mille: u32) -> u64 {
    let part = u128::from(milli) * u128::from(per_mille) / 1_000;
    u64::try_from(part).unwrap_or(u64::MAX)
}
