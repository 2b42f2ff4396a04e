//! Plans of statements: made once, and right for tables of any size.

use std::time::Duration;

use semel_store::{Durability, Store};

use crate::postgres::Postgres;
use crate::steps::{Step, foreign, item, node};

/// Records of the full database.
const RECORDS: usize = 20_000;

/// Statements keep the plans that they got when the tables were empty. None may read a table from end to
/// end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_that_were_made_for_an_empty_database_serve_a_full_one() {
    let Some(server) = Postgres::start("plans", &["autovacuum=off"]) else { return };
    let node = node(&server).await;
    let every_shape = async || {
        for round in 0..8_u64 {
            let steps = [
                ("a", Step::Put("a".into())),
                ("b", Step::Append(round)),
                ("c", if round % 2 == 0 { Step::Put("c".into()) } else { Step::Delete }),
                ("d", Step::Read),
            ];
            let batch = steps.map(|(key, step)| item(key, Durability::Synced, step));
            assert!(node.update(batch.into()).await.iter().all(Result::is_ok));
            let claim = Step::Claim(format!("owner {round}").into());
            let batch = vec![item(&format!("new {round}"), Durability::Relaxed, claim)];
            assert!(node.update(batch).await.iter().all(Result::is_ok));
        }
    };
    every_shape().await;
    for page in 0..RECORDS / 2_000 {
        let claim = |nth: usize| {
            let name = format!("record {page} {nth}");
            item(&name, Durability::Relaxed, Step::Claim(name.clone().into()))
        };
        assert!(node.update((0..2_000).map(claim).collect()).await.iter().all(Result::is_ok));
    }
    every_shape().await;
    node.close();

    let database = foreign(&server).await;
    let counts = "SELECT sum(seq_tup_read)::bigint, sum(n_tup_ins)::bigint FROM pg_stat_user_tables
                  WHERE relname IN ('records', 'entries')";
    let inserted = i64::try_from(2 * RECORDS).unwrap();
    // The sessions tell their counts when they end.
    let told = async {
        loop {
            let row = database.client.query_one(counts, &[]).await.unwrap();
            if row.get::<_, i64>(1) >= inserted {
                return row.get::<_, i64>(0);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let read = tokio::time::timeout(Duration::from_secs(20), told).await.expect("the counts");
    assert!(read < 1_000, "{read} rows were read from end to end");
}
