//! Migrations: at once by many, none by those who may not, and never backwards.

use semel_store_postgres::{OpenError, PostgresStore, migrate, status};
use tokio::task::JoinSet;

use crate::postgres::Postgres;
use crate::steps::{Step, foreign, number, one, options};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_nodes_may_start_at_once_on_an_empty_database() {
    let Some(server) = Postgres::start("many nodes at once", &[]) else { return };
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let options = options(&server);
        tasks.spawn(async move {
            let store = PostgresStore::open(options).await.expect("every node opens");
            one(&store, "count", Step::Add).await;
        });
    }
    tasks.join_all().await;
    let store = PostgresStore::open(options(&server)).await.unwrap();
    assert_eq!(number(one(&store, "count", Step::Read).await.as_deref()), 8);
    let client = foreign(&server).await;
    assert_eq!(client.count("SELECT count(*) FROM semel.migrations").await, 1, "applied once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn migrations_are_told_applied_and_asked_for() {
    let Some(server) = Postgres::start("migrations", &[]) else { return };
    let mut options = options(&server);
    let before = status(&options).await.unwrap();
    assert_eq!((before.version, before.known, &before.missing[..]), (0, 1, &["records"][..]));
    options.migrate = false;
    let error = PostgresStore::open(options.clone()).await.unwrap_err();
    assert!(matches!(error, OpenError::Older { found: 0, known: 1, .. }), "{error:?}");
    assert_eq!(migrate(&options).await.unwrap(), ["records"]);
    assert_eq!(migrate(&options).await.unwrap(), Vec::<&str>::new());
    let after = status(&options).await.unwrap();
    assert_eq!((after.version, after.missing.len()), (1, 0));
    PostgresStore::open(options).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_schema_is_refused_and_left_alone() {
    let Some(server) = Postgres::start("a newer schema", &[]) else { return };
    migrate(&options(&server)).await.unwrap();
    let client = foreign(&server).await;
    let newer = "INSERT INTO semel.migrations (version, name) VALUES (7, 'later')";
    client.client.execute(newer, &[]).await.unwrap();
    for error in [
        PostgresStore::open(options(&server)).await.unwrap_err(),
        migrate(&options(&server)).await.unwrap_err(),
    ] {
        assert!(matches!(error, OpenError::Newer { found: 7, known: 1, .. }), "{error:?}");
        assert!(error.to_string().contains("upgrade this node"), "{error}");
    }
    assert_eq!(status(&options(&server)).await.unwrap().version, 7);
    assert_eq!(client.count("SELECT count(*) FROM semel.migrations").await, 2);
}
