//! The policy of a retry budget, as far as a caller keeps it itself. Complete: what the node did not say
//! has its default.

use std::time::Duration;

use semel_proto::v1::{BackoffStrategy, DepositOn, FailMode, RetryPolicy};

use crate::failure::FailureKind;
use crate::wire::{duration, millis};

/// What a retry costs unless the policy says otherwise, in milli-tokens.
const COST_MILLI: u32 = 1_000;

/// The rules of one budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) ratio_per_mille: u32,
    pub(crate) window_ms: u64,
    pub(crate) lease_ms: u64,
    pub(crate) attempts_max: u32,
    pub(crate) retries_per_root: u32,
    /// Empty: any.
    pub(crate) retry_layer: String,
    pub(crate) backoff: BackoffStrategy,
    pub(crate) base: Duration,
    pub(crate) base_throttled: Duration,
    pub(crate) cap: Duration,
    pub(crate) deposit_on: DepositOn,
    pub(crate) fail_mode: FailMode,
    /// Kinds whose retries cost something else than a token: the node has to be asked.
    uncommon: Vec<i32>,
}

impl Default for Rules {
    fn default() -> Self {
        Self::of(&RetryPolicy::default())
    }
}

impl Rules {
    pub(crate) fn of(policy: &RetryPolicy) -> Self {
        let or = |given: &Option<prost_types::Duration>, default| {
            given.as_ref().map_or(default, duration).max(Duration::from_millis(1))
        };
        let uncommon = policy.costs.iter().filter(|cost| cost.cost_milli != COST_MILLI);
        Self {
            ratio_per_mille: policy.ratio_per_mille.unwrap_or(100),
            window_ms: millis(or(&policy.window, Duration::from_secs(10))),
            lease_ms: millis(or(&policy.lease, Duration::from_secs(1))),
            attempts_max: if policy.attempts_max == 0 { 3 } else { policy.attempts_max },
            retries_per_root: policy.retries_per_root.unwrap_or(4),
            retry_layer: policy.retry_layer.clone(),
            backoff: policy.backoff(),
            base: or(&policy.backoff_base, Duration::from_millis(50)),
            base_throttled: or(&policy.backoff_base_throttled, Duration::from_secs(1)),
            cap: or(&policy.backoff_cap, Duration::from_secs(20)),
            deposit_on: policy.deposit_on(),
            fail_mode: policy.fail_mode(),
            uncommon: uncommon.map(|cost| cost.kind).collect(),
        }
    }

    /// Whether a retry after this kind of failure costs one token.
    pub(crate) fn costs_a_token(&self, kind: FailureKind) -> bool {
        !self.uncommon.contains(&kind.to_wire().into())
    }
}

#[cfg(test)]
mod tests {
    use semel_proto::v1::FailureCost;

    use super::*;

    #[test]
    fn what_a_policy_leaves_open_has_its_default() {
        let rules = Rules::default();
        assert_eq!((rules.ratio_per_mille, rules.window_ms, rules.lease_ms), (100, 10_000, 1_000));
        assert_eq!((rules.attempts_max, rules.retries_per_root), (3, 4));
        assert_eq!((rules.base, rules.cap), (Duration::from_millis(50), Duration::from_secs(20)));
        assert_eq!(rules.base_throttled, Duration::from_secs(1));
        assert!(FailureKind::ALL.iter().all(|kind| rules.costs_a_token(*kind)));
    }

    #[test]
    fn a_zero_that_means_zero_stays_and_other_costs_are_told_apart() {
        let cost =
            |kind: FailureKind, cost_milli| FailureCost { kind: kind.to_wire().into(), cost_milli };
        let rules = Rules::of(&RetryPolicy {
            ratio_per_mille: Some(0),
            retries_per_root: Some(0),
            costs: vec![cost(FailureKind::Throttled, 5_000), cost(FailureKind::NotSent, 1_000)],
            ..RetryPolicy::default()
        });
        assert_eq!((rules.ratio_per_mille, rules.retries_per_root), (0, 0));
        assert!(!rules.costs_a_token(FailureKind::Throttled));
        assert!(rules.costs_a_token(FailureKind::NotSent));
    }
}
