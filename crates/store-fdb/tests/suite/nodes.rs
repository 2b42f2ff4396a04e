//! Several nodes over one cluster.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use semel_store::{Change, Space, Store, StoreError, Transition, ValueChange};
use semel_store_fdb::FdbStore;
use tokio::task::JoinSet;

use crate::bench::{Bench, Test};
use crate::steps::{Step, all, item, number, one, update};
use crate::tests;

pub(crate) fn tests() -> Vec<Test> {
    tests![
        increments_of_three_nodes_lose_nothing,
        a_race_for_records_leaves_the_entries_of_the_winners_only,
        random_overlapping_batches_lose_nothing,
        a_conflict_costs_the_other_records_of_its_batch_nothing,
        entries_change_while_their_record_stays,
        a_store_that_is_closed_says_so,
    ]
}

async fn increments_of_three_nodes_lose_nothing(bench: Arc<Bench>) {
    const TIMES: u64 = 50;
    let nodes = bench.nodes(3).await;
    let mut tasks = JoinSet::new();
    for node in nodes.iter().cycle().take(9) {
        let node = Arc::clone(node);
        tasks.spawn(async move {
            let mut seen = Vec::new();
            for _ in 0..TIMES {
                seen.push(number(one(&node, "count", Step::Add).await.as_deref()));
            }
            assert!(seen.is_sorted_by(|one, next| one < next), "a node saw the count go back");
            seen
        });
    }
    let mut seen = tasks.join_all().await.concat();
    seen.sort_unstable();
    assert_eq!(seen, (0..9 * TIMES).collect::<Vec<_>>(), "each saw the count that it added to");
    for node in &nodes {
        assert_eq!(number(one(node, "count", Step::Read).await.as_deref()), 9 * TIMES);
    }
}

/// Whoever loses a record must leave no entry behind.
async fn a_race_for_records_leaves_the_entries_of_the_winners_only(bench: Arc<Bench>) {
    let nodes = bench.nodes(3).await;
    let mut lost = 0;
    for round in 0..20 {
        let claim = |(number, node): (usize, &Arc<FdbStore>)| {
            let item = |key: u32| {
                let owner = format!("{round} {key} {number}").into();
                item(&format!("{round} {key}"), Step::Claim(owner))
            };
            let (batch, node) = ((0..40).map(item).collect(), Arc::clone(node));
            async move { node.update(batch).await }
        };
        for answers in futures::future::join_all(nodes.iter().enumerate().map(claim)).await {
            lost += answers.iter().filter(|it| it.as_ref().expect("no fault").is_some()).count();
        }
    }
    assert_eq!(lost, 20 * 40 * 2, "each record has one winner");
    let owners = all(&nodes[0], Space::Records).await.rows.into_iter().map(|row| row.value);
    let mut owners: Vec<Bytes> = owners.collect();
    owners.sort();
    let entries = all(&nodes[1], Space::Index).await.rows.into_iter().map(|row| row.key);
    assert_eq!(owners, entries.collect::<Vec<_>>());
    assert_eq!(owners.len(), 20 * 40);
}

async fn random_overlapping_batches_lose_nothing(bench: Arc<Bench>) {
    const ROUNDS: usize = 20;
    let nodes = bench.nodes(3).await;
    let keys: Vec<String> = (0..24).map(|key| format!("key {key:02}")).collect();
    let mut tasks = JoinSet::new();
    for (task, node) in (0..6).zip(nodes.iter().cycle()) {
        let (node, mut keys) = (Arc::clone(node), keys.clone());
        tasks.spawn(async move {
            let mut random = StdRng::seed_from_u64(task);
            for _ in 0..ROUNDS {
                keys.shuffle(&mut random);
                let batch = keys[..12].iter().map(|key| item(key, Step::Add)).collect();
                for answer in node.update(batch).await {
                    answer.expect("an update without faults succeeds");
                }
            }
        });
    }
    tasks.join_all().await;
    let mut sum = 0;
    for key in &keys {
        sum += number(one(&nodes[0], key, Step::Read).await.as_deref());
    }
    assert_eq!(sum, 6 * 12 * ROUNDS as u64);
}

/// Says that the record was read, and waits until somebody else wrote it.
type Meanwhile = (SyncSender<()>, Mutex<Receiver<()>>);

/// Counts how often it is run; the first time it waits until somebody else wrote the record.
#[derive(Clone)]
struct Counted {
    runs: Arc<AtomicU32>,
    meanwhile: Option<Arc<Meanwhile>>,
}

impl Transition for Counted {
    type Outcome = ();

    fn apply(&self, _old: Option<&[u8]>, _now_us: u64) -> (Change, ()) {
        let is_first = self.runs.fetch_add(1, Ordering::SeqCst) == 0;
        if let Some(meanwhile) = self.meanwhile.as_ref().filter(|_| is_first) {
            meanwhile.0.send(()).unwrap();
            meanwhile.1.lock().unwrap().recv_timeout(Duration::from_secs(30)).unwrap();
        }
        (Change { value: ValueChange::Put("mine".into()), index: vec![] }, ())
    }
}

async fn a_conflict_costs_the_other_records_of_its_batch_nothing(bench: Arc<Bench>) {
    let nodes = bench.nodes(2).await;
    let (begun, has_begun) = sync_channel(1);
    let (go_on, may_go_on) = sync_channel(1);
    let meanwhile = Arc::new((begun, Mutex::new(may_go_on)));
    let counted = |key: usize| Counted {
        runs: Arc::default(),
        meanwhile: (key == 50).then(|| Arc::clone(&meanwhile)),
    };
    let counts: Vec<Counted> = (0..100).map(counted).collect();
    let key = |key: usize| format!("key {key:03}");
    let batch = counts.iter().enumerate().map(|(it, step)| item(&key(it), step.clone())).collect();
    let writer = Arc::clone(&nodes[0]);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { writer.update(batch).await });
    let has_begun = tokio::task::block_in_place(|| has_begun.recv_timeout(Duration::from_secs(30)));
    has_begun.unwrap();
    one(&nodes[1], &key(50), Step::Put("theirs".into())).await;
    go_on.send(()).unwrap();
    for answer in tasks.join_next().await.unwrap().unwrap() {
        answer.expect("an update without faults succeeds");
    }
    let runs: Vec<u32> = counts.iter().map(|it| it.runs.load(Ordering::SeqCst)).collect();
    let expected: Vec<u32> = (0..100).map(|key| if key == 50 { 2 } else { 1 }).collect();
    assert_eq!(runs, expected, "only the record that was written meanwhile is decided again");
    assert_eq!(one(&nodes[1], &key(50), Step::Read).await.as_deref(), Some(&b"mine"[..]));
}

/// Index entries of an absent record, of one with a large value, and of one that others change.
async fn entries_change_while_their_record_stays(bench: Arc<Bench>) {
    let nodes = bench.nodes(2).await;
    let large = crate::steps::value(1 << 20);
    one(&nodes[0], "large", Step::Put(large.clone())).await;
    for node in &nodes {
        for key in ["large", "absent"] {
            one(node, key, Step::Mark).await;
        }
        assert_eq!(one(node, "absent", Step::Read).await, None);
        assert!(one(node, "large", Step::Read).await == Some(large.clone()), "it is as it was");
    }
    assert_eq!(all(&nodes[0], Space::Records).await.rows.len(), 1, "an absent record stays absent");
    assert_eq!(all(&nodes[0], Space::Index).await.rows.len(), 1);
}

async fn a_store_that_is_closed_says_so(bench: Arc<Bench>) {
    let nodes = bench.nodes(2).await;
    assert!(nodes[0].healthy());
    one(&nodes[0], "key", Step::Add).await;
    nodes[0].close();
    let answer = update(&nodes[0], "key", Step::Read).await;
    assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    nodes[0].close();
    assert_eq!(number(one(&nodes[1], "key", Step::Read).await.as_deref()), 1);
}
