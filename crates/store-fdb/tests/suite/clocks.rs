//! Nodes whose clocks are not the same.

use std::sync::Arc;
use std::time::Duration;

use foundationdb::RangeOption;
use foundationdb::tuple::Subspace;
use semel_store::{Clock, SystemClock};

use crate::bench::{Bench, Test};
use crate::steps::{Step, one, time_of};
use crate::tests;

const MINUTE_US: i64 = 60_000_000;

pub(crate) fn tests() -> Vec<Test> {
    tests![
        a_node_whose_clock_is_off_tells_the_time_of_the_others,
        of_two_nodes_the_clock_that_goes_on_counts,
    ]
}

/// A clock that is off.
struct Off(i64);

impl Clock for Off {
    fn now_us(&self) -> u64 {
        SystemClock.now_us().saturating_add_signed(self.0)
    }

    fn monotonic_us(&self) -> u64 {
        SystemClock.monotonic_us()
    }
}

/// How far a time is ahead of the true one, in seconds.
fn ahead_s(time_us: u64) -> i64 {
    let now_us = i64::try_from(SystemClock.now_us()).unwrap();
    (i64::try_from(time_us).unwrap() - now_us) / 1_000_000
}

/// Waits until so many nodes have told the others what their clocks say, which they do by their second
/// stamps.
async fn told(bench: &Bench, name: &str, nodes: usize) {
    const WITH_SAMPLE_BYTES: usize = 33;
    let stamps = Subspace::from_bytes(bench.prefix(name).await).subspace(&4);
    let range = RangeOption::from(stamps.range());
    loop {
        let found = bench.transaction().get_range(&range, 1, true).await.unwrap();
        if found.iter().filter(|it| it.value().len() == WITH_SAMPLE_BYTES).count() >= nodes {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn a_node_whose_clock_is_off_tells_the_time_of_the_others(bench: Arc<Bench>) {
    for off in [10 * MINUTE_US, -10 * MINUTE_US] {
        let name = bench.name();
        let good = [bench.open(bench.options(&name)).await, bench.open(bench.options(&name)).await];
        told(&bench, &name, 2).await;
        let bad = bench.open(bench.options(&name).with_clock(Off(off))).await;
        for node in good.iter().chain([&bad]) {
            one(node, "key", Step::Add).await;
            assert_eq!(ahead_s(time_of(node).await), 0, "with one clock off by {off} µs");
        }
    }
}

async fn of_two_nodes_the_clock_that_goes_on_counts(bench: Arc<Bench>) {
    for off in [10 * MINUTE_US, -10 * MINUTE_US] {
        let name = bench.name();
        let good = bench.open(bench.options(&name)).await;
        one(&good, "key", Step::Add).await;
        told(&bench, &name, 1).await;
        let bad = bench.open(bench.options(&name).with_clock(Off(off))).await;
        for node in [&good, &bad] {
            assert_eq!(ahead_s(time_of(node).await), 0, "with one clock off by {off} µs");
        }
    }
}
