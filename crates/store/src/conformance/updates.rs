//! Updates, one after the other: what a transition sees, and what its answer is.

use bytes::Bytes;

use super::step::{Step, number};
use super::world::{World, row};
use super::{Check, Harness};
use crate::contract::Space;

pub(super) fn checks<H: Harness>() -> Vec<Check<H>> {
    checks![
        an_absent_record_is_seen_as_none,
        a_record_is_seen_as_it_was_put,
        a_deleted_record_is_absent_again,
        deleting_an_absent_record_is_no_error,
        a_read_writes_nothing,
        an_empty_batch_has_no_answers,
        items_on_one_key_see_each_other_in_order,
        answers_come_item_by_item_in_order,
        the_largest_batch_has_an_answer_for_every_item,
        the_largest_batch_may_be_all_on_one_key,
        a_key_is_not_taken_for_its_prefix,
    ]
}

async fn an_absent_record_is_seen_as_none<H: Harness>(world: World<H>) {
    assert_eq!(world.read(b"key").await, None);
}

async fn a_record_is_seen_as_it_was_put<H: Harness>(world: World<H>) {
    assert_eq!(world.step(b"key", Step::put("first")).await.old, None);
    assert_eq!(world.read(b"key").await, Some("first".into()));
    assert_eq!(world.step(b"key", Step::put("second")).await.old, Some("first".into()));
    assert_eq!(world.read(b"key").await, Some("second".into()));
    assert_eq!(world.rows(Space::Records).await, [row("key", "second")]);
}

async fn a_deleted_record_is_absent_again<H: Harness>(world: World<H>) {
    world.step(b"key", Step::put("value")).await;
    assert_eq!(world.step(b"key", Step::delete()).await.old, Some("value".into()));
    assert_eq!(world.read(b"key").await, None);
    assert_eq!(world.rows(Space::Records).await, []);
    assert_eq!(world.step(b"key", Step::put("again")).await.old, None);
    assert_eq!(world.read(b"key").await, Some("again".into()));
}

async fn deleting_an_absent_record_is_no_error<H: Harness>(world: World<H>) {
    assert_eq!(world.step(b"key", Step::delete()).await.old, None);
    assert_eq!(world.rows(Space::Records).await, []);
}

async fn a_read_writes_nothing<H: Harness>(world: World<H>) {
    world.step(b"there", Step::put("value")).await;
    for key in [b"there".as_slice(), b"absent"] {
        world.read(key).await;
    }
    assert_eq!(world.rows(Space::Records).await, [row("there", "value")]);
    assert_eq!(world.rows(Space::Index).await, []);
}

async fn an_empty_batch_has_no_answers<H: Harness>(world: World<H>) {
    assert_eq!(world.steps(Vec::new()).await, []);
}

async fn items_on_one_key_see_each_other_in_order<H: Harness>(world: World<H>) {
    let item = |step| (b"key".to_vec(), step);
    let seen = world
        .steps(vec![
            item(Step::Read),
            item(Step::put("first")),
            item(Step::Read),
            item(Step::put("second")),
            item(Step::delete()),
            item(Step::Read),
            item(Step::put("third")),
        ])
        .await;
    let old: Vec<Option<Bytes>> = seen.into_iter().map(|it| it.old).collect();
    let expected = [None, None, Some("first"), Some("first"), Some("second"), None, None];
    assert_eq!(old, expected.map(|it| it.map(Bytes::from)));
    assert_eq!(world.read(b"key").await, Some("third".into()));
}

async fn answers_come_item_by_item_in_order<H: Harness>(world: World<H>) {
    for key in [b"a", b"b", b"c"] {
        world.step(key, Step::put(key.to_vec())).await;
    }
    let item = |key: &str, step| (key.as_bytes().to_vec(), step);
    let seen = world
        .steps(vec![
            item("c", Step::Read),
            item("absent", Step::Read),
            item("b", Step::delete()),
            item("new", Step::put("new")),
            item("a", Step::put("changed")),
            item("b", Step::Read),
            item("new", Step::Read),
        ])
        .await;
    let old: Vec<Option<Bytes>> = seen.into_iter().map(|it| it.old).collect();
    let expected = [Some("c"), None, Some("b"), None, Some("a"), None, Some("new")];
    assert_eq!(old, expected.map(|it| it.map(Bytes::from)));
    let rows = [row("a", "changed"), row("c", "c"), row("new", "new")];
    assert_eq!(world.rows(Space::Records).await, rows);
}

async fn the_largest_batch_has_an_answer_for_every_item<H: Harness>(world: World<H>) {
    let key = |item: u64| item.to_be_bytes().to_vec();
    // Scattered, so that the order of the answers is not the order of the keys.
    let items: Vec<u64> = (0..4_096).map(|item| item * 2_467 % 4_096).collect();
    let put = |item: &u64| (key(*item), Step::put(key(*item)));
    let seen = world.steps(items.iter().map(put).collect()).await;
    assert!(seen.iter().all(|it| it.old.is_none()), "no record was there before");
    let seen = world.steps(items.iter().map(|item| (key(*item), Step::Read)).collect()).await;
    for (item, seen) in items.iter().zip(seen) {
        assert_eq!(seen.old, Some(key(*item).into()), "the answer to item {item}");
    }
    assert_eq!(world.rows(Space::Records).await.len(), 4_096);
}

async fn the_largest_batch_may_be_all_on_one_key<H: Harness>(world: World<H>) {
    let seen = world.steps((0..4_096).map(|_| (b"key".to_vec(), Step::Add(1))).collect()).await;
    for (before, seen) in (0..).zip(seen) {
        assert_eq!(number(seen.old.as_deref()), before);
    }
    assert_eq!(number(world.read(b"key").await.as_deref()), 4_096);
}

async fn a_key_is_not_taken_for_its_prefix<H: Harness>(world: World<H>) {
    let keys: [&[u8]; 5] = [b"k", b"k\0", b"k\0\0", b"kk", b"\0k"];
    for key in keys {
        assert_eq!(world.step(key, Step::put(key.to_vec())).await.old, None, "{key:?}");
    }
    world.step(b"k", Step::delete()).await;
    assert_eq!(world.read(b"k").await, None);
    for key in &keys[1..] {
        assert_eq!(world.read(key).await.as_deref(), Some(*key));
    }
}
