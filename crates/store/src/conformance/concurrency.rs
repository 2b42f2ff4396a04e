//! Updates at the same time: no change is lost, and none is made by halves.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use tokio::task::JoinSet;

use super::step::{Step, number};
use super::world::{World, run, synced};
use super::{Check, Harness};
use crate::contract::Store;

pub(super) fn checks<H: Harness>() -> Vec<Check<H>> {
    checks![
        concurrent_increments_lose_nothing,
        concurrent_batches_lose_nothing,
        an_abandoned_batch_is_committed_whole_or_not_at_all,
    ]
}

async fn concurrent_increments_lose_nothing<H: Harness>(world: World<H>) {
    const TASKS: u64 = 64;
    const TIMES: u64 = 25;
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let store = Arc::clone(&world.store);
        tasks.spawn(async move {
            let mut found = Vec::new();
            for _ in 0..TIMES {
                let seen = run(&*store, vec![(b"key".to_vec(), Step::Add(1))]).await;
                found.push(number(seen[0].old.as_deref()));
            }
            found
        });
    }
    let mut found: Vec<u64> = tasks.join_all().await.concat();
    found.sort_unstable();
    let expected: Vec<u64> = (0..TASKS * TIMES).collect();
    assert_eq!(found, expected, "each increment saw the count that it added to");
    assert_eq!(number(world.read(b"key").await.as_deref()), TASKS * TIMES);
}

/// Batches that touch the same keys in different orders: an engine that locks keys as they come
/// would wait for itself.
async fn concurrent_batches_lose_nothing<H: Harness>(world: World<H>) {
    const TASKS: usize = 16;
    const TIMES: u64 = 10;
    let keys: Vec<Vec<u8>> = (b'a'..=b'h').map(|key| vec![key]).collect();
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let store = Arc::clone(&world.store);
        let mut keys = keys.clone();
        keys.rotate_left(task % 8);
        if task % 2 == 1 {
            keys.reverse();
        }
        tasks.spawn(async move {
            for _ in 0..TIMES {
                let twice = keys.iter().chain(&keys);
                run(&*store, twice.map(|key| (key.clone(), Step::Add(1))).collect()).await;
            }
        });
    }
    tasks.join_all().await;
    for key in keys {
        assert_eq!(number(world.read(&key).await.as_deref()), 2 * 16 * TIMES, "key {key:?}");
    }
}

async fn an_abandoned_batch_is_committed_whole_or_not_at_all<H: Harness>(world: World<H>) {
    const ROUNDS: u64 = 60;
    let keys: Vec<Vec<u8>> = (0..32).map(|key| vec![key]).collect();
    let all = |step: Step| keys.iter().map(|key| (key.clone(), step.clone())).collect::<Vec<_>>();
    for round in 0..ROUNDS {
        poll_and_drop(world.store.update(synced(all(Step::Add(1)))), 1 + round % 3).await;
        // An engine may still be at it when the next update is answered, so look until all keys
        // agree, though not for ever.
        world.steps(all(Step::Add(1))).await;
        let mut looks = 0;
        loop {
            let seen = world.steps(all(Step::Read)).await;
            let counts: Vec<u64> = seen.iter().map(|it| number(it.old.as_deref())).collect();
            if counts.iter().all(|count| *count == counts[0]) {
                break;
            }
            looks += 1;
            assert!(looks < 1_000, "a part of an abandoned batch was committed: {counts:?}");
        }
    }
    let count = number(world.read(&keys[0]).await.as_deref());
    assert!((ROUNDS..=2 * ROUNDS).contains(&count), "{count} after {ROUNDS} rounds of 1 or 2");
}

/// Polls a future up to `times` times, with others having a turn in between, and drops it.
async fn poll_and_drop(future: impl Future, times: u64) {
    let mut future = pin!(future);
    for _ in 0..times {
        // Nobody needs to be told when it can go on.
        if future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            return;
        }
        tokio::task::yield_now().await;
    }
}
