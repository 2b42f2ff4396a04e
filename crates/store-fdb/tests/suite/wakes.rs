//! Wake-ups across nodes.

use std::sync::Arc;

use semel_store::{Clock, Store, SystemClock};

use crate::bench::{Bench, Test};
use crate::steps::{Step, one, woken};
use crate::tests;

pub(crate) fn tests() -> Vec<Test> {
    tests![
        a_change_wakes_those_who_watch_on_other_nodes,
        a_watch_wakes_again_and_again,
        what_the_cluster_does_not_watch_is_polled,
        a_change_before_the_watch_was_armed_is_found,
    ]
}

async fn a_change_wakes_those_who_watch_on_other_nodes(bench: Arc<Bench>) {
    let name = bench.name();
    let writer = bench.open(bench.options(&name)).await;
    let mut watching = bench.options(&name);
    // Nothing is found by polling.
    watching.poll_ms = 60_000;
    let watching = bench.open(watching).await;
    one(&writer, "changed", Step::Add).await;
    one(&writer, "deleted", Step::Add).await;
    let keys = ["changed", "deleted", "inserted"];
    let mut watches = keys.map(|key| watching.watch(key.as_bytes()));
    for key in keys {
        one(&watching, key, Step::Read).await;
    }
    let began_us = SystemClock.monotonic_us();
    one(&writer, "changed", Step::Add).await;
    one(&writer, "deleted", Step::Delete).await;
    one(&writer, "inserted", Step::Add).await;
    for watch in &mut watches {
        woken(watch).await;
    }
    println!("three changes and wake-ups took {} µs", SystemClock.monotonic_us() - began_us);
}

async fn a_watch_wakes_again_and_again(bench: Arc<Bench>) {
    let name = bench.name();
    let writer = bench.open(bench.options(&name)).await;
    let mut watching = bench.options(&name);
    watching.poll_ms = 60_000;
    let watching = bench.open(watching).await;
    let mut watch = watching.watch(b"key");
    let mut took_us = Vec::new();
    for _ in 0..20 {
        one(&watching, "key", Step::Read).await;
        let began_us = SystemClock.monotonic_us();
        one(&writer, "key", Step::Add).await;
        woken(&mut watch).await;
        took_us.push(SystemClock.monotonic_us() - began_us);
    }
    took_us.sort_unstable();
    println!("a change with its wake-up took {} µs (median of 20)", took_us[10]);
}

async fn what_the_cluster_does_not_watch_is_polled(bench: Arc<Bench>) {
    let name = bench.name();
    let writer = bench.open(bench.options(&name)).await;
    let mut watching = bench.options(&name);
    (watching.poll_ms, watching.watches) = (100, 1);
    let watching = bench.open(watching).await;
    let keys = ["a", "b", "c"];
    let mut watches = keys.map(|key| watching.watch(key.as_bytes()));
    for key in keys {
        one(&watching, key, Step::Read).await;
        one(&writer, key, Step::Add).await;
    }
    for watch in &mut watches {
        woken(watch).await;
    }
}

/// Nobody reads the record, so nobody but the poll can tell.
async fn a_change_before_the_watch_was_armed_is_found(bench: Arc<Bench>) {
    let nodes = bench.nodes(2).await;
    let mut watch = nodes[0].watch(b"key");
    one(&nodes[1], "key", Step::Add).await;
    woken(&mut watch).await;
}
