//! How long to wait: the range of every strategy, its growth and its end.

use std::time::Duration;

use proptest::prelude::*;
use semel_domain::budget::Backoff;
use semel_domain::retry::{BackoffStrategy, Failure, FailureKind, delay};

use BackoffStrategy::{DecorrelatedJitter, EqualJitter, FullJitter};

const MS: Duration = Duration::from_millis(1);
const MIDDLE: u64 = u64::MAX / 2;
const NO_BACKOFF: BackoffStrategy = BackoffStrategy::None;

const fn backoff(strategy: BackoffStrategy) -> Backoff {
    Backoff {
        strategy,
        base: Duration::from_millis(50),
        base_throttled: Duration::from_secs(1),
        cap: Duration::from_secs(20),
    }
}

const fn failure(kind: FailureKind, server_delay: Option<Duration>) -> Failure {
    Failure { kind, server_delay }
}

/// The delay in whole microseconds: the middle of a range is not a round number of nanoseconds.
fn waits(strategy: BackoffStrategy, kind: FailureKind, attempt: u32, roll: u64) -> Duration {
    let delay = delay(&backoff(strategy), &failure(kind, None), attempt, roll);
    Duration::from_nanos(u64::try_from(delay.as_nanos().next_multiple_of(1_000)).unwrap_or(0))
}

/// The least, the middle and the most of each attempt, in milliseconds.
#[rustfmt::skip]
#[test]
fn each_strategy_keeps_to_its_range_and_grows_to_the_cap() {
    let table = [
        (FullJitter,         FailureKind::ServerError, [(1, (0, 25, 50)), (2, (0, 50, 100)), (3, (0, 100, 200)), (9, (0, 6_400, 12_800)), (10, (0, 10_000, 20_000))]),
        (FullJitter,         FailureKind::Throttled,   [(1, (0, 500, 1_000)), (2, (0, 1_000, 2_000)), (5, (0, 8_000, 16_000)), (6, (0, 10_000, 20_000)), (7, (0, 10_000, 20_000))]),
        (EqualJitter,        FailureKind::NotSent,     [(1, (25, 37, 50)), (2, (50, 75, 100)), (3, (100, 150, 200)), (9, (6_400, 9_600, 12_800)), (10, (10_000, 15_000, 20_000))]),
        (EqualJitter,        FailureKind::Throttled,   [(1, (500, 750, 1_000)), (2, (1_000, 1_500, 2_000)), (5, (8_000, 12_000, 16_000)), (6, (10_000, 15_000, 20_000)), (7, (10_000, 15_000, 20_000))]),
        (DecorrelatedJitter, FailureKind::ServerError, [(1, (50, 100, 150)), (2, (50, 250, 450)), (3, (50, 700, 1_350)), (5, (50, 6_100, 12_150)), (6, (50, 10_025, 20_000))]),
        (DecorrelatedJitter, FailureKind::Throttled,   [(1, (1_000, 2_000, 3_000)), (2, (1_000, 5_000, 9_000)), (3, (1_000, 10_500, 20_000)), (4, (1_000, 10_500, 20_000)), (9, (1_000, 10_500, 20_000))]),
        (NO_BACKOFF,         FailureKind::ServerError, [(1, (0, 0, 0)), (2, (0, 0, 0)), (3, (0, 0, 0)), (9, (0, 0, 0)), (10, (0, 0, 0))]),
        (NO_BACKOFF,         FailureKind::Throttled,   [(1, (0, 0, 0)), (2, (0, 0, 0)), (3, (0, 0, 0)), (9, (0, 0, 0)), (10, (0, 0, 0))]),
    ];
    for (strategy, kind, attempts) in table {
        for (attempt, (least, middle, most)) in attempts {
            let actual = [0, MIDDLE, u64::MAX].map(|roll| waits(strategy, kind, attempt, roll).as_millis());
            assert_eq!(actual, [least, middle, most], "{strategy:?} after {kind:?}, attempt {attempt}");
        }
    }
}

#[test]
fn at_the_last_attempt_there_is_nothing_overflows_and_the_cap_holds() {
    for strategy in [FullJitter, EqualJitter, DecorrelatedJitter] {
        for kind in FailureKind::ALL {
            assert_eq!(waits(strategy, kind, u32::MAX, u64::MAX), Duration::from_secs(20));
            // A count of none is no attempt to subtract from.
            assert_eq!(waits(strategy, kind, 0, u64::MAX), waits(strategy, kind, 1, u64::MAX));
        }
    }
    let endless = Backoff { base: Duration::MAX, cap: Duration::MAX, ..backoff(FullJitter) };
    let waits = delay(&endless, &failure(FailureKind::NotSent, Some(Duration::MAX)), 9, u64::MAX);
    assert_eq!(waits, Duration::MAX);
}

/// Otherwise those who were turned away together come back together.
#[test]
fn no_attempt_is_so_late_that_its_callers_all_come_back_at_once() {
    for strategy in [FullJitter, EqualJitter, DecorrelatedJitter] {
        for attempt in [1, 2, 5, 20, 100, u32::MAX] {
            let waits = (0..=8)
                .map(|part| waits(strategy, FailureKind::Throttled, attempt, u64::MAX / 8 * part));
            let waits: Vec<_> = waits.collect();
            assert!(waits.is_sorted_by(|a, b| a < b), "{strategy:?}, attempt {attempt}: {waits:?}");
        }
    }
}

#[test]
fn what_the_dependency_asked_for_is_the_least_and_the_jitter_comes_on_top() {
    let asked = failure(FailureKind::Throttled, Some(3_000 * MS));
    for (strategy, least, most) in [
        (FullJitter, 3_000, 4_000),
        (EqualJitter, 3_500, 4_000),
        (DecorrelatedJitter, 4_000, 6_000),
        (NO_BACKOFF, 3_000, 3_000),
    ] {
        let actual = [0, u64::MAX].map(|roll| delay(&backoff(strategy), &asked, 1, roll));
        assert_eq!(actual.map(|delay| delay.as_millis()), [least, most], "{strategy:?}");
    }
    // It may ask for longer than the cap: the cap is of the step.
    let long = failure(FailureKind::Throttled, Some(Duration::from_secs(3_600)));
    let most = delay(&backoff(FullJitter), &long, u32::MAX, u64::MAX);
    assert_eq!(most, Duration::from_secs(3_620));
}

proptest! {
    #[test]
    fn a_delay_is_within_what_was_asked_for_and_the_cap_and_grows_with_the_roll(
        strategy in prop::sample::select(vec![FullJitter, EqualJitter, DecorrelatedJitter, NO_BACKOFF]),
        kind in prop::sample::select(FailureKind::ALL.to_vec()),
        base_ms in 1..3_600_000_u32, throttled_ms in 1..3_600_000_u32, more_ms in 0..3_600_000_u32,
        server_ms in prop::option::of(0..3_600_000_u32),
        attempt: u32, roll: u64, other: u64,
    ) {
        let (base, base_throttled) = (base_ms * MS, throttled_ms * MS);
        let cap = base.max(base_throttled) + more_ms * MS;
        let backoff = Backoff { strategy, base, base_throttled, cap };
        let failure = failure(kind, server_ms.map(|ms| ms * MS));
        let least = failure.server_delay.unwrap_or_default();
        let waits = |roll| delay(&backoff, &failure, attempt, roll);
        prop_assert!(waits(roll) >= least && waits(roll) <= least + cap);
        prop_assert_eq!(waits(roll.min(other)).min(waits(roll.max(other))), waits(roll.min(other)));
        prop_assert_eq!(waits(roll), waits(roll));
    }
}
