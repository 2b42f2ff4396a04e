//! Receipts in a database of the caller's own: against a real server, and in two tests a real node.

use std::time::Duration;

use semel_client::fingerprint::{Fingerprint, Intent};
use semel_client::keys::{
    Claim, ClaimAnswer, ClaimRequest, KeyName, OnOwnerLost, Response, StuckKey, Work,
};
use semel_client::local::{self, Error, Outcome};
use semel_client::{Client, Deadline};
use tokio::task::{JoinSet, block_in_place};
use tokio::time::{sleep, timeout};
use tokio_postgres::{NoTls, Transaction};
use tokio_util::sync::CancellationToken;

use crate::postgres::Postgres;
use crate::support::node::Node;

const OPERATION: &str = "accounts.credit";
const LONG: Duration = Duration::from_secs(20);

/// A connection, which ends with its handle.
pub(crate) struct Database {
    pub(crate) client: tokio_postgres::Client,
    _connection: JoinSet<()>,
}

impl Database {
    pub(crate) async fn connect(postgres: &Postgres) -> Self {
        let (client, connection) = tokio_postgres::connect(&postgres.url(), NoTls).await.unwrap();
        let mut running = JoinSet::new();
        running.spawn(async {
            // It fails if the server ends the session, which some tests ask for.
            let _ = connection.await;
        });
        Self { client, _connection: running }
    }

    pub(crate) async fn count(&self, sql: &str) -> i64 {
        self.client.query_one(sql, &[]).await.unwrap().get(0)
    }

    async fn credits(&self, key: &str) -> i64 {
        self.count(&format!("SELECT count(*) FROM credits WHERE key = '{key}'")).await
    }

    /// Waits until some session waits for a lock.
    async fn until_one_waits(&self) {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        while self.count(waiting).await == 0 {
            sleep(Duration::from_millis(5)).await;
        }
    }
}

/// One server for all: starting one takes longer than each of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn effects_in_a_database_of_ones_own_happen_once() {
    let started = block_in_place(|| Postgres::start("receipts", &["fsync=off"]));
    let Some(postgres) = started else { return };
    let node = block_in_place(|| Node::start(&[]));
    let semel = Client::connect("acme", [node.url.as_str()]).unwrap();
    a_concurrent_duplicate_waits_and_sees_the_result(&postgres).await;
    a_crash_rolls_both_back_and_whoever_waits_does_the_work(&postgres).await;
    who_waits_for_longer_than_the_lock_timeout_comes_back_later(&postgres).await;
    what_is_not_done_leaves_nothing_and_another_intent_is_refused(&postgres).await;
    receipts_are_pruned_in_bounded_batches_the_oldest_first(&postgres).await;
    a_paused_owner_and_the_one_that_took_over_write_once(&postgres, &semel).await;
    recovery_settles_by_receipts_and_bars_who_was_only_slow(&postgres, &semel).await;
    a_lost_database_leaves_the_work_not_done(postgres, &semel).await;
    node.assert_calm();
}

/// The database as it is at first.
async fn fresh(postgres: &Postgres) -> Database {
    let database = Database::connect(postgres).await;
    let tables = [
        "DROP SCHEMA public CASCADE; CREATE SCHEMA public",
        local::MIGRATION,
        local::MIGRATION,
        "CREATE TABLE credits (key text NOT NULL)",
    ];
    for sql in tables {
        database.client.batch_execute(sql).await.unwrap();
    }
    database
}

fn name(key: &str) -> KeyName {
    KeyName::new("acme", OPERATION, key)
}

fn print(key: &str) -> Fingerprint {
    Intent::new(OPERATION, key).bytes(b"4200 EUR")
}

fn answer(key: &str) -> Response {
    Response::new(200, format!("credited {key}")).content_type("text/plain").header("by", "first")
}

/// The effect: a row, which nothing keeps from being there twice.
async fn credit(tx: &Transaction<'_>, key: &str) -> Result<Work, tokio_postgres::Error> {
    tx.execute("INSERT INTO credits VALUES ($1)", &[&key]).await?;
    Ok(Work::Succeeded(answer(key)))
}

async fn never(_: &Transaction<'_>) -> Result<Work, tokio_postgres::Error> {
    panic!("the work must not run")
}

/// The first execution: does its work, says so, and stays in its transaction until it may go on.
async fn slow(
    mut database: Database,
    key: &'static str,
    begun: CancellationToken,
    go: CancellationToken,
) -> Result<Outcome, Error> {
    let work = async |tx: &Transaction<'_>| {
        let work = credit(tx, key).await;
        begun.cancel();
        go.cancelled().await;
        // The session may have been ended meanwhile.
        tx.execute("SELECT 1", &[]).await?;
        work
    };
    local::once(&name(key), &print(key)).run(&mut database.client, work).await
}

async fn a_concurrent_duplicate_waits_and_sees_the_result(postgres: &Postgres) {
    let watcher = fresh(postgres).await;
    let (begun, go) = (CancellationToken::new(), CancellationToken::new());
    let (first, mut second) =
        (Database::connect(postgres).await, Database::connect(postgres).await);
    let mut running = JoinSet::new();
    running.spawn(slow(first, "a", begun.clone(), go.clone()));
    begun.cancelled().await;
    let duplicate = local::once(&name("a"), &print("a")).lock_timeout(LONG);
    let (duplicate, ()) = tokio::join!(duplicate.run(&mut second.client, never), async {
        watcher.until_one_waits().await;
        assert_eq!(watcher.credits("a").await, 0, "nothing is visible before the commit");
        go.cancel();
    });
    let first = running.join_next().await.unwrap().unwrap().unwrap();
    let (Outcome::Ran(ran), Outcome::Replayed(replayed)) = (&first, duplicate.unwrap()) else {
        panic!("{first:?}")
    };
    assert_eq!(*ran, replayed, "byte for byte");
    assert_eq!(replayed.response, answer("a"));
    assert_eq!(watcher.credits("a").await, 1);
}

async fn a_crash_rolls_both_back_and_whoever_waits_does_the_work(postgres: &Postgres) {
    let watcher = fresh(postgres).await;
    let (begun, go) = (CancellationToken::new(), CancellationToken::new());
    let (first, mut second) =
        (Database::connect(postgres).await, Database::connect(postgres).await);
    let pid: i32 = first.client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let mut running = JoinSet::new();
    running.spawn(slow(first, "b", begun.clone(), go.clone()));
    begun.cancelled().await;
    let duplicate = local::once(&name("b"), &print("b")).lock_timeout(LONG);
    let work = async |tx: &Transaction<'_>| credit(tx, "b").await;
    let (duplicate, ()) = tokio::join!(duplicate.run(&mut second.client, work), async {
        watcher.until_one_waits().await;
        watcher.client.execute("SELECT pg_terminate_backend($1)", &[&pid]).await.unwrap();
        go.cancel();
    });
    let first = running.join_next().await.unwrap().unwrap();
    assert!(matches!(first, Err(Error::Database(_))), "{first:?}");
    assert!(matches!(duplicate, Ok(Outcome::Ran(_))), "{duplicate:?}");
    assert_eq!(watcher.credits("b").await, 1);
}

async fn who_waits_for_longer_than_the_lock_timeout_comes_back_later(postgres: &Postgres) {
    let watcher = fresh(postgres).await;
    let (begun, go) = (CancellationToken::new(), CancellationToken::new());
    let (first, mut second) =
        (Database::connect(postgres).await, Database::connect(postgres).await);
    let mut running = JoinSet::new();
    running.spawn(slow(first, "c", begun.clone(), go.clone()));
    begun.cancelled().await;
    let once = || local::once(&name("c"), &print("c"));
    // Inside a transaction of the caller's own, which goes on.
    let mut outer = second.client.transaction().await.unwrap();
    outer.batch_execute("SET LOCAL lock_timeout = '7s'").await.unwrap();
    let later = timeout(Duration::from_secs(5), once().run(&mut outer, never)).await;
    let later = later.expect("it waits by its own lock timeout").unwrap();
    assert_eq!(later, Outcome::ComeBackLater { after: Duration::from_millis(200) });
    let other = local::once(&name("d"), &print("d"));
    let ran = other.run(&mut outer, async |tx: &Transaction<'_>| {
        let row = tx.query_one("SELECT current_setting('lock_timeout')", &[]).await?;
        assert_eq!(row.get::<_, &str>(0), "7s", "the work has the caller's own");
        credit(tx, "d").await
    });
    assert!(matches!(ran.await, Ok(Outcome::Ran(_))));
    outer.commit().await.unwrap();
    go.cancel();
    let first = running.join_next().await.unwrap().unwrap();
    assert!(matches!(first, Ok(Outcome::Ran(_))), "{first:?}");
    let replayed = once().run(&mut second.client, never).await;
    assert!(matches!(replayed, Ok(Outcome::Replayed(_))), "{replayed:?}");
    assert_eq!((watcher.credits("c").await, watcher.credits("d").await), (1, 1));
}

async fn what_is_not_done_leaves_nothing_and_another_intent_is_refused(postgres: &Postgres) {
    let mut database = fresh(postgres).await;
    let once = || local::once(&name("e"), &print("e"));
    for work in [Work::NotDone, Work::Unknown] {
        let undone = once().run(&mut database.client, async |tx: &Transaction<'_>| {
            credit(tx, "e").await?;
            Ok(work)
        });
        assert_eq!(undone.await.unwrap(), Outcome::NotDone);
    }
    let failed = once().run(&mut database.client, async |tx: &Transaction<'_>| {
        credit(tx, "e").await?;
        tx.execute("SELECT 1 / 0", &[]).await.map(|_| Work::NotDone)
    });
    let failed = failed.await.unwrap_err();
    assert!(failed.to_string().contains("division by zero (22012)"), "{failed}");
    assert_eq!(database.count("SELECT count(*) FROM credits").await, 0);
    assert_eq!(database.count("SELECT count(*) FROM semel_receipts").await, 0);
    let declined = Response::new(402, [0xff, 0x00].as_slice());
    let ran = once().run(&mut database.client, async |_: &Transaction<'_>| {
        Ok(Work::FailedFinal(declined.clone()))
    });
    assert!(matches!(ran.await, Ok(Outcome::Ran(receipt)) if receipt.failed));
    let again = once().run(&mut database.client, never).await.unwrap();
    assert_eq!(again.response(), Some(&declined));
    let other = local::once(&name("e"), &print("another")).run(&mut database.client, never).await;
    assert!(matches!(other, Err(Error::Mismatch { .. })), "{other:?}");
}

async fn receipts_are_pruned_in_bounded_batches_the_oldest_first(postgres: &Postgres) {
    let mut database = fresh(postgres).await;
    for key in ["k1", "k2", "k3", "k4", "young"] {
        let work = async |tx: &Transaction<'_>| credit(tx, key).await;
        let ran = local::once(&name(key), &print(key)).run(&mut database.client, work).await;
        assert!(matches!(ran, Ok(Outcome::Ran(_))), "{ran:?}");
    }
    let age = "UPDATE semel_receipts SET written_at = written_at - interval '1 day'
        - right(key, 1)::int * interval '1 hour' WHERE key LIKE 'k_'";
    database.client.execute(age, &[]).await.unwrap();
    let day = Duration::from_secs(24 * 60 * 60);
    assert_eq!(local::prune(&database.client, day, 3).await.unwrap(), 3);
    assert_eq!(database.count("SELECT count(*) FROM semel_receipts WHERE key = 'k1'").await, 1);
    assert_eq!(local::prune(&database.client, day, 3).await.unwrap(), 1);
    assert_eq!(local::prune(&database.client, day, 3).await.unwrap(), 0);
    assert_eq!(database.count("SELECT count(*) FROM semel_receipts").await, 1);
}

/// A claim whose owner will be slower than its lease.
async fn claim(semel: &Client, key: &str, policy: OnOwnerLost) -> Claim {
    let request = ClaimRequest::new(OPERATION, key).fingerprint(print(key)).wait(LONG);
    let request = request.lease(Duration::from_millis(300)).on_owner_lost(policy);
    match semel.claim(&request, Deadline::within(LONG)).await.unwrap() {
        ClaimAnswer::Yours(claim) => *claim,
        other => panic!("{key}: {other:?}"),
    }
}

async fn a_paused_owner_and_the_one_that_took_over_write_once(postgres: &Postgres, semel: &Client) {
    let mut database = fresh(postgres).await;
    for (key, old_wakes_first) in [("old-first", true), ("new-first", false)] {
        let old = claim(semel, key, OnOwnerLost::TakeOver).await;
        let new = claim(semel, key, OnOwnerLost::TakeOver).await;
        assert!(new.fence > old.fence);
        let (first, second) = if old_wakes_first { (&old, &new) } else { (&new, &old) };
        let work = async |tx: &Transaction<'_>| credit(tx, key).await;
        let ran = local::under(first).run(&mut database.client, work).await.unwrap();
        assert!(matches!(&ran, Outcome::Ran(receipt) if receipt.fence == first.fence), "{ran:?}");
        let found = local::under(second).run(&mut database.client, never).await;
        assert!(matches!(&found, Ok(Outcome::Replayed(it)) if it.fence == first.fence));
        assert_eq!(database.credits(key).await, 1);
        let work = local::work(found);
        assert_eq!(work, Work::Succeeded(answer(key)));
        semel.complete(&new, &work, Deadline::within(LONG)).await.unwrap();
    }
}

async fn recovery_settles_by_receipts_and_bars_who_was_only_slow(
    postgres: &Postgres,
    semel: &Client,
) {
    let mut database = fresh(postgres).await;
    let looking = Database::connect(postgres).await;
    let sweep = async || {
        let recovery = semel.recovery(OPERATION, "recovery-test");
        let look = async |key: &StuckKey| local::resolution(&looking.client, key).await.unwrap();
        let swept = recovery.sweep(Deadline::within(LONG), look).await.unwrap();
        (swept.settled, swept.unclear, swept.moved_on, swept.failed)
    };
    let committed = claim(semel, "committed", OnOwnerLost::Block).await;
    let paused = claim(semel, "paused", OnOwnerLost::Block).await;
    let open = claim(semel, "open", OnOwnerLost::Block).await;
    // The first is lost after its commit; the third is slow, in the middle of its transaction.
    let work = async |tx: &Transaction<'_>| credit(tx, "committed").await;
    let ran = local::under(&committed).run(&mut database.client, work).await;
    assert!(matches!(ran, Ok(Outcome::Ran(_))), "{ran:?}");
    let mut another = Database::connect(postgres).await;
    let (begun, go) = (CancellationToken::new(), CancellationToken::new());
    let slow = local::under(&open).run(&mut another.client, async |tx: &Transaction<'_>| {
        let work = credit(tx, "open").await;
        begun.cancel();
        go.cancelled().await;
        work
    });
    let recovering = async {
        begun.cancelled().await;
        let mut met = (0, 0);
        while met != (2, 1) {
            let (settled, unclear, moved_on, failed) = sweep().await;
            assert_eq!((moved_on, failed), (0, 0));
            met = (met.0 + settled, unclear);
            sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(sweep().await, (0, 1, 0, 0), "one is still open");
        go.cancel();
    };
    let (slow, ()) = tokio::join!(slow, recovering);
    assert!(matches!(slow, Ok(Outcome::Ran(_))), "{slow:?}");
    assert_eq!(sweep().await, (1, 0, 0, 0), "its commit came in time to be seen");

    let late = local::under(&paused).run(&mut database.client, never).await.unwrap();
    assert_eq!(late, Outcome::Fenced { fence: paused.fence });
    for (key, ran_now) in [("committed", 0), ("open", 0), ("paused", 1)] {
        let mut runs = 0;
        let once = semel.once(OPERATION, key).fingerprint(print(key));
        let outcome = once.run(async |held| {
            runs += 1;
            let work = async |tx: &Transaction<'_>| credit(tx, key).await;
            local::work(local::under(held.claim()).run(&mut database.client, work).await)
        });
        let outcome = outcome.await.unwrap();
        assert!(outcome.is_settled(), "{outcome:?}");
        assert_eq!(outcome.response(), Some(&answer(key)), "the result that the work had stored");
        assert_eq!((runs, database.credits(key).await), (ran_now, 1), "{key}");
    }
}

async fn a_lost_database_leaves_the_work_not_done(postgres: Postgres, semel: &Client) {
    let mut database = fresh(&postgres).await;
    let claim = claim(semel, "lost", OnOwnerLost::Block).await;
    let lost = local::under(&claim).run(&mut database.client, async |tx: &Transaction<'_>| {
        let work = credit(tx, "lost").await?;
        block_in_place(|| drop(postgres));
        tx.execute("SELECT 1", &[]).await.map(|_| work)
    });
    assert_eq!(local::work(lost.await), Work::NotDone, "no COMMIT was sent");
}
