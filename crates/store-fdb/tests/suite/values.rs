//! Values of all sizes, and what is left of them.

use std::sync::Arc;

use foundationdb::RangeOption;
use foundationdb::tuple::Subspace;
use semel_store::{Space, Store};

use crate::bench::{Bench, Test};
use crate::steps::{Step, all, item, one, value};
use crate::tests;

pub(crate) fn tests() -> Vec<Test> {
    tests![
        values_of_all_sizes_pass_between_nodes,
        what_is_overwritten_or_deleted_leaves_no_chunks,
        a_batch_of_large_values_is_several_transactions,
        a_batch_of_many_records_is_several_transactions,
    ]
}

async fn values_of_all_sizes_pass_between_nodes(bench: Arc<Bench>) {
    let nodes = bench.nodes(2).await;
    for bytes in [0, 1, 90_000, 90_001, 180_000, 8 << 20] {
        let key = format!("{bytes:08}");
        one(&nodes[0], &key, Step::Put(value(bytes))).await;
        let read = one(&nodes[1], &key, Step::Read).await;
        assert!(read == Some(value(bytes)), "{bytes} bytes are read as they were written");
    }
    let rows = all(&nodes[1], Space::Records).await.rows;
    let found: Vec<usize> = rows.iter().map(|row| row.value.len()).collect();
    assert_eq!(found, [0, 1, 90_000, 90_001, 180_000, 8 << 20]);
    assert!(rows.iter().all(|row| row.value == value(row.value.len())), "they are scanned, too");
}

/// How many chunks a store has.
async fn chunks(bench: &Bench, name: &str) -> usize {
    let below = Subspace::from_bytes(bench.prefix(name).await).subspace(&1);
    let range = RangeOption { limit: Some(1_000), ..RangeOption::from(below.range()) };
    let transaction = bench.transaction();
    let (mut count, mut next) = (0, Some(range));
    while let Some(range) = next {
        let found = transaction.get_range(&range, 1, true).await.unwrap();
        count += found.len();
        next = range.next_range(&found);
    }
    count
}

async fn what_is_overwritten_or_deleted_leaves_no_chunks(bench: Arc<Bench>) {
    let name = bench.name();
    let node = bench.open(bench.options(&name)).await;
    let large = 1 << 20;
    let table = [
        (Step::Put(value(large)), 12),
        (Step::Put(value(large / 2)), 6),
        (Step::Put(value(10)), 0),
        (Step::Put(value(large)), 12),
        (Step::Mark, 12),
        (Step::Delete, 0),
    ];
    one(&node, "beside", Step::Put(value(90_001))).await;
    for (step, expected) in table {
        one(&node, "key", step.clone()).await;
        assert_eq!(chunks(&bench, &name).await, expected + 2);
    }
    assert!(one(&node, "beside", Step::Read).await == Some(value(90_001)));
}

async fn a_batch_of_large_values_is_several_transactions(bench: Arc<Bench>) {
    let nodes = bench.nodes(2).await;
    let value = value(8 << 20);
    let keys: Vec<String> = (0..3).map(|key| format!("large {key}")).collect();
    let put = |key: &String| item(key, Step::Put(value.clone()));
    for answer in nodes[0].update(keys.iter().map(put).collect()).await {
        assert_eq!(answer, Ok(None));
    }
    for answer in nodes[1].update(keys.iter().map(|key| item(key, Step::Read)).collect()).await {
        assert!(answer == Ok(Some(value.clone())), "a value of 8 MiB is read as it was written");
    }
}

async fn a_batch_of_many_records_is_several_transactions(bench: Arc<Bench>) {
    let nodes = bench.nodes(2).await;
    let keys: Vec<String> = (0..4_096).map(|key| format!("{key:04}")).collect();
    let put = |key: &String| item(key, Step::Put(value(1_000)));
    for answer in nodes[0].update(keys.iter().map(put).collect()).await {
        assert_eq!(answer, Ok(None));
    }
    let rows = all(&nodes[1], Space::Records).await.rows;
    assert!(rows.iter().map(|row| &row.key[..]).eq(keys.iter().map(String::as_bytes)));
    for answer in nodes[1].update(keys.iter().map(|key| item(key, Step::Read)).collect()).await {
        assert_eq!(answer, Ok(Some(value(1_000))));
    }
}
