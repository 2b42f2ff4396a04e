//! A charge behind somebody else's API: the worker is killed after the provider answered, and there is one
//! charge all the same.
//!
//! The pattern: (1) record that the provider is about to be asked; (2) ask it under a key derived from the
//! intent; (3) complete. Whoever comes after a lost worker *looks* first: by that key the provider says whether
//! it charged. It is asked to charge again only while it is sure to know the key still.
//!
//! `cargo run -p semel-client --example external_provider` plays all of it against the node at SEMEL_TARGET,
//! with processes of its own: `provider SECONDS` (how long it remembers keys; 0: it ignores them), `worker
//! ORDER`, `recovery` and `count`.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "an example is a whole program: it may read the clock and print"
)]

mod stage;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use semel_client::fingerprint::Intent;
use semel_client::keys::{Disposition, Resolution, Response, StuckKey, Work};
use semel_client::{Client, Deadline};
use stage::{Failure, semel, setting, step};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const OPERATION: &str = "payments.charge";
/// How long a worker may stand still, as on a machine with too much to do, before it counts as lost.
const LEASE: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["provider", seconds] => provider(seconds.parse()?).await,
        ["worker", order] => worker(&semel()?, order).await,
        ["recovery"] => recovery(&semel()?).await,
        ["count"] => {
            println!("charges: {}", ask("COUNT").await?);
            Ok(())
        }
        _ => story().await,
    }
}

/// Charges once for an order, and says how it went.
async fn worker(semel: &Client, order: &str) -> Result<(), Failure> {
    let intent = Intent::new(OPERATION, "account/77").bytes(b"4200 EUR");
    let once = semel.once(OPERATION, order).fingerprint(intent).lease(LEASE);
    let outcome = once
        .wait(4 * LEASE)
        .run(async |claim| {
            let key = claim.derived_key();
            if claim.disposition() == Disposition::ReconcileRequired {
                println!("an earlier worker was lost: looking for {key} first");
                // Without a checkpoint nobody was asked yet.
                let asked_at = claim.claim().checkpoint.as_deref().and_then(seconds);
                match look(key, asked_at.map(Duration::from_secs)).await {
                    Some(Resolution::Succeeded(response)) => return Work::Succeeded(response),
                    None if asked_at.is_some() => return Work::Unknown,
                    _ => println!("not charged"),
                }
            }
            if claim.save_checkpoint(since_epoch().as_secs().to_string()).await.is_err() {
                return Work::NotDone; // The claim is another's, and nobody was asked.
            }
            step("pending-recorded").await;
            let answer = ask(&format!("CHARGE {key}")).await;
            step("provider-answered").await;
            match answer {
                Ok(receipt) => Work::Succeeded(Response::new(200, receipt)),
                Err(_) => Work::Unknown, // Perhaps it was charged.
            }
        })
        .await?;
    println!("worker: {outcome:?}");
    Ok(())
}

/// Settles the charges that lost workers left behind.
async fn recovery(semel: &Client) -> Result<(), Failure> {
    let look = async |key: &StuckKey| {
        println!("looking for {}", key.derived_key);
        look(&key.derived_key, key.touched_at?.duration_since(UNIX_EPOCH).ok()).await
    };
    let recovery = semel.recovery(OPERATION, "recovery-job");
    let swept = recovery.sweep(Deadline::within(Duration::from_secs(30)), look).await?;
    println!("recovery: settled {}, unclear {}", swept.settled, swept.unclear);
    Ok(())
}

/// What the provider says became of it; `None`: unclear, and not to be tried again. `asked_at`, since the
/// epoch, is no earlier than the provider may have been asked.
async fn look(key: &str, asked_at: Option<Duration>) -> Option<Resolution> {
    let found = ask(&format!("FIND {key}")).await.ok()?;
    if found != "NONE" {
        return Some(Resolution::Succeeded(Response::new(200, found)));
    }
    // It may still come: then it is safe to charge under the same key only if that is one charge.
    let window = setting("SEMEL_EXAMPLE_WINDOW_S", "3600").parse().unwrap_or(0);
    let age = since_epoch().checked_sub(asked_at?)?;
    (age < Duration::from_secs(window)).then_some(Resolution::NotDone)
}

fn seconds(checkpoint: &[u8]) -> Option<u64> {
    std::str::from_utf8(checkpoint).ok()?.parse().ok()
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Asks the provider, in one line, for one line.
async fn ask(question: &str) -> Result<String, std::io::Error> {
    let provider = setting("SEMEL_EXAMPLE_PROVIDER", "127.0.0.1:7470");
    let mut stream = tokio::io::BufReader::new(TcpStream::connect(provider).await?);
    stream.write_all(format!("{question}\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_line(&mut answer).await?;
    answer.truncate(answer.trim_end().len());
    if answer.is_empty() { Err(std::io::ErrorKind::UnexpectedEof.into()) } else { Ok(answer) }
}

/// The provider, which is not ours. It knows charges by the caller's key, and makes none twice under a key
/// that it remembers.
async fn provider(remembers_seconds: u64) -> Result<(), Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let mut charges: Vec<(String, Duration)> = Vec::new();
    loop {
        let mut stream = tokio::io::BufReader::new(listener.accept().await?.0);
        let mut question = String::new();
        stream.read_line(&mut question).await?;
        let (verb, key) = question.trim().split_once(' ').unwrap_or((question.trim(), ""));
        let last = charges.iter().rposition(|(other, _)| other == key);
        let age = |at: usize| charges.get(at).and_then(|it| since_epoch().checked_sub(it.1));
        let known = last.filter(|at| age(*at).is_some_and(|age| age.as_secs() < remembers_seconds));
        let answer = match (verb, known.or(last.filter(|_| verb == "FIND"))) {
            ("COUNT", _) => charges.len().to_string(),
            (_, Some(place)) => format!("charge {place}"),
            ("FIND", None) => "NONE".to_owned(),
            (_, None) => {
                charges.push((key.to_owned(), since_epoch()));
                format!("charge {}", charges.len() - 1)
            }
        };
        stream.write_all(format!("{answer}\n").as_bytes()).await?;
    }
}

/// Plays it: a worker is killed after the provider answered, and others come.
async fn story() -> Result<(), Failure> {
    let mut provider = run(&["provider", "3600"], &[])?;
    let address = line(&mut provider)?;
    let settings = [("SEMEL_EXAMPLE_PROVIDER", address.as_str())];
    let order = format!("order-{}", since_epoch().as_millis());
    let mut lost =
        run(&["worker", &order], &[settings[0], ("SEMEL_EXAMPLE_STOP_AT", "provider-answered")])?;
    println!("the first worker {}; it is killed", line(&mut lost)?);
    lost.kill()?;
    lost.wait()?;
    tokio::time::sleep(LEASE + LEASE / 5).await;
    for who in [&["recovery"][..], &["worker", &order], &["count"]] {
        let mut next = run(who, &settings)?;
        while let Ok(said) = line(&mut next) {
            println!("  {said}");
        }
        next.wait()?;
    }
    provider.kill()?;
    provider.wait()?;
    Ok(())
}

fn run(arguments: &[&str], settings: &[(&str, &str)]) -> Result<Child, std::io::Error> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments).envs(settings.iter().copied()).stdout(Stdio::piped()).spawn()
}

/// The next line that a process of ours says.
fn line(process: &mut Child) -> Result<String, Failure> {
    let mut line = String::new();
    BufReader::with_capacity(1, process.stdout.as_mut().ok_or("no output")?)
        .read_line(&mut line)?;
    if line.is_empty() { Err("it has ended".into()) } else { Ok(line.trim_end().to_owned()) }
}
