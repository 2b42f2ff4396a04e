//! Several nodes over one database.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use semel_store::{Clock, Durability, Scan, Space, Store, StoreError, SystemClock, Update};
use semel_store_postgres::PostgresStore;
use tokio::task::JoinSet;

use crate::postgres::{Postgres, Stop};
use crate::steps::{Step, foreign, item, node, nodes, number, one, options};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn increments_of_three_nodes_lose_nothing() {
    const TIMES: u64 = 100;
    let Some(server) = Postgres::start("increments of three nodes", &[]) else { return };
    let nodes = nodes(&server, 3).await;
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
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_race_for_records_leaves_the_entries_of_the_winners_only() {
    let Some(server) = Postgres::start("races of nodes", &[]) else { return };
    let nodes = nodes(&server, 3).await;
    let mut lost = 0;
    for round in 0..30 {
        let claim = |(number, node): (usize, &Arc<PostgresStore>)| {
            let item = |key: u32| {
                let owner = format!("{round} {key} {number}").into();
                item(&format!("{round} {key}"), Durability::Synced, Step::Claim(owner))
            };
            let (batch, node) = ((0..40).map(item).collect(), Arc::clone(node));
            async move { node.update(batch).await }
        };
        for answers in futures::future::join_all(nodes.iter().enumerate().map(claim)).await {
            lost += answers.iter().filter(|it| it.as_ref().expect("no fault").is_some()).count();
        }
    }
    assert_eq!(lost, 30 * 40 * 2, "each record has one winner");
    let client = foreign(&server).await;
    let entries = "SELECT count(*) FROM semel.entries";
    let owned = "SELECT count(*) FROM semel.entries AS it JOIN semel.records AS of
                 ON it.key = of.value AND it.value = of.value";
    assert_eq!((client.count(entries).await, client.count(owned).await), (1_200, 1_200));
}

/// Inserts, updates and deletes over the same few keys in random order and in all mixtures: whoever
/// locks them in another order than the others would meet a deadlock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_overlapping_batches_meet_no_deadlock() {
    // Without waiting for a disk, so that many meet.
    let settings = ["deadlock_timeout=20ms", "fsync=off"];
    let Some(mut server) = Postgres::start("overlapping batches", &settings) else { return };
    let nodes = nodes(&server, 3).await;
    let keys: Vec<String> = (0..24).map(|key| format!("key {key:02}")).collect();
    let mut tasks = JoinSet::new();
    for (task, node) in (0..6).zip(nodes.iter().cycle()) {
        let (node, keys) = (Arc::clone(node), keys.clone());
        tasks.spawn(async move {
            for round in 0..300 {
                let answers = node.update(random_batch(&keys, task * 1_000 + round)).await;
                for answer in answers {
                    answer.expect("nobody fails");
                }
            }
        });
    }
    tasks.join_all().await;
    drop(nodes);
    server.stop(Stop::Fast);
    let log = server.log();
    assert!(!log.contains("deadlock"), "{log}");
}

fn random_batch(keys: &[String], seed: u64) -> Vec<Update<Step>> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut keys: Vec<&String> = keys.iter().collect();
    keys.shuffle(&mut rng);
    let steps = [Step::Put("value".into()), Step::Delete, Step::Read, Step::Put("other".into())];
    let pick =
        |(place, key): (usize, &&String)| item(key, Durability::Synced, steps[place % 4].clone());
    keys.iter().take(12).enumerate().map(pick).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_wakes_the_watchers_of_other_nodes_at_once() {
    let Some(server) = Postgres::start("wake-ups across nodes", &[]) else { return };
    let nodes = nodes(&server, 2).await;
    one(&nodes[0], "key", Step::Add).await;
    let mut took_us = Vec::new();
    for round in 0..20 {
        let mut watch = nodes[1].watch(b"key");
        assert_eq!(number(one(&nodes[1], "key", Step::Read).await.as_deref()), round + 1);
        let began_us = SystemClock.monotonic_us();
        one(&nodes[0], "key", Step::Add).await;
        woken(&mut watch, Duration::from_secs(10)).await;
        took_us.push(SystemClock.monotonic_us() - began_us);
    }
    took_us.sort_unstable();
    println!("wake-ups, each with its change: {took_us:?} µs");
    // Not the slowest: a machine that runs other tests pauses now and then.
    assert!(took_us[15] < 100_000, "wake-ups took {took_us:?} µs");
}

/// Of those that nobody watches where they are made, nobody is told: they are too many.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_record_that_is_watched_on_both_nodes_wakes_the_other_at_once() {
    let Some(server) = Postgres::start("wake-ups of new records", &[]) else { return };
    let nodes = nodes(&server, 2).await;
    let mut took_us = Vec::new();
    for round in 0..20 {
        let key = format!("new {round}");
        let _here = nodes[0].watch(key.as_bytes());
        let mut there = nodes[1].watch(key.as_bytes());
        let began_us = SystemClock.monotonic_us();
        one(&nodes[0], &key, Step::Add).await;
        woken(&mut there, Duration::from_secs(10)).await;
        took_us.push(SystemClock.monotonic_us() - began_us);
    }
    took_us.sort_unstable();
    println!("wake-ups, each with its new record: {took_us:?} µs");
    assert!(took_us[15] < 100_000, "wake-ups took {took_us:?} µs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn polling_finds_what_was_not_heard() {
    let Some(server) = Postgres::start("polling", &[]) else { return };
    let writer = node(&server).await;
    let mut deaf = options(&server);
    deaf.listen = false;
    let deaf = PostgresStore::open(deaf).await.unwrap();
    one(&writer, "changed", Step::Add).await;
    one(&writer, "deleted", Step::Add).await;
    let keys = ["changed", "deleted", "inserted", "never read"];
    let mut watches = keys.map(|key| deaf.watch(key.as_bytes()));
    for key in &keys[..3] {
        one(&deaf, key, Step::Read).await;
    }
    let began_us = SystemClock.monotonic_us();
    one(&writer, "changed", Step::Add).await;
    one(&writer, "deleted", Step::Delete).await;
    one(&writer, "inserted", Step::Add).await;
    one(&writer, "never read", Step::Add).await;
    let mut took_us = Vec::new();
    for watch in &mut watches {
        woken(watch, Duration::from_secs(10)).await;
        took_us.push(SystemClock.monotonic_us() - began_us);
    }
    println!("polling woke after {took_us:?} µs");
    assert!(took_us[2] < 1_500_000, "whoever read waits for one interval: {took_us:?} µs");
    assert!(took_us[3] < 2_500_000, "whoever did not, for two: {took_us:?} µs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_that_was_cut_off_comes_back() {
    let Some(server) = Postgres::start("a listener cut off", &[]) else { return };
    let nodes = nodes(&server, 2).await;
    one(&nodes[0], "key", Step::Add).await;
    let client = foreign(&server).await;
    let mut watch = nodes[1].watch(b"key");
    one(&nodes[1], "key", Step::Read).await;
    let killed = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                  WHERE query LIKE 'LISTEN%'";
    assert_eq!(client.count(killed).await, 2, "each node has a listener");
    let began_us = SystemClock.monotonic_us();
    one(&nodes[0], "key", Step::Add).await;
    woken(&mut watch, Duration::from_secs(10)).await;
    let took_us = SystemClock.monotonic_us() - began_us;
    assert!(took_us < 2_000_000, "the wake-up took {took_us} µs");
}

async fn woken(watch: &mut semel_store::Watch, patience: Duration) {
    tokio::time::timeout(patience, watch.changed()).await.expect("the watch wakes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_values_pass_between_nodes() {
    let Some(server) = Postgres::start("large values", &[]) else { return };
    let nodes = nodes(&server, 2).await;
    let value = Bytes::from((0..8 << 20).map(|byte: u32| (byte % 251) as u8).collect::<Vec<_>>());
    let keys: Vec<String> = (0..6).map(|key| format!("large {key}")).collect();
    let put = |key: &String| item(key, Durability::Synced, Step::Put(value.clone()));
    // More than one statement carries.
    for answer in nodes[0].update(keys.iter().map(put).collect()).await {
        assert_eq!(answer, Ok(None));
    }
    let read = |key: &String| item(key, Durability::Synced, Step::Read);
    for answer in nodes[1].update(keys.iter().map(read).collect()).await {
        assert!(answer == Ok(Some(value.clone())), "a value of 8 MiB is read as it was written");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_closed_says_so() {
    let Some(server) = Postgres::start("a closed store", &[]) else { return };
    let node = node(&server).await;
    one(&node, "key", Step::Add).await;
    node.close();
    let answer = node.update(vec![item("key", Durability::Synced, Step::Read)]).await.remove(0);
    assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    node.close();
    let left = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'semel'";
    let client = foreign(&server).await;
    // A session is gone some time after its socket is.
    for _ in 0..1_000 {
        if client.count(left).await == 0 {
            return;
        }
    }
    panic!("connections are left over");
}

/// A stand-in for an absent record may be left over by a node that died between two statements.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stand_in_that_is_left_over_is_seen_as_absent() {
    let Some(server) = Postgres::start("stand-ins", &[]) else { return };
    let node = node(&server).await;
    let client = foreign(&server).await;
    for (key, step, left) in [("put", Step::Add, 1), ("gone", Step::Delete, 0)] {
        let insert = "INSERT INTO semel.records (key, version, relaxed) VALUES ($1, 5, false)";
        client.client.execute(insert, &[&key.as_bytes()]).await.unwrap();
        assert_eq!(one(&node, key, Step::Read).await, None);
        let scan = Scan {
            space: Space::Records,
            start: Bytes::from_static(key.as_bytes()),
            end: Bytes::from(format!("{key}\0")),
            limit: 10,
            max_bytes: 1_000,
        };
        assert_eq!(node.scan(scan.clone()).await.unwrap().rows, []);
        assert_eq!(one(&node, key, step).await, None);
        assert_eq!(node.scan(scan).await.unwrap().rows.len(), left);
    }
}

/// Index entries of an absent record, of one with a large value, and of one that is deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_change_while_their_record_stays() {
    let Some(server) = Postgres::start("entries alone", &[]) else { return };
    let nodes = nodes(&server, 2).await;
    let large = Bytes::from((0..1 << 20).map(|byte: u32| (byte % 251) as u8).collect::<Vec<_>>());
    one(&nodes[0], "large", Step::Put(large.clone())).await;
    for node in &nodes {
        for key in ["large", "absent"] {
            one(node, key, Step::Mark).await;
        }
        assert_eq!(one(node, "absent", Step::Read).await, None);
        assert!(one(node, "large", Step::Read).await == Some(large.clone()), "it is as it was");
    }
    let client = foreign(&server).await;
    assert_eq!(client.count("SELECT count(*) FROM semel.records").await, 1, "no stand-in is left");
    assert_eq!(client.count("SELECT count(*) FROM semel.entries").await, 1);
}
