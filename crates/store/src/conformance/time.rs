//! The time that transitions see.

use super::step::Step;
use super::world::{START_US, World};
use super::{Check, End, Harness};

pub(super) fn checks<H: Harness>() -> Vec<Check<H>> {
    checks![
        time_is_in_microseconds_since_the_epoch,
        time_follows_the_clock_and_never_goes_back,
        time_never_goes_back_across_a_reopening,
    ]
}

const HOUR_US: u64 = 3_600_000_000;

async fn time_is_in_microseconds_since_the_epoch<H: Harness>(world: World<H>) {
    const CENTURY_US: u64 = 100 * 365 * 24 * HOUR_US;
    let now_us = world.step(b"key", Step::Read).await.now_us;
    assert!((START_US..START_US + CENTURY_US).contains(&now_us), "{now_us} is no such time");
}

async fn time_follows_the_clock_and_never_goes_back<H: Harness>(world: World<H>) {
    let mut latest_us = START_US;
    for minutes in [1, 5, 2, 60, 0, 59, 61] {
        world.clock.set_us(START_US + minutes * HOUR_US / 60);
        // Whether the record is read or written, and whichever it is.
        for (key, step) in [(b"a", Step::Read), (b"b", Step::put("value")), (b"c", Step::Read)] {
            let now_us = world.step(key, step).await.now_us;
            assert!(now_us >= latest_us, "time went back by {} µs", latest_us - now_us);
            assert!(now_us >= START_US + minutes * HOUR_US / 60, "time fell behind the clock");
            latest_us = now_us;
        }
    }
}

/// Deleted records leave no trace of their times, so the store itself must remember.
async fn time_never_goes_back_across_a_reopening<H: Harness>(world: World<H>) {
    for end in [End::Closed, End::Crashed] {
        let world = world.another().await;
        world.clock.advance_us(HOUR_US);
        world.step(b"key", Step::put("value")).await;
        let before_us = world.step(b"key", Step::delete()).await.now_us;
        world.clock.set_us(START_US);
        let Some(world) = world.reopen(end).await else { continue };
        let now_us = world.step(b"key", Step::Read).await.now_us;
        assert!(now_us >= before_us, "{end:?}: time went back by {} µs", before_us - now_us);
    }
}
