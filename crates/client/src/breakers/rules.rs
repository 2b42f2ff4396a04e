//! The policy of a breaker, as far as a caller keeps it itself while no node is in reach. Complete: what
//! the node did not say has its default.

use std::time::Duration;

use semel_proto::v1::BreakerPolicy;

use crate::wire::{duration, millis};

/// The shares of calls that are admitted after a recovery, in thousandths, step by step.
const RAMP: [u32; 3] = [50, 250, 500];

/// All calls, in thousandths.
pub(super) const ALL: u32 = 1_000;

/// The rules of one breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    pub(super) failure_per_mille: u32,
    pub(super) window_ms: u64,
    pub(super) calls_min: u64,
    pub(super) cool_down_ms: u64,
    pub(super) cool_down_max_ms: u64,
    pub(super) successes_to_close: u32,
    pub(super) probe_lease_ms: u64,
    pub(super) ramp_step_ms: u64,
    pub(super) slow_call: Option<Duration>,
    pub(super) slow_per_mille: u32,
}

impl Default for Rules {
    fn default() -> Self {
        Self::of(&BreakerPolicy::default())
    }
}

impl Rules {
    pub(super) fn of(policy: &BreakerPolicy) -> Self {
        let or = |given: &Option<prost_types::Duration>, default_ms| {
            given.as_ref().map_or(default_ms, |given| millis(duration(given)))
        };
        let unless_0 = |given: u32, default| if given == 0 { default } else { given };
        Self {
            failure_per_mille: unless_0(policy.failure_per_mille, 500),
            window_ms: or(&policy.window, 30_000).max(1),
            calls_min: unless_0(policy.calls_min, 20).into(),
            cool_down_ms: or(&policy.cool_down, 30_000),
            cool_down_max_ms: or(&policy.cool_down_max, 300_000),
            successes_to_close: unless_0(policy.successes_to_close, 3),
            probe_lease_ms: or(&policy.probe_lease, 10_000),
            ramp_step_ms: or(&policy.ramp_step, 5_000),
            slow_call: policy.slow_call.as_ref().map(duration),
            slow_per_mille: unless_0(policy.slow_per_mille, 1_000),
        }
    }

    /// How long to stay open after so many recoveries failed one after another: doubled with each, 20 %
    /// more or less by `roll`, never over the longest.
    pub(super) fn cool_down_after(&self, level: u32, roll: u64) -> u64 {
        let doubled = self.cool_down_ms.saturating_mul(1 << level.min(30));
        let jittered = doubled.min(self.cool_down_max_ms).saturating_mul(800 + roll % 401) / 1_000;
        jittered.min(self.cool_down_max_ms)
    }

    /// The share of calls that is admitted so long after a recovery, in thousandths.
    pub(super) fn ramp(&self, passed_ms: u64) -> u32 {
        let ends = (1_u64..).map(|step| self.ramp_step_ms.saturating_mul(step));
        let step = RAMP.into_iter().zip(ends).find(|(_, end_ms)| passed_ms < *end_ms);
        step.map_or(ALL, |(share, _)| share)
    }

    /// How long after a recovery this share is reached.
    pub(super) fn ramp_at(&self, share: u32) -> u64 {
        let steps = RAMP.into_iter().filter(|step| *step < share).count();
        self.ramp_step_ms.saturating_mul(u64::try_from(steps).unwrap_or_default())
    }

    /// Whether a breaker that closed so long ago is still on trial: opening again then is a failed
    /// recovery.
    pub(super) fn is_on_trial(&self, passed_ms: u64) -> bool {
        passed_ms < self.ramp_step_ms.saturating_mul(3).saturating_add(self.window_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_policy_leaves_open_has_its_default() {
        let rules = Rules::default();
        assert_eq!((rules.failure_per_mille, rules.window_ms, rules.calls_min), (500, 30_000, 20));
        assert_eq!((rules.cool_down_ms, rules.successes_to_close), (30_000, 3));
    }

    #[test]
    fn cool_downs_double_and_shares_rise() {
        let rules = Rules::default();
        let cool_down = |level| rules.cool_down_after(level, 200);
        assert_eq!([0, 1, 2, 3, 9].map(cool_down), [30_000, 60_000, 120_000, 240_000, 300_000]);
        assert_eq!((rules.cool_down_after(0, 0), rules.cool_down_after(0, 400)), (24_000, 36_000));
        assert_eq!(
            [0, 4_999, 5_000, 10_000, 15_000].map(|at| rules.ramp(at)),
            [50, 50, 250, 500, ALL]
        );
        assert_eq!(
            [50, 250, 500, ALL].map(|share| rules.ramp_at(share)),
            [0, 5_000, 10_000, 15_000]
        );
    }
}
