//! An outbox: an order and the message about it are written in one transaction, and a relay publishes each
//! message once, though relays are killed and run side by side.
//!
//! The pattern: (1) the effect, its receipt and the outbox row in one transaction, without a node; (2) relays
//! claim rows by their ids, so that one of them publishes each; (3) the message carries the derived key: whoever
//! comes after a lost relay *looks* for it, and consumers drop copies by it. Only a relay that was frozen for
//! longer than its lease, between its claim and its publishing, can make such a copy.
//!
//! With `--features postgres --example outbox`: `order NAME` places an order in the database at
//! SEMEL_EXAMPLE_DATABASE, as often as you like; `relay` publishes to the topic, a file at
//! SEMEL_EXAMPLE_TOPIC, until the outbox is empty.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "an example is a whole program: it starts its connection and prints"
)]

mod stage;

use std::io::Write;
use std::time::Duration;

use semel_client::consumer::{Consumer, Event};
use semel_client::fingerprint::Intent;
use semel_client::keys::{Disposition, KeyName, Response, Work};
use semel_client::once::Held;
use semel_client::{Deadline, local};
use stage::{Failure, database, semel, setting, step};
use tokio_postgres::Client;

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS example_orders (name text NOT NULL);
CREATE TABLE IF NOT EXISTS example_outbox (
    id bigserial PRIMARY KEY, message text NOT NULL, published_at timestamptz
)";
const UNPUBLISHED: &str =
    "SELECT id, message FROM example_outbox WHERE published_at IS NULL ORDER BY id LIMIT 100";
const PUBLISHED: &str = "UPDATE example_outbox SET published_at = now() WHERE id = $1";

struct Message {
    id: i64,
    text: String,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut database = database().await?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tables"] => Ok(database.batch_execute(&format!("{TABLES};{}", local::MIGRATION)).await?),
        ["order", name] => order(&mut database, name).await,
        ["relay"] => relay(&database).await,
        _ => Err("say tables, order NAME, or relay".into()),
    }
}

/// Places an order once, however often it is asked for.
async fn order(database: &mut Client, name: &str) -> Result<(), Failure> {
    let intent = Intent::new("orders.place", name).bytes(b"");
    let outcome = local::once(&KeyName::new("acme", "orders.place", name), &intent)
        .lock_timeout(Duration::from_secs(5))
        .run(database, async |tx| {
            tx.execute("INSERT INTO example_orders VALUES ($1)", &[&name]).await?;
            let message = format!("placed {name}");
            tx.execute("INSERT INTO example_outbox (message) VALUES ($1)", &[&message]).await?;
            step("written").await;
            Ok(Work::Succeeded(Response::new(201, message)))
        })
        .await?;
    match outcome {
        local::Outcome::Ran(_) => println!("{name} is placed"),
        local::Outcome::Replayed(_) => println!("{name} was placed before"),
        other => println!("not now: {other:?}"),
    }
    Ok(())
}

async fn relay(database: &Client) -> Result<(), Failure> {
    let consumer = semel()?.consumer("orders.publish").lease(Duration::from_millis(500));
    loop {
        let rows = database.query(UNPUBLISHED, &[]).await?;
        if rows.is_empty() {
            println!("the outbox is empty");
            return Ok(());
        }
        let messages = rows.iter().map(|row| Message { id: row.get(0), text: row.get(1) });
        if !publish(database, &consumer, messages.collect()).await? {
            // Another relay is at them.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Publishes what no other relay is at; whether that was anything.
async fn publish(
    database: &Client,
    consumer: &Consumer,
    messages: Vec<Message>,
) -> Result<bool, Failure> {
    let events = messages.into_iter().map(|message| {
        let intent = Intent::new("orders.publish", "orders").bytes(message.text.as_bytes());
        Event::new(format!("outbox-{}", message.id), intent, message)
    });
    let deadline = Deadline::within(Duration::from_secs(30));
    let consumed = consumer
        .consume(events.collect(), deadline, async |claim, message: &Message| {
            match send(&claim, message) {
                Ok(()) => {
                    step("published").await;
                    Work::Succeeded(Response::default())
                }
                Err(_) => Work::Unknown, // Perhaps it is in the topic: whoever comes next looks.
            }
        })
        .await?;
    step("completed").await;
    let mut any = false;
    for event in consumed {
        if event.may_acknowledge() {
            any = true;
            database.execute(PUBLISHED, &[&event.payload.id]).await?;
        }
    }
    Ok(any)
}

/// Appends the message to the topic, behind the key that consumers drop copies by.
fn send(claim: &Held, message: &Message) -> Result<(), std::io::Error> {
    let path = setting("SEMEL_EXAMPLE_TOPIC", "topic.txt");
    let key = claim.derived_key();
    let mut topic = std::fs::File::options().create(true).append(true).open(&path)?;
    if claim.disposition() != Disposition::Claimed {
        let topic = std::fs::read_to_string(&path)?;
        if topic.lines().any(|line| line.split(' ').next() == Some(key)) {
            println!("{} was published by a relay that is gone", message.text);
            return Ok(());
        }
    }
    topic.write_all(format!("{key} {}\n", message.text).as_bytes())?;
    topic.sync_all()?;
    println!("{} is published", message.text);
    Ok(())
}
