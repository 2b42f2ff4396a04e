//! The rules of one budget, as an operator sets them.

use std::sync::Arc;
use std::time::Duration;

use crate::retry::{BackoffStrategy, FailureKind};
use crate::time::{Timestamp, micros};

/// One token, in milli-tokens.
pub const TOKEN_MILLI: u64 = 1_000;

/// The rules of one budget, complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Thousandths of a retry per first attempt: 0 to 1,000.
    pub ratio_per_mille: u32,
    /// Retries per second of the whole fleet, whatever its traffic.
    pub floor_per_second: u32,
    /// How long a first attempt pays for retries.
    pub window: Duration,
    /// How much longer what was not spent stays good; what was spent counts as much longer.
    pub carry_over: Duration,
    /// What a retry costs after each kind of failure, in milli-tokens.
    pub costs: Costs,
    /// Attempts per call, the first included.
    pub attempts_max: u32,
    /// Retries in the call tree of a root request.
    pub retries_per_root: u32,
    /// The one layer that retries; `None`: any.
    pub retry_layer: Option<Arc<str>>,
    /// How delays grow.
    pub backoff: Backoff,
    /// What is deposited.
    pub deposit_on: DepositOn,
    /// What a node does while the store is away.
    pub fail_mode: FailMode,
    /// The part kept for high criticality, in thousandths: 0 to 1,000.
    pub reserve_per_mille: u32,
    /// Whether it denies.
    pub enforcement: Enforcement,
    /// How long tokens that were handed to a node or a client are good for.
    pub lease: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            ratio_per_mille: 100,
            floor_per_second: 10,
            window: Duration::from_secs(10),
            carry_over: Duration::ZERO,
            costs: Costs::default(),
            attempts_max: 3,
            retries_per_root: 4,
            retry_layer: None,
            backoff: Backoff::default(),
            deposit_on: DepositOn::Request,
            fail_mode: FailMode::LocalBounded,
            reserve_per_mille: 0,
            enforcement: Enforcement::Enforce,
            lease: Duration::from_secs(1),
        }
    }
}

impl Policy {
    /// How long deposits and spendings count: B of the published bound.
    #[must_use]
    pub const fn span(&self) -> Duration {
        self.window.saturating_add(self.carry_over)
    }

    /// The floor's part of as long as spendings count, in milli-tokens.
    #[must_use]
    pub fn floor_milli(&self) -> u64 {
        u64::from(self.floor_per_second).saturating_mul(micros(self.span())) / 1_000
    }

    /// What so many first attempts deposit, in milli-tokens.
    #[must_use]
    pub fn deposit_milli(&self, requests: u64, successes: u64) -> u64 {
        let counted = match self.deposit_on {
            DepositOn::Request => requests,
            DepositOn::Success => successes.min(requests),
        };
        counted.saturating_mul(u64::from(self.ratio_per_mille))
    }
}

/// What a retry costs, in milli-tokens, by what failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// After a request that never left.
    pub not_sent: u32,
    /// After being turned away.
    pub throttled: u32,
    /// After an unknown outcome; of a hedge, too.
    pub unknown_outcome: u32,
    /// After a server's error.
    pub server_error: u32,
    /// While another attempt is at work.
    pub in_progress: u32,
}

impl Default for Costs {
    fn default() -> Self {
        let one = 1_000;
        Self {
            not_sent: one,
            throttled: one,
            unknown_outcome: one,
            server_error: one,
            in_progress: one,
        }
    }
}

impl Costs {
    /// The cost after a failure of this kind; those that no retry mends cost what a token costs.
    #[must_use]
    pub fn of(&self, kind: FailureKind) -> u64 {
        u64::from(match kind {
            FailureKind::NotSent => self.not_sent,
            FailureKind::Throttled => self.throttled,
            FailureKind::UnknownOutcome => self.unknown_outcome,
            FailureKind::ServerError => self.server_error,
            FailureKind::InProgress => self.in_progress,
            FailureKind::Rejected | FailureKind::Cancelled => 1_000,
        })
    }

    /// The highest of them.
    #[must_use]
    pub fn highest(&self) -> u64 {
        let costs = [
            self.not_sent,
            self.throttled,
            self.unknown_outcome,
            self.server_error,
            self.in_progress,
        ];
        u64::from(costs.into_iter().max().unwrap_or_default())
    }
}

/// How delays grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// In which manner.
    pub strategy: BackoffStrategy,
    /// The first step.
    pub base: Duration,
    /// The first step after being throttled.
    pub base_throttled: Duration,
    /// The longest step.
    pub cap: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            strategy: BackoffStrategy::FullJitter,
            base: Duration::from_millis(50),
            base_throttled: Duration::from_secs(1),
            cap: Duration::from_secs(20),
        }
    }
}

/// When first attempts are deposited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DepositOn {
    /// Each counts.
    Request,
    /// Those that succeeded count.
    Success,
}

/// What a node does about retries while the store is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailMode {
    /// Grants what its own callers deposited.
    LocalBounded,
    /// Denies all.
    Deny,
    /// Grants all; the bound does not hold then.
    Allow,
}

/// Whether a policy denies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// It does.
    Enforce,
    /// It grants all, and says what it would have denied.
    Observe,
}

/// A policy that was set: the policy itself, and who set it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetPolicy {
    /// The policy.
    pub policy: Policy,
    /// Counts the policies of this budget, from 1.
    pub version: u64,
    /// Who set it.
    pub actor: Arc<str>,
    /// When.
    pub set_at: Timestamp,
}
