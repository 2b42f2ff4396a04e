//! How long to wait before a retry. Randomness is handed in.

use std::time::Duration;

use super::failure::FailureKind;
use super::verdict::Failure;
use crate::budget::Backoff;

/// How delays grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackoffStrategy {
    /// Anything from nothing to the step.
    FullJitter,
    /// Half the step, and anything up to the other half.
    EqualJitter,
    /// Anything from the base to three times the delay before, as far as the attempt's number tells it.
    DecorrelatedJitter,
    /// No delay but what the dependency asks for.
    None,
}

/// How long to wait after `failure` of the `attempt`th attempt (from 1). `roll` is uniform.
///
/// A delay that the dependency asked for is the least, and the jitter comes on top: its callers would
/// otherwise all come back at once.
#[must_use]
pub fn delay(backoff: &Backoff, failure: &Failure, attempt: u32, roll: u64) -> Duration {
    let base = match failure.kind {
        FailureKind::Throttled => backoff.base_throttled,
        _ => backoff.base,
    };
    let doubled = 2_u32.saturating_pow(attempt.saturating_sub(1));
    let step = base.saturating_mul(doubled).min(backoff.cap);
    let jittered = match backoff.strategy {
        BackoffStrategy::FullJitter => between(Duration::ZERO, step, roll),
        BackoffStrategy::EqualJitter => between(step / 2, step, roll),
        BackoffStrategy::DecorrelatedJitter => {
            // Cut before it is rolled: afterwards, late attempts would all wait just as long as the cap.
            let tripled = base.saturating_mul(3_u32.saturating_pow(attempt.max(1)));
            between(base, tripled.min(backoff.cap), roll)
        }
        BackoffStrategy::None => Duration::ZERO,
    };
    failure.server_delay.unwrap_or_default().saturating_add(jittered)
}

/// A duration in [`least`, `most`], by `roll`.
fn between(least: Duration, most: Duration, roll: u64) -> Duration {
    let span = most.saturating_sub(least).as_nanos();
    let part = span.saturating_mul(u128::from(roll)) / u128::from(u64::MAX);
    least.saturating_add(Duration::from_nanos(u64::try_from(part).unwrap_or(u64::MAX)))
}
