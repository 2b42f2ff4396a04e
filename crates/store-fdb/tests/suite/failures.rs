//! A cluster that crashes and stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use semel_store::{Store, StoreError};
use semel_store_fdb::FdbStore;
use tokio::task::JoinSet;

use crate::bench::{Bench, Test};
use crate::steps::{Step, item, number, one, settled, update, woken};
use crate::tests;

pub(crate) fn tests() -> Vec<Test> {
    let all = tests![
        what_was_answered_is_what_happened_across_crashes,
        a_cluster_that_stops_for_a_while_loses_nothing,
        watches_come_back_after_a_crash,
        a_cluster_that_is_away_is_told_within_the_patience,
    ];
    let part = tests![adds_while_faults_are_injected].into_iter().map(Test::part);
    let injected = tests![what_was_answered_is_what_happened_while_faults_are_injected];
    all.into_iter().map(Test::alone).chain(injected).chain(part).collect()
}

#[derive(Default)]
struct Counts {
    done: AtomicU64,
    unknown: AtomicU64,
    refused: AtomicU64,
}

/// Adds to a key of its own, and to one of all, as often as it can until it is stopped.
async fn add(node: Arc<FdbStore>, key: String, counts: Arc<[Counts; 2]>, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::SeqCst) {
        let batch = vec![item(&key, Step::Add), item("all", Step::Add)];
        for (answer, counts) in node.update(batch).await.into_iter().zip(counts.iter()) {
            let count = match answer {
                Ok(_) => &counts.done,
                Err(StoreError::Unknown(_)) => &counts.unknown,
                Err(StoreError::Unavailable(_)) => &counts.refused,
                Err(StoreError::Invalid(reason)) => panic!("refused: {reason}"),
            };
            count.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Adds on two nodes while `disturb` is at work, and compares what is there with what was answered.
async fn disturbed<F: Future<Output = ()>>(bench: &Bench, disturb: impl FnOnce() -> F) {
    const TASKS: usize = 8;
    let nodes = bench.nodes(2).await;
    let stop = Arc::new(AtomicBool::new(false));
    let all: Vec<Arc<[Counts; 2]>> = (0..TASKS).map(|_| Arc::default()).collect();
    let mut tasks = JoinSet::new();
    for (task, counts) in all.iter().enumerate() {
        let node = Arc::clone(&nodes[task % 2]);
        tasks.spawn(add(node, format!("key {task}"), Arc::clone(counts), Arc::clone(&stop)));
    }
    disturb().await;
    stop.store(true, Ordering::SeqCst);
    tasks.join_all().await;
    let of = |count: &AtomicU64| count.load(Ordering::SeqCst);
    let (mut done, mut unknown) = (0, 0);
    for (task, counts) in all.iter().enumerate() {
        let found = number(settled(&nodes[0], &format!("key {task}")).await.as_deref());
        let (least, most) = (of(&counts[0].done), of(&counts[0].done) + of(&counts[0].unknown));
        assert!((least..=most).contains(&found), "{found} is not in {least}..={most}");
        assert!(least > 0, "each got something done");
        done += of(&counts[1].done);
        unknown += of(&counts[1].unknown);
    }
    let found = number(settled(&nodes[1], "all").await.as_deref());
    assert!((done..=done + unknown).contains(&found), "{found}, {done} done, {unknown} unknown");
    let refused: u64 = all.iter().map(|counts| of(&counts[1].refused)).sum();
    println!("of all: {found} there, {done} done, {unknown} unknown, {refused} refused");
}

async fn what_was_answered_is_what_happened_across_crashes(bench: Arc<Bench>) {
    disturbed(&bench, async || {
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(700)).await;
            bench.crash(|| {});
            // Commits go on before the next crash.
            let node = bench.nodes(1).await;
            one(&node[0], "key", Step::Add).await;
        }
        tokio::time::sleep(Duration::from_millis(700)).await;
    })
    .await;
}

/// The client library has commits fail in all ways that it knows: some are told as conflicts, some as
/// unknown after they were committed, and some as timed out although they are committed seconds later.
/// That is for the whole process, so it is one of its own.
async fn what_was_answered_is_what_happened_while_faults_are_injected(bench: Arc<Bench>) {
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "--ignored", "failures::adds_while_faults_are_injected"]);
    child.env("FDB_CLUSTER_FILE", bench.cluster_file());
    let options = [
        ("ENABLE", ""),
        ("SECTION_ACTIVATED_PROBABILITY", "100"),
        ("SECTION_FIRED_PROBABILITY", "10"),
    ];
    for (option, value) in options {
        child.env(format!("FDB_NETWORK_OPTION_CLIENT_BUGGIFY_{option}"), value);
    }
    let ended = child.output().await.unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    println!("{said}");
    assert!(ended.status.success(), "{said}{}", String::from_utf8_lossy(&ended.stderr));
    assert!(said.contains("1 passed"), "{said}");
}

async fn adds_while_faults_are_injected(bench: Arc<Bench>) {
    disturbed(&bench, || tokio::time::sleep(Duration::from_secs(15))).await;
}

async fn a_cluster_that_stops_for_a_while_loses_nothing(bench: Arc<Bench>) {
    disturbed(&bench, async || {
        for pause_ms in [300, 1_500, 12_000] {
            tokio::time::sleep(Duration::from_millis(700)).await;
            bench.server().pause_all(true);
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            bench.server().pause_all(false);
        }
        let node = bench.nodes(1).await;
        one(&node[0], "key", Step::Add).await;
        tokio::time::sleep(Duration::from_millis(700)).await;
    })
    .await;
}

async fn watches_come_back_after_a_crash(bench: Arc<Bench>) {
    let nodes = bench.nodes(2).await;
    let mut watch = nodes[0].watch(b"key");
    one(&nodes[0], "key", Step::Add).await;
    woken(&mut watch).await;
    bench.crash(|| {});
    settled(&nodes[0], "key").await;
    while update(&nodes[1], "key", Step::Add).await.is_err() {}
    woken(&mut watch).await;
}

async fn a_cluster_that_is_away_is_told_within_the_patience(bench: Arc<Bench>) {
    let node = bench.nodes(1).await.remove(0);
    one(&node, "key", Step::Add).await;
    bench.server().kill_all();
    let mut asked = item("key", Step::Add);
    asked.patience = Some(Duration::from_millis(500));
    let answer = tokio::time::timeout(Duration::from_secs(5), node.update(vec![asked])).await;
    let answer = answer.expect("it does not wait for ever").remove(0);
    assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    bench.server().start_all_again();
    assert_eq!(number(settled(&node, "key").await.as_deref()), 1);
}
