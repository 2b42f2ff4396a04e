//! Charges once, whoever asks and however often: run it twice, and the second run gets the first one's
//! answer. It needs a node: `semel serve`.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "an example is a whole program: it may read the clock and print"
)]

use std::time::{Duration, SystemTime};

use semel_client::fingerprint::Intent;
use semel_client::keys::{Disposition, Response, Work};
use semel_client::once::Outcome;
use semel_client::{Client, Deadline};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let semel = Client::connect("acme", ["http://127.0.0.1:7450"])?;
    // What the key stands for. Another amount under the same key is refused.
    let charge = serde_json::json!({"amount": 4200, "currency": "EUR"});
    let intent = Intent::new("payments.charge", "account/77").json(&charge)?;

    let outcome = semel
        .once("payments.charge", "order-8813")
        .fingerprint(intent)
        .wait(Duration::from_secs(5))
        .deadline(Deadline::within(Duration::from_secs(30)))
        .run(async |claim| {
            if claim.disposition() == Disposition::ReconcileRequired {
                // An earlier run was lost midway: ask the provider whether it knows this key already.
                println!("looking for {} first", claim.derived_key());
            }
            println!("charging under {}", claim.derived_key());
            let receipt = format!("charged at {:?}", SystemTime::now());
            Work::Succeeded(Response::new(200, receipt).content_type("text/plain"))
        })
        .await?;

    let answer = outcome.response().and_then(Response::bytes);
    match (&outcome, answer) {
        (Outcome::Ran { .. }, Some(receipt)) => println!("done: {}", receipt.escape_ascii()),
        (_, Some(receipt)) => println!("done before: {}", receipt.escape_ascii()),
        _ => println!("no answer yet: {outcome:?}"),
    }
    Ok(())
}
