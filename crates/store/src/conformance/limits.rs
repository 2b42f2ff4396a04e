//! What an engine must refuse: each time nothing is written, and the other items are not touched.

use bytes::Bytes;

use super::step::{Seen, Step};
use super::world::{World, row, whole};
use super::{Check, Harness};
use crate::contract::{Change, IndexChange, Scan, Space, Store, StoreError, ValueChange};

pub(super) fn checks<H: Harness>() -> Vec<Check<H>> {
    checks![
        keys_out_of_bounds_are_refused,
        values_out_of_bounds_are_refused,
        index_entries_out_of_bounds_are_refused_with_their_record,
        a_refused_item_does_not_touch_its_neighbours,
        a_batch_out_of_bounds_is_refused_whole,
        scans_out_of_bounds_are_refused,
    ]
}

async fn keys_out_of_bounds_are_refused<H: Harness>(world: World<H>) {
    for size in [0, 1_025, 70_000] {
        for step in [Step::put("value"), Step::Read, Step::delete()] {
            let answers = world.try_steps(vec![(vec![b'k'; size], step)]).await;
            assert_refused(&answers[0], &format!("a key of {size} bytes"));
        }
    }
    assert_eq!(world.rows(Space::Records).await, []);
}

async fn values_out_of_bounds_are_refused<H: Harness>(world: World<H>) {
    world.step(b"key", Step::put("old")).await;
    let entry = IndexChange::Put { key: "entry".into(), value: Bytes::new() };
    let value = ValueChange::Put(vec![0; (8 << 20) + 1].into());
    let change = Change { value, index: vec![entry] };
    let answers = world.try_steps(vec![(b"key".to_vec(), Step::Make(change))]).await;
    assert_refused(&answers[0], "a value of 8 MiB and one byte");
    assert_eq!(world.rows(Space::Records).await, [row("key", "old")]);
    assert_eq!(world.rows(Space::Index).await, []);
}

async fn index_entries_out_of_bounds_are_refused_with_their_record<H: Harness>(world: World<H>) {
    let sized = |size| Bytes::from(vec![b'i'; size]);
    let entries = [
        IndexChange::Put { key: sized(0), value: Bytes::new() },
        IndexChange::Put { key: sized(2_049), value: Bytes::new() },
        IndexChange::Put { key: sized(1), value: sized(2_049) },
        IndexChange::Delete { key: sized(0) },
        IndexChange::Delete { key: sized(2_049) },
    ];
    for entry in entries {
        let good = IndexChange::Put { key: "good".into(), value: Bytes::new() };
        let value = ValueChange::Put("value".into());
        let change = Change { value, index: vec![good, entry.clone()] };
        let answers = world.try_steps(vec![(b"key".to_vec(), Step::Make(change))]).await;
        assert_refused(&answers[0], &format!("{entry:?}"));
    }
    assert_eq!(world.rows(Space::Records).await, []);
    assert_eq!(world.rows(Space::Index).await, []);
}

async fn a_refused_item_does_not_touch_its_neighbours<H: Harness>(world: World<H>) {
    let item = |key: &[u8], step| (key.to_vec(), step);
    let answers = world
        .try_steps(vec![
            item(b"a", Step::put("1")),
            item(b"", Step::put("refused")),
            item(b"a", Step::put(vec![0; (8 << 20) + 1])),
            item(b"a", Step::put("2")),
        ])
        .await;
    let found: Vec<Option<&Seen>> = answers.iter().map(|it| it.as_ref().ok()).collect();
    assert_eq!(found[0].expect("the first item is good").old, None);
    assert_refused(&answers[1], "an empty key");
    assert_refused(&answers[2], "a value that is too long");
    let last = found[3].expect("the last item is good");
    assert_eq!(last.old, Some("1".into()), "it sees the item before the refused ones");
    assert_eq!(world.rows(Space::Records).await, [row("a", "2")]);
}

async fn a_batch_out_of_bounds_is_refused_whole<H: Harness>(world: World<H>) {
    let put = |item: u64| (item.to_be_bytes().to_vec(), Step::put("value"));
    let answers = world.try_steps((0..4_097).map(put).collect()).await;
    assert_eq!(answers.len(), 4_097);
    for answer in &answers {
        assert_refused(answer, "a batch of 4,097 items");
    }
    assert_eq!(world.rows(Space::Records).await, []);
}

async fn scans_out_of_bounds_are_refused<H: Harness>(world: World<H>) {
    world.step(b"key", Step::put("value")).await;
    for limit in [0, 10_001] {
        for space in [Space::Records, Space::Index] {
            let answer = world.store.scan(Scan { limit, ..whole(space) }).await;
            assert_refused(&answer, &format!("a scan of {limit} rows"));
        }
    }
}

fn assert_refused<T: std::fmt::Debug>(answer: &Result<T, StoreError>, what: &str) {
    assert!(matches!(answer, Err(StoreError::Invalid(_))), "{what} was answered with {answer:?}");
}
