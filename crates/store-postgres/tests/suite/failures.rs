//! A database that fails: lost connections, restarts, locks, and what callers are told.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use rustix::process::Signal;
use semel_store::{Clock, Durability, Scan, Space, Store, StoreError, SystemClock, Update};
use semel_store_postgres::{OpenError, PostgresOptions, PostgresStore};
use tokio::task::JoinSet;

use crate::postgres::{Postgres, Stop};
use crate::steps::{
    Step, foreign, item, node, nodes, number, numbers, one, options, settle, try_one,
};

/// Appends numbers to a few records from several tasks until `stop`, each until it is answered.
/// Returns the tasks, which return what was acknowledged.
fn appenders(
    nodes: &[Arc<PostgresStore>],
    stop: &Arc<AtomicBool>,
    done: &Arc<AtomicU64>,
) -> JoinSet<Vec<u64>> {
    let mut tasks = JoinSet::new();
    for (task, node) in (0_u64..6).zip(nodes.iter().cycle()) {
        let (node, stop, done) = (Arc::clone(node), Arc::clone(stop), Arc::clone(done));
        tasks.spawn(async move {
            let mut acknowledged = Vec::new();
            while !stop.load(Ordering::SeqCst) {
                let id = task * 1_000_000 + u64::try_from(acknowledged.len()).unwrap();
                settle(&node, &key_of(id), Step::Append(id)).await;
                acknowledged.push(id);
                done.fetch_add(1, Ordering::SeqCst);
            }
            acknowledged
        });
    }
    tasks
}

fn key_of(id: u64) -> String {
    format!("list {}", id % 5)
}

/// Waits until so many more were acknowledged.
async fn progress(done: &AtomicU64, more: u64) {
    let until = done.load(Ordering::SeqCst) + more;
    while done.load(Ordering::SeqCst) < until {
        tokio::task::yield_now().await;
    }
}

/// Nothing acknowledged is lost, nothing is there twice, and the index agrees with the records.
async fn judge(node: &PostgresStore, acknowledged: &[u64]) {
    let mut found = Vec::new();
    for list in 0..5 {
        found.extend(numbers(one(node, &key_of(list), Step::Read).await.as_deref()));
    }
    let distinct: BTreeSet<u64> = found.iter().copied().collect();
    assert_eq!(distinct.len(), found.len(), "a number was appended twice");
    for id in acknowledged {
        assert!(distinct.contains(id), "{id} was acknowledged and is lost");
    }
    let mut scan = Scan {
        space: Space::Index,
        start: Bytes::new(),
        end: Bytes::new(),
        limit: 1_000,
        max_bytes: usize::MAX,
    };
    let mut entries = BTreeSet::new();
    loop {
        let page = node.scan(scan.clone()).await.expect("a scan without faults");
        entries.extend(page.rows.iter().map(|row| number(Some(&row.value))));
        let Some(last) = page.rows.last().filter(|_| page.more) else { break };
        scan.start = [&last.key[..], &[0]].concat().into();
    }
    assert_eq!(entries, distinct, "the index and the records");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_killed_under_load_lose_nothing_and_repeat_nothing() {
    let Some(server) = Postgres::start("connections killed under load", &[]) else { return };
    let nodes = nodes(&server, 2).await;
    let (stop, done) = (Arc::default(), Arc::default());
    let tasks = appenders(&nodes, &stop, &done);
    let client = foreign(&server).await;
    let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                WHERE application_name = 'semel' AND pid <> pg_backend_pid()";
    let mut killed = 0;
    for _ in 0..8 {
        progress(&done, 30).await;
        killed += client.count(kill).await;
    }
    progress(&done, 30).await;
    stop.store(true, Ordering::SeqCst);
    let acknowledged = tasks.join_all().await.concat();
    println!("{killed} sessions killed, {} appends acknowledged", acknowledged.len());
    assert!(killed > 20, "sessions were killed: {killed}");
    judge(&nodes[0], &acknowledged).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashes_of_the_server_under_load_lose_nothing_and_repeat_nothing() {
    let Some(mut server) = Postgres::start("server crashes under load", &[]) else { return };
    let nodes = nodes(&server, 2).await;
    let (stop, done) = (Arc::default(), Arc::default());
    let tasks = appenders(&nodes, &stop, &done);
    for how in [Stop::Immediate, Stop::Fast, Stop::Immediate] {
        progress(&done, 100).await;
        server.stop(how);
        let refused = try_one(&nodes[0], "other", Step::Add).await;
        assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
        server.start_again();
    }
    progress(&done, 100).await;
    stop.store(true, Ordering::SeqCst);
    let acknowledged = tasks.join_all().await.concat();
    println!("{} appends acknowledged over 3 stops", acknowledged.len());
    judge(&nodes[1], &acknowledged).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_somebody_locked_is_answered_within_the_lock_timeout() {
    let Some(server) = Postgres::start("a foreign lock", &[]) else { return };
    let mut short = options(&server);
    short.lock_timeout_ms = 300;
    let node = PostgresStore::open(short).await.unwrap();
    one(&node, "locked", Step::Add).await;
    let client = foreign(&server).await;
    client.client.batch_execute("BEGIN; SELECT FROM semel.records FOR UPDATE").await.unwrap();
    let began_us = SystemClock.monotonic_us();
    let answer = try_one(&node, "locked", Step::Add).await;
    let took_us = SystemClock.monotonic_us() - began_us;
    assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    assert!((300_000..1_900_000).contains(&took_us), "{took_us} µs");
    // Others are not held up, and a read is none of a writer's business.
    one(&node, "free", Step::Add).await;
    assert!(one(&node, "locked", Step::Read).await.is_some());
    client.client.batch_execute("ROLLBACK").await.unwrap();
    one(&node, "locked", Step::Add).await;
}

/// Nobody waits for a statement whose callers are gone: the database ends it, and its lock queue with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_takes_no_longer_than_its_caller_waits() {
    let Some(server) = Postgres::start("a caller's patience", &[]) else { return };
    let mut patient = options(&server);
    patient.lock_timeout_ms = 60_000;
    patient.statement_timeout_ms = 60_000;
    let node = PostgresStore::open(patient).await.unwrap();
    one(&node, "locked", Step::Add).await;
    let client = foreign(&server).await;
    client.client.batch_execute("BEGIN; SELECT FROM semel.records FOR UPDATE").await.unwrap();
    for patience_ms in [300, 900, 300] {
        let patience = Some(Duration::from_millis(patience_ms));
        let update = Update { patience, ..item("locked", Durability::Synced, Step::Add) };
        let began_us = SystemClock.monotonic_us();
        let answer = node.update(vec![update]).await.remove(0);
        let took_us = SystemClock.monotonic_us() - began_us;
        assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
        let (least_us, most_us) = (patience_ms * 1_000, patience_ms * 1_000 + 1_500_000);
        assert!((least_us..most_us).contains(&took_us), "{took_us} µs of {patience_ms} ms");
        let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
        assert_eq!(client.count(waiting).await, 0, "nothing waits in the database");
    }
    client.client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(number(one(&node, "locked", Step::Read).await.as_deref()), 1);
}

/// A write that was sent may be under way: so long as that is not known, the caller must not be told
/// that nothing was written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_killed_in_a_write_leaves_the_result_unknown() {
    let Some(server) = Postgres::start("a write cut off", &[]) else { return };
    let mut patient = options(&server);
    patient.lock_timeout_ms = 60_000;
    patient.statement_timeout_ms = 60_000;
    let node = PostgresStore::open(patient).await.unwrap();
    one(&node, "locked", Step::Add).await;
    let client = foreign(&server).await;
    client.client.batch_execute("BEGIN; SELECT FROM semel.records FOR UPDATE").await.unwrap();
    // First with a word of goodbye, then without: the server then ends all of its sessions.
    for signal in [Signal::TERM, Signal::KILL] {
        let killer = foreign(&server).await;
        let answer = tokio::select! {
            answer = try_one(&node, "locked", Step::Add) => answer,
            () = kill_who_waits(&killer, signal) => panic!("it goes on for ever"),
        };
        assert!(matches!(answer, Err(StoreError::Unknown(_))), "{signal:?}: {answer:?}");
    }
    settle(&node, "locked", Step::Add).await;
}

/// Sends a signal to the session that waits for a lock, once, and then waits for ever.
async fn kill_who_waits(killer: &crate::steps::Foreign, signal: Signal) {
    let waiting = "SELECT coalesce(max(pid), 0)::bigint FROM pg_stat_activity
                   WHERE application_name = 'semel' AND wait_event_type = 'Lock'";
    let mut pid = 0;
    while pid == 0 {
        pid = killer.count(waiting).await;
    }
    let pid = rustix::process::Pid::from_raw(pid.try_into().expect("a process id"));
    rustix::process::kill_process(pid.expect("a process"), signal).expect("the session is ours");
    std::future::pending::<()>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_takes_no_writes_is_unavailable() {
    let Some(server) = Postgres::start("a read-only database", &[]) else { return };
    let node = node(&server).await;
    one(&node, "key", Step::Add).await;
    let client = foreign(&server).await;
    client
        .client
        .batch_execute("ALTER SYSTEM SET default_transaction_read_only = on")
        .await
        .unwrap();
    client.client.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    let mut refused = 0;
    while refused < 3 {
        match try_one(&node, "key", Step::Add).await {
            Ok(_) => {}
            Err(StoreError::Unavailable(_)) => refused += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    client.client.batch_execute("SET default_transaction_read_only = off").await.unwrap();
    client.client.batch_execute("ALTER SYSTEM RESET default_transaction_read_only").await.unwrap();
    client.client.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    settle(&node, "key", Step::Add).await;
}

/// What was acknowledged as relaxed may go; what somebody synced has seen may not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relaxed_change_may_be_lost_until_somebody_synced_saw_it() {
    let settings = ["wal_writer_delay=10s"];
    let Some(mut server) = Postgres::start("relaxed changes", &settings) else { return };
    let mut lost = 0;
    for round in 0..3 {
        let node = node(&server).await;
        let (seen, unseen) = (format!("seen {round}"), format!("unseen {round}"));
        relaxed(&node, &seen).await;
        assert!(one(&node, &seen, Step::Read).await.is_some());
        relaxed(&node, &unseen).await;
        server.stop(Stop::Immediate);
        node.close();
        server.start_again();
        let node = self::node(&server).await;
        assert!(one(&node, &seen, Step::Read).await.is_some(), "what a synced read saw is lost");
        lost += usize::from(one(&node, &unseen, Step::Read).await.is_none());
    }
    println!("{lost} of 3 relaxed changes that nobody saw were lost");
    assert!(lost > 0, "relaxed commits are written at once: nothing is relaxed about them");
}

async fn relaxed(node: &PostgresStore, key: &str) {
    let answers = node.update(vec![item(key, Durability::Relaxed, Step::Add)]).await;
    assert!(answers[0].is_ok(), "{answers:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_can_not_be_reached_is_named_without_the_password() {
    let Some(server) = Postgres::start("a wrong password", &[]) else { return };
    let port = server.port();
    for url in [
        format!("postgres://nobody:s3cret@127.0.0.1:{port}/postgres"),
        format!("postgres://semel:s3cret@127.0.0.1:{port}/absent"),
        "postgres://semel:s3cret@127.0.0.1:1/postgres".to_owned(),
        format!("postgres://semel:s3cret@127.0.0.1:{port}/postgres?sslmode=require"),
    ] {
        let mut options = PostgresOptions::parse(&url).unwrap();
        options.connect_timeout_ms = 2_000;
        let error = PostgresStore::open(options).await.unwrap_err();
        assert!(matches!(error, OpenError::Unreachable(_)), "{error:?}");
        let text = format!("{error} {error:?}");
        assert!(!text.contains("s3cret") && !text.contains("postgres://"), "{text}");
        println!("{error}");
    }
}

/// The sessions are stopped, as if the network had swallowed all that is sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_says_nothing_is_given_up() {
    let Some(server) = Postgres::start("a silent database", &[]) else { return };
    let mut short = options(&server);
    short.statement_timeout_ms = 500;
    let node = PostgresStore::open(short).await.unwrap();
    one(&node, "key", Step::Add).await;
    let client = foreign(&server).await;
    let sessions = "SELECT pid FROM pg_stat_activity WHERE application_name = 'semel'";
    let rows = client.client.query(sessions, &[]).await.unwrap();
    let stopped: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
    let signal = |signal| {
        for pid in &stopped {
            let pid = rustix::process::Pid::from_raw(*pid).expect("a process id");
            // One that was given up may have ended.
            let _ = rustix::process::kill_process(pid, signal);
        }
    };
    signal(Signal::STOP);
    let began_us = SystemClock.monotonic_us();
    let answer = try_one(&node, "key", Step::Add).await;
    let took_us = SystemClock.monotonic_us() - began_us;
    // It was reading still.
    assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    assert!((1_400_000..8_000_000).contains(&took_us), "{took_us} µs");
    settle(&node, "key", Step::Add).await;
    signal(Signal::CONT);
    let count = one(&node, "key", Step::Read).await;
    assert_eq!(number(count.as_deref()), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn time_does_not_go_back_with_the_databases_clock() {
    let Some(server) = Postgres::start("a clock that went back", &[]) else { return };
    drop(node(&server).await);
    let client = foreign(&server).await;
    // As if the clock had been an hour ahead when the last commit came.
    let ahead = "UPDATE semel.times SET now_us =
                 (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + 3600000000 WHERE slot = 7";
    client.client.execute(ahead, &[]).await.unwrap();
    let node = node(&server).await;
    let answers = node.update(vec![Update {
        key: "key".into(),
        durability: Durability::Synced,
        patience: None,
        transition: crate::steps::TellTime,
    }]);
    let now_us = *answers.await[0].as_ref().expect("a time");
    let ahead_us = now_us - SystemClock.now_us();
    assert!((3_590_000_000..3_600_000_001).contains(&ahead_us), "{ahead_us} µs");
}
