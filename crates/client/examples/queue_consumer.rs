//! A consumer of a queue that delivers events at least once: wherever it is killed, each event has its effect
//! once.
//!
//! The pattern: (1) claim a whole delivery by the producer's event ids; (2) write each effect with its receipt
//! in one transaction; (3) complete; (4) only then acknowledge. After a crash the queue delivers again what was
//! not acknowledged. Then a claim says "done", and the event is acknowledged; or it is given anew, and the
//! receipt says whether the effect is there. Nothing is ever unclear here, so taking over is safe. With an
//! effect elsewhere, the steps between its begin and the completion would be: see `external_provider`.
//!
//! `cargo run -p semel-client --features postgres --example queue_consumer fill 10` fills a queue in the
//! database at SEMEL_EXAMPLE_DATABASE, each event twice; without words it consumes until the queue is empty.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "an example is a whole program: it starts its connection and prints"
)]

mod stage;

use std::time::Duration;

use semel_client::consumer::Event;
use semel_client::fingerprint::Intent;
use semel_client::keys::{OnOwnerLost, Response, Work};
use semel_client::{Deadline, local};
use stage::{Failure, database, semel, step};
use tokio::sync::Mutex;

const OPERATION: &str = "orders.apply";
/// Longer than the queue may deliver an event again.
const RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

/// A queue as a table: what is delivered is hidden for a second, and comes again unless it is deleted.
const QUEUE: &str = "
CREATE TABLE IF NOT EXISTS example_queue (
    delivery bigserial PRIMARY KEY, event text NOT NULL, cents bigint NOT NULL,
    hidden_until timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE IF NOT EXISTS example_effects (event text NOT NULL, cents bigint NOT NULL)";
const FILL: &str = "
INSERT INTO example_queue (event, cents)
SELECT 'event-' || number, number * 100 FROM generate_series(1, $1) AS number, (VALUES (1), (2)) AS copies";
const FETCH: &str = "
UPDATE example_queue SET hidden_until = now() + interval '1 second' WHERE delivery IN (
    SELECT delivery FROM example_queue WHERE hidden_until <= now()
    ORDER BY delivery LIMIT 100 FOR UPDATE SKIP LOCKED
) RETURNING delivery, event, cents";
const ACKNOWLEDGE: &str = "DELETE FROM example_queue WHERE delivery = $1";

struct Delivery {
    number: i64,
    event: String,
    cents: i64,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let queue = database().await?;
    queue.batch_execute(QUEUE).await?;
    queue.batch_execute(local::MIGRATION).await?;
    if let (Some("fill"), Some(count)) =
        (std::env::args().nth(1).as_deref(), std::env::args().nth(2))
    {
        let filled = queue.execute(FILL, &[&count.parse::<i32>()?]).await?;
        println!("{filled} deliveries are in the queue");
        return Ok(());
    }
    consume(&queue).await
}

async fn consume(queue: &tokio_postgres::Client) -> Result<(), Failure> {
    let consumer = semel()?
        .consumer(OPERATION)
        .lease(Duration::from_millis(500))
        .retention(RETENTION)
        .on_owner_lost(OnOwnerLost::TakeOver);
    // The handlers share a connection here; give each one of a pool.
    let effects = Mutex::new(database().await?);
    loop {
        let delivered = fetch(queue).await?;
        if delivered.is_empty() {
            if queue.query_opt("SELECT FROM example_queue LIMIT 1", &[]).await?.is_none() {
                println!("the queue is empty");
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        }
        step("fetched").await;
        let events = delivered.into_iter().map(|delivery| {
            let intent = Intent::new(OPERATION, "").bytes(&delivery.cents.to_be_bytes());
            Event::new(delivery.event.clone(), intent, delivery)
        });
        let deadline = Deadline::within(Duration::from_secs(30));
        let consumed = consumer
            .consume(events.collect(), deadline, async |claim, delivery: &Delivery| {
                step("claimed").await;
                let mut database = effects.lock().await;
                let under = local::under(claim.claim());
                let ran = under.run(&mut *database, async |tx| apply(tx, delivery).await).await;
                println!("{}: {}", delivery.event, told(&ran));
                step("committed").await;
                local::work(ran)
            })
            .await?;
        step("completed").await;
        for event in consumed {
            if event.may_acknowledge() {
                queue.execute(ACKNOWLEDGE, &[&event.payload.number]).await?;
                step("acknowledged").await;
            }
        }
    }
}

/// The effect: a row, which nothing but the receipt keeps from being there twice.
async fn apply(
    tx: &tokio_postgres::Transaction<'_>,
    delivery: &Delivery,
) -> Result<Work, tokio_postgres::Error> {
    let effect = "INSERT INTO example_effects VALUES ($1, $2)";
    tx.execute(effect, &[&delivery.event, &delivery.cents]).await?;
    step("written").await;
    Ok(Work::Succeeded(Response::new(200, format!("{} cents", delivery.cents))))
}

async fn fetch(queue: &tokio_postgres::Client) -> Result<Vec<Delivery>, Failure> {
    let rows = queue.query(FETCH, &[]).await?;
    let delivery = |row: &tokio_postgres::Row| Delivery {
        number: row.get(0),
        event: row.get(1),
        cents: row.get(2),
    };
    Ok(rows.iter().map(delivery).collect())
}

fn told(ran: &Result<local::Outcome, local::Error>) -> String {
    match ran {
        Ok(local::Outcome::Ran(_)) => "its effect is written".to_owned(),
        Ok(local::Outcome::Replayed(_)) => "its effect was there, by its receipt".to_owned(),
        other => format!("not now: {other:?}"),
    }
}
