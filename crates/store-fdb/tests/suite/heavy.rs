//! Long keys and damaged records: what one request carries must not hurt others.

use std::sync::Arc;

use bytes::Bytes;
use foundationdb::tuple::Subspace;
use semel_store::{Durability, Space, Store, StoreError, Update};

use crate::bench::{Bench, Test};
use crate::steps::{Step, all, item, one, value};
use crate::tests;

pub(crate) fn tests() -> Vec<Test> {
    tests![
        records_of_the_longest_keys_come_and_go,
        a_damaged_record_fails_alone,
        a_batch_that_takes_long_is_written,
    ]
}

/// A key of 1,024 bytes, nearly all zero: they are twice as long in the database.
fn long_key(number: u16) -> Bytes {
    [&[0; 1_022][..], &number.to_be_bytes()].concat().into()
}

async fn records_of_the_longest_keys_come_and_go(bench: Arc<Bench>) {
    let node = bench.nodes(1).await.remove(0);
    for step in [Step::Put(Bytes::new()), Step::Put(value(90_001)), Step::Delete] {
        let count = if matches!(&step, Step::Put(value) if !value.is_empty()) { 20 } else { 1_000 };
        let put = |number: u16| Update {
            key: long_key(number),
            durability: Durability::Synced,
            patience: None,
            transition: step.clone(),
        };
        for answer in node.update((0..count).map(put).collect()).await {
            answer.expect("a batch within the limits is taken");
        }
    }
    assert!(all(&node, Space::Records).await.rows.is_empty());
}

async fn a_damaged_record_fails_alone(bench: Arc<Bench>) {
    let name = bench.name();
    let node = bench.open(bench.options(&name)).await;
    one(&node, "large", Step::Put(value(200_000))).await;
    one(&node, "broken", Step::Put(value(1))).await;
    let below = Subspace::from_bytes(bench.prefix(&name).await);
    let transaction = bench.transaction();
    transaction.clear(&below.pack(&(1, &b"large"[..], 1)));
    transaction.set(&below.pack(&(0, &b"broken"[..])), b"\x09");
    transaction.commit().await.expect("nobody else writes it");
    let batch = ["before", "broken", "large", "whole"].map(|key| item(key, Step::Add));
    let answers = node.update(batch.into()).await;
    for (answer, is_whole) in answers.iter().zip([true, false, false, true]) {
        assert_eq!(answer.is_ok(), is_whole, "{answers:?}");
        assert!(is_whole || matches!(answer, Err(StoreError::Invalid(_))), "{answers:?}");
    }
}

/// They take longer than what was read stays valid, and nobody else writes them.
async fn a_batch_that_takes_long_is_written(bench: Arc<Bench>) {
    let node = bench.nodes(1).await.remove(0);
    let value = value(8 << 20);
    let keys: Vec<String> = (0..48).map(|key| format!("large {key}")).collect();
    let put = |key: &String| item(key, Step::Put(value.clone()));
    for answer in node.update(keys.iter().map(put).collect()).await {
        assert_eq!(answer, Ok(None));
    }
}
