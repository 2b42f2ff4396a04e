//! What is said of settings with which acknowledged changes can be lost, and that nothing is said of others.

use std::process::{Child, Stdio};
use std::sync::Arc;

use semel_store::{Durability, Store, StoreError};
use semel_store_postgres::{PostgresOptions, PostgresStore};
use tokio::task::JoinSet;

use crate::postgres::Postgres;
use crate::standby::{Commits, Standby};
use crate::steps::{Step, item, node, one};

/// The settings that the warnings begin with.
async fn named(node: &PostgresStore) -> Vec<String> {
    let warnings = node.durability_warnings().await.unwrap();
    let first = |warning: &String| warning.split(' ').next().unwrap_or_default().to_owned();
    for warning in &warnings {
        let loud = ["lose", "lost", "damage"].iter().any(|word| warning.contains(word));
        assert!(loud, "it does not say what is at stake: {warning}");
    }
    warnings.iter().map(first).collect()
}

/// A node whose role owns its schema and nothing else, as databases are run.
async fn plain_node(server: &Postgres) -> Arc<PostgresStore> {
    server.sql(&["CREATE ROLE plain LOGIN", "GRANT CREATE ON DATABASE postgres TO plain"]);
    let url = server.url().replace("semel@", "plain@");
    Arc::new(PostgresStore::open(PostgresOptions::parse(&url).unwrap()).await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_setting_that_loses_data_is_told_and_sound_ones_are_not() {
    for (setting, expected) in [
        ("fsync=off", vec!["fsync"]),
        ("full_page_writes=off", vec!["full_page_writes"]),
        ("synchronous_commit=off", vec!["synchronous_commit"]),
        // These keep what is on the disk of this server, and Semel commits with more.
        ("synchronous_commit=local", vec![]),
        ("synchronous_commit=remote_write", vec![]),
        ("synchronous_commit=on", vec![]),
    ] {
        let Some(server) = Postgres::start("dangerous settings", &[setting]) else { return };
        let node = node(&server).await;
        assert_eq!(named(&node).await, expected, "{setting}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_set_for_the_role_alone_is_told() {
    let Some(server) = Postgres::start("a dangerous role", &[]) else { return };
    let node = plain_node(&server).await;
    assert_eq!(named(&node).await, Vec::<String>::new());
    node.close();
    server.sql(&["ALTER ROLE plain SET synchronous_commit = off"]);
    let url = server.url().replace("semel@", "plain@");
    let node = PostgresStore::open(PostgresOptions::parse(&url).unwrap()).await.unwrap();
    assert_eq!(named(&node).await, ["synchronous_commit"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_that_commits_do_not_wait_for_is_told_to_roles_that_see_nothing_of_it() {
    let Some(primary) = Postgres::start("standbys", &[]) else { return };
    let plain = plain_node(&primary).await;
    let superuser = node(&primary).await;
    for (commits, expected) in
        [(Commits::DoNotWait, vec!["synchronous_standby_names"]), (Commits::WaitForStandby, vec![])]
    {
        let _standby = Standby::of(&primary, commits);
        let seen = "SET ROLE plain; SELECT count(*), count(state) FROM pg_stat_replication";
        assert_eq!(primary.sql(&[seen]), "1|0", "the role sees that there is one, and no more");
        for node in [&superuser, &plain] {
            assert_eq!(named(node).await, expected, "{commits:?}");
        }
    }
}

/// Without this, the warning would be of no use: a role may have said that it does not wait for standbys.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn synced_writes_wait_for_the_standby_whatever_the_role_says() {
    // Not a matter of disks, so they need not be waited for.
    let settings = ["fsync=off"];
    let Some(primary) = Postgres::start("a standby that is waited for", &settings) else { return };
    let mut standby = Standby::of(&primary, Commits::WaitForStandby);
    for word in ["off", "local", "remote_write"] {
        primary.sql(&[&format!("ALTER ROLE semel SET synchronous_commit = {word}")]);
        let node = node(&primary).await;
        one(&node, word, Step::Add).await;
        standby.stop();
        let write = vec![item(word, Durability::Synced, Step::Add)];
        let mut writing = JoinSet::new();
        writing.spawn({
            let node = Arc::clone(&node);
            async move { node.update(write).await.remove(0) }
        });
        // It is there, and waits for the standby.
        let waits = "DO $$ BEGIN
            WHILE NOT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep') LOOP
                PERFORM pg_sleep(0.02);
                PERFORM pg_stat_clear_snapshot();
            END LOOP;
        END $$";
        primary.sql(&["SET statement_timeout = '30 s'", waits]);
        assert!(writing.try_join_next().is_none(), "{word}");
        tokio::task::block_in_place(|| standby.start_again(&primary));
        // On a slow machine the node may have lost its patience first, and then it says so.
        let written = writing.join_next().await.unwrap().unwrap();
        assert!(matches!(written, Ok(_) | Err(StoreError::Unknown(_))), "{word}: {written:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_logical_subscriber_is_no_standby() {
    let Some(primary) = Postgres::start("a subscriber", &["wal_level=logical"]) else { return };
    let node = plain_node(&primary).await;
    primary.sql(&["SELECT pg_create_logical_replication_slot('feed', 'test_decoding')"]);
    let mut receive = primary.program("pg_recvlogical");
    receive.args(["--dbname", &primary.url(), "--slot=feed", "--start", "--file=-"]);
    let _receiver = Receiver(receive.stderr(Stdio::null()).spawn().unwrap());
    let streams = "DO $$ BEGIN
        WHILE NOT EXISTS (SELECT FROM pg_stat_replication WHERE state = 'streaming') LOOP
            PERFORM pg_sleep(0.02);
            PERFORM pg_stat_clear_snapshot();
        END LOOP;
    END $$";
    primary.sql(&["SET statement_timeout = '30 s'", streams]);
    assert_eq!(named(&node).await, Vec::<String>::new());
}

struct Receiver(Child);

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
