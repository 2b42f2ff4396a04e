//! What comes into a node's share of a budget, and what is taken out of it.

use std::time::Duration;

use super::ledger::Amount;
use crate::time::Timestamp;

/// What a caller hands over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deposit {
    /// What its first attempts deposit, in milli-tokens.
    pub milli: u64,
    /// What it spent of that itself, in milli-tokens.
    pub spent_milli: u64,
    /// When it came.
    pub at: Timestamp,
}

/// What is to be paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    /// How much, in milli-tokens.
    pub milli: u64,
    /// The reserve is open to it.
    pub high: bool,
    /// When it will be used, after now.
    pub delay: Duration,
    /// The share that a recovering breaker admits, in thousandths.
    pub admitted_per_mille: u32,
}

/// Where an amount was taken from: what it takes to give it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The slice; `None`: the deposits of this node's callers.
    pub slice: Option<u64>,
    /// When it counts as spent, and how much it was.
    pub amount: Amount,
}
