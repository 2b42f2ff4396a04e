//! Nodes whose clocks are not the same.

use std::sync::Arc;

use semel_store::{Clock, SystemClock};

use crate::bench::{Bench, Test};
use crate::steps::{Step, one, time_of};
use crate::tests;

const MINUTE_US: i64 = 60_000_000;

pub(crate) fn tests() -> Vec<Test> {
    tests![
        a_node_whose_clock_is_off_tells_the_time_of_the_others,
        of_two_nodes_the_earlier_clock_counts,
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

async fn a_node_whose_clock_is_off_tells_the_time_of_the_others(bench: Arc<Bench>) {
    for off in [10 * MINUTE_US, -10 * MINUTE_US] {
        let name = bench.name();
        let good = [bench.open(bench.options(&name)).await, bench.open(bench.options(&name)).await];
        // Each has told the others what its clock says.
        let told = std::time::Duration::from_millis(1_500);
        tokio::time::sleep(told).await;
        let bad = bench.open(bench.options(&name).with_clock(Off(off))).await;
        for node in good.iter().chain([&bad]) {
            one(node, "key", Step::Add).await;
            assert_eq!(ahead_s(time_of(node).await), 0, "with one clock off by {off} µs");
        }
    }
}

async fn of_two_nodes_the_earlier_clock_counts(bench: Arc<Bench>) {
    let name = bench.name();
    let good = bench.open(bench.options(&name)).await;
    tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
    let bad = bench.open(bench.options(&name).with_clock(Off(10 * MINUTE_US))).await;
    for node in [&good, &bad] {
        assert_eq!(ahead_s(time_of(node).await), 0);
    }
}
