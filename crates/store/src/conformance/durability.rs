//! What was answered is kept, as far as its durability says.

use super::step::{Step, number};
use super::world::World;
use super::{Check, End, Harness};
use crate::contract::{Change, IndexChange, Space, Store, ValueChange};

pub(super) fn checks<H: Harness>() -> Vec<Check<H>> {
    checks![
        a_relaxed_change_is_visible_at_once,
        relaxed_and_synced_changes_of_one_record_are_in_order,
        a_reopened_store_has_every_synced_change,
        a_synced_read_is_as_durable_as_a_synced_change,
        a_reopened_store_has_record_and_index_agree,
        a_reopened_store_can_be_used_as_before,
    ]
}

const ENDS: [End; 2] = [End::Closed, End::Crashed];

async fn a_relaxed_change_is_visible_at_once<H: Harness>(world: World<H>) {
    for round in 0..100 {
        assert_eq!(number(world.relaxed(b"key", Step::Add(1)).await.old.as_deref()), round);
        let rows = world.rows(Space::Records).await;
        assert_eq!(rows.len(), 1, "the record is scanned at once");
        assert_eq!(number(Some(&rows[0].value)), round + 1);
        assert_eq!(number(world.relaxed(b"key", Step::Read).await.old.as_deref()), round + 1);
        assert_eq!(number(world.read(b"key").await.as_deref()), round + 1);
    }
}

async fn relaxed_and_synced_changes_of_one_record_are_in_order<H: Harness>(world: World<H>) {
    for round in 0..100 {
        let relaxed = world.relaxed(b"key", Step::Add(1)).await;
        assert_eq!(number(relaxed.old.as_deref()), 2 * round);
        let synced = world.step(b"key", Step::Add(1)).await;
        assert_eq!(number(synced.old.as_deref()), 2 * round + 1);
    }
}

/// Every kind of change, so that none of them is forgotten or comes back.
async fn a_reopened_store_has_every_synced_change<H: Harness>(world: World<H>) {
    for end in ENDS {
        let world = world.another().await;
        let key = |number: u32| format!("{end:?} {number:04}").into_bytes();
        let put = |number: u32| {
            let entry = IndexChange::Put { key: key(number).into(), value: "entry".into() };
            let value = ValueChange::Put(key(number).into());
            (key(number), Step::Make(Change { value, index: vec![entry] }))
        };
        let delete = |number: u32| {
            let entry = IndexChange::Delete { key: key(number).into() };
            (key(number), Step::Make(Change { value: ValueChange::Delete, index: vec![entry] }))
        };
        world.steps((0..1_000).map(put).collect()).await;
        world.steps((0..1_000).step_by(3).map(delete).collect()).await;
        world.steps((1..1_000).step_by(3).map(|it| (key(it), Step::put("new"))).collect()).await;
        world.step(&key(2), Step::put(vec![b'v'; 1 << 20])).await;
        let spaces = [Space::Records, Space::Index];
        let before = [world.rows(spaces[0]).await, world.rows(spaces[1]).await];
        let Some(world) = world.reopen(end).await else { continue };
        for (space, before) in spaces.into_iter().zip(before) {
            let after = world.rows(space).await;
            assert!(after == before, "{space:?} has {} rows, not {}", after.len(), before.len());
        }
    }
}

async fn a_synced_read_is_as_durable_as_a_synced_change<H: Harness>(world: World<H>) {
    for end in ENDS {
        let world = world.another().await;
        world.relaxed(b"key", Step::Add(1)).await;
        let before = world.read(b"key").await;
        let Some(world) = world.reopen(end).await else { continue };
        assert_eq!(world.read(b"key").await, before, "{end:?}: what a synced read saw is lost");
    }
}

/// Relaxed changes may be lost, though never by halves.
async fn a_reopened_store_has_record_and_index_agree<H: Harness>(world: World<H>) {
    for end in ENDS {
        let world = world.another().await;
        for number in 0..50_u32 {
            let value = number.to_be_bytes().to_vec();
            let entry = IndexChange::Put { key: "entry".into(), value: value.clone().into() };
            let change = Change { value: ValueChange::Put(value.into()), index: vec![entry] };
            world.relaxed(b"key", Step::Make(change)).await;
        }
        let Some(world) = world.reopen(end).await else { continue };
        let record = world.read(b"key").await;
        let entry = world.rows(Space::Index).await.pop().map(|row| row.value);
        assert_eq!(record, entry, "{end:?}: the record and its index entry");
    }
}

async fn a_reopened_store_can_be_used_as_before<H: Harness>(world: World<H>) {
    for end in ENDS {
        let world = world.another().await;
        let old = world.step(b"key", Step::Add(1)).await.old;
        let Some(world) = world.reopen(end).await else { continue };
        let mut watch = world.store.watch(b"key");
        let seen = world.step(b"key", Step::Add(1)).await;
        watch.changed().await;
        assert_eq!(number(seen.old.as_deref()), number(old.as_deref()) + 1);
    }
}
