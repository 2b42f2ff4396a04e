//! Opening a store, and what it finds.

use std::sync::Arc;
use std::time::Duration;

use foundationdb::tuple::Subspace;
use semel_store_fdb::{FdbOptions, Network, NetworkOptions, OpenError};

use crate::bench::{Bench, Test};
use crate::steps::{Step, one, time_of};
use crate::tests;

pub(crate) fn tests() -> Vec<Test> {
    let alone = tests![an_opening_that_is_given_up_leaves_nothing_running].into_iter();
    let all = tests![
        the_network_is_started_once,
        a_newer_store_is_refused,
        a_cluster_file_that_is_not_there_is_named,
        a_cluster_that_is_not_there_is_given_up,
        what_nodes_left_behind_that_are_gone_is_removed,
        stores_of_two_names_are_two_stores,
        one_copy_of_everything_is_warned_of,
    ];
    all.into_iter().chain(alone.map(Test::alone)).collect()
}

async fn the_network_is_started_once(_bench: Arc<Bench>) {
    let again = Network::start(&NetworkOptions::default());
    assert!(matches!(again, Err(OpenError::Started)), "{again:?}");
}

async fn set(bench: &Bench, key: &[u8], value: &[u8]) {
    let transaction = bench.transaction();
    transaction.set(key, value);
    transaction.commit().await.expect("nobody else writes it");
}

async fn a_newer_store_is_refused(bench: Arc<Bench>) {
    let name = bench.name();
    bench.open(bench.options(&name)).await.close();
    let version = Subspace::from_bytes(bench.prefix(&name).await).pack(&(5,));
    set(&bench, &version, &2_u32.to_le_bytes()).await;
    let refused = bench.try_open(bench.options(&name)).await.unwrap_err();
    assert!(matches!(refused, OpenError::Newer { found: 2, known: 1, .. }), "{refused:?}");
}

async fn a_cluster_file_that_is_not_there_is_named(bench: Arc<Bench>) {
    let refused = bench.try_open(FdbOptions::new("/nowhere/fdb.cluster")).await.unwrap_err();
    assert!(refused.to_string().contains("/nowhere/fdb.cluster"), "{refused}");
}

async fn a_cluster_that_is_not_there_is_given_up(bench: Arc<Bench>) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("fdb.cluster");
    std::fs::write(&file, "nobody:nobody@127.0.0.1:1").unwrap();
    let mut options = FdbOptions::new(&file);
    options.connect_timeout_ms = 300;
    let refused = bench.try_open(options).await.unwrap_err();
    assert!(matches!(refused, OpenError::Unreachable(_)), "{refused:?}");
}

async fn what_nodes_left_behind_that_are_gone_is_removed(bench: Arc<Bench>) {
    let name = bench.name();
    bench.open(bench.options(&name)).await.close();
    let below = Subspace::from_bytes(bench.prefix(&name).await);
    // Its last stamp is older than any version, and has a time in the year 2100.
    let then_us = 4_102_444_800_000_000_u64;
    let stamp = [&[1][..], &then_us.to_le_bytes(), &i64::MIN.to_le_bytes()].concat();
    let keys = [below.pack(&(4, 77_u64)), below.pack(&(3, 77_u64, 0, 5_u64))];
    set(&bench, &keys[0], &stamp).await;
    set(&bench, &keys[1], &[&[1][..], &then_us.to_le_bytes()].concat()).await;
    for _ in 0..2 {
        let node = bench.open(bench.options(&name)).await;
        assert!(time_of(&node).await >= then_us, "time never goes back, even so");
        for key in &keys {
            let left = bench.transaction().get(key, true).await.unwrap();
            assert!(left.is_none(), "{key:?} is removed");
        }
        node.close();
    }
}

async fn stores_of_two_names_are_two_stores(bench: Arc<Bench>) {
    let (first, second) = (bench.nodes(1).await, bench.nodes(1).await);
    one(&first[0], "key", Step::Add).await;
    assert_eq!(one(&second[0], "key", Step::Read).await, None);
}

async fn one_copy_of_everything_is_warned_of(bench: Arc<Bench>) {
    let node = bench.nodes(1).await.remove(0);
    let warnings = node.durability_warnings().await.unwrap();
    // Somebody else's cluster may be a better one.
    if std::env::var_os("FDB_CLUSTER_FILE").is_none() {
        assert!(warnings[0].contains("`single`"), "{warnings:?}");
    }
}

/// Whoever gives up an opening, at any moment, may end the process at once: the network must have
/// stopped by then, so nothing may still use it.
async fn an_opening_that_is_given_up_leaves_nothing_running(bench: Arc<Bench>) {
    let before = bench.network_users();
    let name = bench.name();
    for wait_ms in [0, 1, 3, 10, 30, 100] {
        let opening = bench.try_open(bench.options(&name));
        let opened = tokio::time::timeout(Duration::from_millis(wait_ms), opening).await;
        drop(opened);
        assert_eq!(bench.network_users(), before, "given up after {wait_ms} ms");
    }
    bench.server().kill(0);
    let opening = bench.try_open(bench.options(&name));
    assert!(tokio::time::timeout(Duration::from_millis(100), opening).await.is_err());
    bench.server().start_again(0);
    assert_eq!(bench.network_users(), before, "given up while the cluster is away");
}
