//! Updates at the same time, linearizable per key: each seems to happen at one instant between its
//! call and its answer. It holds under every fault, so this theme may be run with any of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::task::JoinSet;

use super::history::{Call, judge};
use super::step::{Seen, Step, numbers};
use super::world::{START_US, World, synced};
use super::{Check, Harness};
use crate::clock::ManualClock;
use crate::contract::{Store, StoreError};

pub(super) fn checks<H: Harness>() -> Vec<Check<H>> {
    checks![a_concurrent_history_is_linearizable]
}

/// What one caller of a history recorded: the key and the call.
type Recorded = (u8, Call);

async fn a_concurrent_history_is_linearizable<H: Harness>(world: World<H>) {
    let counter = Arc::new(AtomicU64::new(1));
    let mut tasks = JoinSet::new();
    for caller in 0..16 {
        let store = Arc::clone(&world.store);
        let (counter, clock) = (Arc::clone(&counter), world.clock.clone());
        tasks.spawn(async move { record(&*store, caller, &counter, &clock).await });
    }
    let mut histories: HashMap<u8, Vec<Call>> = HashMap::new();
    for (key, call) in tasks.join_all().await.concat() {
        histories.entry(key).or_default().push(call);
    }
    assert_eq!(histories.len(), 3, "the callers used all keys");
    for (key, calls) in histories {
        let left = settle(&*world.store, &[(key, None)]).await.remove(0);
        let left = numbers(left.old.as_deref());
        assert!(left.len() > 100, "the history of a key is long enough to tell something");
        if let Err(wrong) = judge(&calls, &left) {
            panic!("the history of key {key} is not linearizable: {wrong}");
        }
    }
}

/// Appends and reads in batches of one to three items, while the clock goes back and forth.
async fn record(
    store: &impl Store,
    caller: u64,
    counter: &AtomicU64,
    clock: &ManualClock,
) -> Vec<Recorded> {
    let mut recorded = Vec::new();
    for round in 0..60 {
        let id = caller * 1_000 + round * 10;
        clock.set_us(START_US + id % 777);
        let items: Vec<(u8, Option<u64>)> = (0..=id % 3)
            .map(|item| {
                let key = u8::try_from((caller + round * 7 + item * 5) % 3).expect("below 3");
                (key, (!(id + item).is_multiple_of(4)).then_some(id + item))
            })
            .collect();
        let began = counter.fetch_add(1, Ordering::SeqCst);
        let seen = settle(store, &items).await;
        let answered = counter.fetch_add(1, Ordering::SeqCst);
        for ((key, appended), seen) in items.into_iter().zip(seen) {
            let mut saw = numbers(seen.old.as_deref());
            let mut now_us = Some(seen.now_us);
            // An append that ran before, unanswered, sees itself: what that run saw is what counts.
            if let Some(own) = saw.iter().position(|it| Some(*it) == appended) {
                saw.truncate(own);
                now_us = None;
            }
            recorded.push((key, Call { began, answered, appended, saw, now_us }));
        }
        tokio::task::yield_now().await;
    }
    recorded
}

/// Runs each item until it is answered, as a caller does who meets faults.
async fn settle(store: &impl Store, items: &[(u8, Option<u64>)]) -> Vec<Seen> {
    let step = |(key, appended): &(u8, Option<u64>)| {
        (vec![*key], appended.map_or(Step::Read, Step::Append))
    };
    let mut settled = Vec::new();
    for mut answer in store.update(synced(items.iter().map(step).collect())).await {
        let item = step(&items[settled.len()]);
        for _ in 0..100 {
            if !matches!(answer, Err(StoreError::Unknown(_) | StoreError::Unavailable(_))) {
                break;
            }
            answer = store.update(synced(vec![item.clone()])).await.remove(0);
        }
        settled.push(answer.expect("an update that may be repeated succeeds in the end"));
    }
    settled
}
