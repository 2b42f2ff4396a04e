//! Wake-ups: none is missed, and a change of one record is none of another's.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use tokio::task::JoinSet;

use super::step::{Step, number};
use super::world::{World, run};
use super::{Check, Harness};
use crate::contract::{Change, IndexChange, Store, ValueChange};
use crate::watch::Watch;

pub(super) fn checks<H: Harness>() -> Vec<Check<H>> {
    checks![
        a_watch_wakes_after_every_kind_of_change,
        every_watch_of_a_record_wakes,
        a_change_can_be_read_once_its_watch_woke,
        a_change_before_the_watch_does_not_wake_it,
        changes_of_other_records_and_reads_wake_nobody,
        who_watches_first_and_reads_second_misses_nothing,
    ]
}

/// Whether the watch has a wake left. Uses it up.
fn has_woken(watch: &mut Watch) -> bool {
    let changed = pin!(watch.changed());
    changed.poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

async fn a_watch_wakes_after_every_kind_of_change<H: Harness>(world: World<H>) {
    let mut watch = world.store.watch(b"key");
    world.step(b"key", Step::put("first")).await;
    watch.changed().await;
    world.step(b"key", Step::put("second")).await;
    watch.changed().await;
    world.relaxed(b"key", Step::put("relaxed")).await;
    watch.changed().await;
    world.step(b"key", Step::delete()).await;
    watch.changed().await;
    world.steps(vec![(b"other".to_vec(), Step::Read), (b"key".to_vec(), Step::put("batch"))]).await;
    watch.changed().await;
}

async fn every_watch_of_a_record_wakes<H: Harness>(world: World<H>) {
    let mut watches: Vec<Watch> = (0..10).map(|_| world.store.watch(b"key")).collect();
    drop(watches.pop());
    world.step(b"key", Step::put("value")).await;
    for watch in &mut watches {
        watch.changed().await;
    }
}

async fn a_change_can_be_read_once_its_watch_woke<H: Harness>(world: World<H>) {
    for round in 0..100 {
        let mut watch = world.store.watch(b"key");
        let store = Arc::clone(&world.store);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { run(&*store, vec![(b"key".to_vec(), Step::Add(1))]).await });
        watch.changed().await;
        assert_eq!(number(world.read(b"key").await.as_deref()), round + 1);
        tasks.join_all().await;
    }
}

async fn a_change_before_the_watch_does_not_wake_it<H: Harness>(world: World<H>) {
    world.step(b"key", Step::put("before")).await;
    // Once this one woke, the wakes of the change above are over and done with too.
    let mut marker = world.store.watch(b"marker");
    world.step(b"marker", Step::put("value")).await;
    marker.changed().await;
    let mut watch = world.store.watch(b"key");
    assert!(!has_woken(&mut watch), "a watch woke that nothing happened to");
    world.step(b"key", Step::put("after")).await;
    watch.changed().await;
}

async fn changes_of_other_records_and_reads_wake_nobody<H: Harness>(world: World<H>) {
    let mut watches: Vec<Watch> =
        [b"key".as_slice(), b"absent", b"k", b"key\0"].map(|key| world.store.watch(key)).into();
    let mut other = world.store.watch(b"other");
    world.steps(vec![(b"key".to_vec(), Step::Read), (b"absent".to_vec(), Step::Read)]).await;
    let entry = IndexChange::Put { key: "key".into(), value: "an entry, no record".into() };
    let change = Change { value: ValueChange::Put("value".into()), index: vec![entry] };
    world.step(b"other", Step::Make(change)).await;
    // The second event: once it is told, a wrong wake of the first would have been told as well.
    other.changed().await;
    for watch in &mut watches {
        assert!(!has_woken(watch), "{watch:?} woke, and its record did not change");
    }
    world.step(b"key", Step::put("value")).await;
    watches[0].changed().await;
}

async fn who_watches_first_and_reads_second_misses_nothing<H: Harness>(world: World<H>) {
    const CHANGES: u64 = 300;
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let store = Arc::clone(&world.store);
        tasks.spawn(async move {
            loop {
                let mut watch = store.watch(b"key");
                let seen = run(&*store, vec![(b"key".to_vec(), Step::Read)]).await;
                if number(seen[0].old.as_deref()) == CHANGES {
                    break;
                }
                watch.changed().await;
            }
        });
    }
    for _ in 0..CHANGES {
        world.step(b"key", Step::Add(1)).await;
        // An engine that answers at once would leave the others no turn.
        tokio::task::yield_now().await;
    }
    tasks.join_all().await;
}
