//! Index entries change in one commit with their record, in the order that the change names.

use bytes::Bytes;

use super::step::Step;
use super::world::{World, row, run};
use super::{Check, Harness};
use crate::contract::{Change, IndexChange, Row, Space, Store, ValueChange};

pub(super) fn checks<H: Harness>() -> Vec<Check<H>> {
    checks![
        entries_are_put_replaced_and_deleted_with_their_record,
        an_entry_may_move_while_its_record_stays,
        the_entries_of_one_change_are_applied_in_order,
        every_entry_of_a_change_is_applied,
        deleting_an_absent_entry_is_no_error,
        entries_and_records_may_have_the_same_keys,
        items_of_one_batch_change_the_index_in_order,
        record_and_entry_agree_under_concurrent_moves,
    ]
}

fn put(key: &str, value: &str) -> IndexChange {
    IndexChange::Put {
        key: Bytes::copy_from_slice(key.as_bytes()),
        value: Bytes::copy_from_slice(value.as_bytes()),
    }
}

fn delete(key: &str) -> IndexChange {
    IndexChange::Delete { key: Bytes::copy_from_slice(key.as_bytes()) }
}

fn make(value: ValueChange, index: Vec<IndexChange>) -> Step {
    Step::Make(Change { value, index })
}

async fn entries_are_put_replaced_and_deleted_with_their_record<H: Harness>(world: World<H>) {
    let value = || ValueChange::Put("record".into());
    world.step(b"key", make(value(), vec![put("entry", "first")])).await;
    assert_eq!(world.rows(Space::Index).await, [row("entry", "first")]);
    world.step(b"key", make(value(), vec![put("entry", "second"), put("more", "")])).await;
    assert_eq!(world.rows(Space::Index).await, [row("entry", "second"), row("more", "")]);
    world.step(b"key", make(ValueChange::Delete, vec![delete("entry")])).await;
    assert_eq!(world.rows(Space::Index).await, [row("more", "")]);
    assert_eq!(world.rows(Space::Records).await, []);
}

async fn an_entry_may_move_while_its_record_stays<H: Harness>(world: World<H>) {
    world.step(b"key", make(ValueChange::Put("record".into()), vec![put("old", "it")])).await;
    let seen = world.step(b"key", make(ValueChange::Keep, vec![delete("old"), put("new", "it")]));
    assert_eq!(seen.await.old, Some("record".into()));
    assert_eq!(world.rows(Space::Index).await, [row("new", "it")]);
    assert_eq!(world.rows(Space::Records).await, [row("key", "record")]);
}

async fn the_entries_of_one_change_are_applied_in_order<H: Harness>(world: World<H>) {
    let there = vec![put("a", "1"), delete("a"), put("a", "2"), put("a", "3")];
    let gone = vec![delete("b"), put("b", "1"), delete("b")];
    let index = there.into_iter().chain(gone).collect();
    world.step(b"key", make(ValueChange::Put("record".into()), index)).await;
    assert_eq!(world.rows(Space::Index).await, [row("a", "3")]);
}

async fn every_entry_of_a_change_is_applied<H: Harness>(world: World<H>) {
    let names: Vec<String> = (0..100).map(|entry| format!("entry {entry:03}")).collect();
    let puts = names.iter().map(|name| put(name, name)).collect();
    world.step(b"key", make(ValueChange::Put("record".into()), puts)).await;
    let expected: Vec<Row> = names.iter().map(|name| row(name.clone(), name.clone())).collect();
    assert_eq!(world.rows(Space::Index).await, expected);
    let deletes = names.iter().map(|name| delete(name)).collect();
    world.step(b"key", make(ValueChange::Keep, deletes)).await;
    assert_eq!(world.rows(Space::Index).await, []);
}

async fn deleting_an_absent_entry_is_no_error<H: Harness>(world: World<H>) {
    world.step(b"key", make(ValueChange::Put("record".into()), vec![delete("absent")])).await;
    assert_eq!(world.rows(Space::Index).await, []);
    assert_eq!(world.read(b"key").await, Some("record".into()));
}

async fn entries_and_records_may_have_the_same_keys<H: Harness>(world: World<H>) {
    world.step(b"same", make(ValueChange::Put("record".into()), vec![put("same", "entry")])).await;
    assert_eq!(world.rows(Space::Records).await, [row("same", "record")]);
    assert_eq!(world.rows(Space::Index).await, [row("same", "entry")]);
    world.step(b"same", Step::delete()).await;
    assert_eq!(world.rows(Space::Records).await, []);
    assert_eq!(world.rows(Space::Index).await, [row("same", "entry")]);
}

async fn items_of_one_batch_change_the_index_in_order<H: Harness>(world: World<H>) {
    let item = |key: &str, index| (key.as_bytes().to_vec(), make(ValueChange::Keep, index));
    world
        .steps(vec![
            item("b", vec![put("entry", "first"), put("gone", "")]),
            item("a", vec![put("entry", "second")]),
            item("b", vec![delete("gone"), put("kept", "")]),
        ])
        .await;
    assert_eq!(world.rows(Space::Index).await, [row("entry", "second"), row("kept", "")]);
}

/// Each mover puts its own number as the record and moves the one entry to itself; whoever comes
/// last, the record and the entry must name the same one.
async fn record_and_entry_agree_under_concurrent_moves<H: Harness>(world: World<H>) {
    const MOVERS: u64 = 16;
    for _ in 0..20 {
        let mut movers = tokio::task::JoinSet::new();
        for mover in 0..MOVERS {
            let store = world.store.clone();
            movers.spawn(async move { move_entry(&*store, mover).await });
        }
        movers.join_all().await;
        let record = world.read(b"key").await.expect("every mover put the record");
        assert_eq!(world.rows(Space::Index).await, [row("entry", record)]);
    }
}

async fn move_entry(store: &impl Store, mover: u64) {
    let value = Bytes::copy_from_slice(&mover.to_be_bytes());
    let entry = IndexChange::Put { key: "entry".into(), value: value.clone() };
    run(store, vec![(b"key".to_vec(), make(ValueChange::Put(value), vec![entry]))]).await;
}
