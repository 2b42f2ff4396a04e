//! How long to wait before a retry. Pure.

use std::time::Duration;

use semel_proto::v1::BackoffStrategy;

use crate::dice::between;
use crate::failure::{Failure, FailureKind};
use crate::rules::Rules;

/// How long to wait after `failure` of the `attempt`th attempt (from 1). `roll` is uniform.
///
/// A delay that the dependency asked for is the least, and the jitter comes on top: its callers would
/// otherwise all come back at once.
pub(super) fn delay(rules: &Rules, failure: &Failure, attempt: u32, roll: u64) -> Duration {
    let base = match failure.kind {
        FailureKind::Throttled => rules.base_throttled,
        _ => rules.base,
    };
    let grown =
        |factor: u32, times| base.saturating_mul(factor.saturating_pow(times)).min(rules.cap);
    let step = grown(2, attempt.saturating_sub(1));
    let jittered = match rules.backoff {
        BackoffStrategy::FullJitter | BackoffStrategy::Unspecified => {
            between(Duration::ZERO, step, roll)
        }
        BackoffStrategy::EqualJitter => between(step / 2, step, roll),
        BackoffStrategy::DecorrelatedJitter => between(base, grown(3, attempt.max(1)), roll),
        BackoffStrategy::None => Duration::ZERO,
    };
    failure.server_delay.unwrap_or_default().saturating_add(jittered)
}

#[cfg(test)]
mod tests {
    use semel_proto::v1::RetryPolicy;

    use super::*;

    const LEAST: u64 = 0;
    const MOST: u64 = u64::MAX;

    fn rules(backoff: BackoffStrategy) -> Rules {
        Rules::of(&RetryPolicy { backoff: backoff.into(), ..RetryPolicy::default() })
    }

    #[test]
    fn steps_double_up_to_the_cap_and_the_jitter_takes_all_of_them() {
        let rules = rules(BackoffStrategy::FullJitter);
        let failure = Failure::of(FailureKind::UnknownOutcome);
        let most = |attempt| delay(&rules, &failure, attempt, MOST).as_millis();
        assert_eq!([1, 2, 3, 9, 10, 90].map(most), [50, 100, 200, 12_800, 20_000, 20_000]);
        assert_eq!(delay(&rules, &failure, 5, LEAST), Duration::ZERO);
    }

    #[test]
    fn what_the_dependency_asks_for_is_the_least_and_the_jitter_comes_on_top() {
        let rules = rules(BackoffStrategy::FullJitter);
        let asked = Duration::from_secs(7);
        let failure = Failure::of(FailureKind::Throttled).with_delay(Some(asked));
        assert_eq!(delay(&rules, &failure, 1, LEAST), asked);
        assert_eq!(delay(&rules, &failure, 1, MOST), asked + Duration::from_secs(1));
    }

    #[test]
    fn other_strategies_keep_to_their_bounds() {
        let failure = Failure::of(FailureKind::NotSent);
        let bounds = |backoff, attempt| {
            [LEAST, MOST].map(|roll| delay(&rules(backoff), &failure, attempt, roll).as_millis())
        };
        assert_eq!(bounds(BackoffStrategy::EqualJitter, 2), [50, 100]);
        assert_eq!(bounds(BackoffStrategy::DecorrelatedJitter, 2), [50, 450]);
        assert_eq!(bounds(BackoffStrategy::None, 2), [0, 0]);
    }
}
