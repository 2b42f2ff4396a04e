//! The Rust client of Semel: writes that happen once, retry tokens spent without a call for each, breakers of the
//! whole fleet, one deadline for an operation, and the [tower layers](layers) that put these together.
//!
//! # A write that happens once
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use semel_client::fingerprint::Intent;
//! use semel_client::keys::{Response, Work};
//! use semel_client::once::Outcome;
//! use semel_client::{Client, Deadline};
//!
//! # #[derive(serde::Serialize)]
//! # struct Charge { account: String, amount: u64 }
//! # enum Failure { Declined, NotSent, NoAnswer }
//! # async fn charge_by_provider(idempotency_key: &str, charge: &Charge) -> Result<String, Failure> {
//! #     Ok(String::new())
//! # }
//! # async fn example(charge: Charge) -> Result<(), Box<dyn std::error::Error>> {
//! let semel = Client::connect("acme", ["http://10.0.0.1:7450", "http://10.0.0.2:7450"])?;
//!
//! let intent = Intent::new("payments.charge", &charge.account).json(&charge)?;
//! let outcome = semel
//!     .once("payments.charge", "order-8812")
//!     .fingerprint(intent)
//!     .wait(Duration::from_secs(5))
//!     .deadline(Deadline::within(Duration::from_secs(30)))
//!     .run(async |claim| match charge_by_provider(claim.derived_key(), &charge).await {
//!         Ok(receipt) => Work::Succeeded(Response::new(200, receipt)),
//!         Err(Failure::Declined) => Work::FailedFinal(Response::new(402, "declined")),
//!         Err(Failure::NotSent) => Work::NotDone,
//!         Err(Failure::NoAnswer) => Work::Unknown,
//!     })
//!     .await?;
//! match outcome {
//!     // Here, or earlier, by whoever was first: the same bytes.
//!     Outcome::Ran { .. } | Outcome::Replayed(_) => println!("{:?}", outcome.response()),
//!     Outcome::InProgress { retry_after } => println!("come again in {retry_after:?}"),
//!     Outcome::Unknown(why) => println!("nobody knows yet: {why:?}"),
//!     _ => println!("{outcome:?}"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The module [`once`] says what that promises. Each call of it can be made alone: see [`keys`].
//!
//! # All of it together
//!
//! A process has one [`Client`]. The work of a key calls its provider through a [`Stack`](layers::Stack): each
//! attempt carries the key's derived key, retries are paid from the fleet's budget, and none is made while the
//! fleet's breaker is open.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use semel_client::breakers::BreakerSettings;
//! use semel_client::fingerprint::Intent;
//! use semel_client::keys::{Response, Work};
//! use semel_client::layers::{BoxError, Http, IDEMPOTENCY_KEY_HEADER, Stack};
//! use semel_client::tokens::RetryTokenSettings;
//! use semel_client::{Client, Deadline};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # async fn send(request: http::Request<String>) -> Result<http::Response<String>, BoxError> {
//! #     Ok(http::Response::new(request.into_body()))
//! # }
//! # async fn example(stopped: impl Future<Output = ()> + Clone) -> Result<(), BoxError> {
//! let semel = Client::connect("acme", ["http://10.0.0.1:7450", "http://10.0.0.2:7450"])?;
//! let tokens = semel.retry_tokens(RetryTokenSettings::default());
//! let breakers = semel.breakers(BreakerSettings::default());
//! let retries = semel.retries(&tokens, "stripe")?;
//! let stripe = Stack::new(Http::default(), retries, breakers.breaker("stripe")?)
//!     .attempt_within(Duration::from_secs(3))
//!     .outside()
//!     .layer(service_fn(send));
//!
//! let charge = semel
//!     .once("payments.charge", "order-8812")
//!     .fingerprint(Intent::new("payments.charge", "account/77").bytes(b"4200 EUR"))
//!     .deadline(Deadline::within(Duration::from_secs(30)))
//!     .run(async |claim| {
//!         let request = http::Request::post("https://api.stripe.com/v1/charges")
//!             .header(IDEMPOTENCY_KEY_HEADER, claim.derived_key())
//!             .body("amount=4200&currency=eur".to_owned());
//!         let Ok(request) = request else { return Work::NotDone };
//!         match stripe.clone().oneshot(request).await {
//!             Ok(answer) if answer.status().is_success() => {
//!                 Work::Succeeded(Response::new(200, answer.into_body()))
//!             }
//!             Ok(answer) if answer.status() == 402 => {
//!                 Work::FailedFinal(Response::new(402, answer.into_body()))
//!             }
//!             // An earlier attempt may have been carried out, whatever the last one says.
//!             _ => Work::Unknown,
//!         }
//!     });
//! // What keeps the client supplied is driven for as long as the process lives.
//! let (outcome, (), ()) = tokio::join!(charge, tokens.run(stopped.clone()), breakers.run(stopped));
//! println!("{:?}", outcome?.response());
//! # Ok(())
//! # }
//! ```
//!
//! # A server whose writes happen once
//!
//! Around handlers of HTTP or gRPC, [`layers::IdempotencyLayer`] does all of that for every request with an
//! idempotency key: a router of axum or a server of tonic takes it as any other layer of tower. The module
//! [`layers::idempotency`] says what callers get.
//!
//! # Retry tokens
//!
//! A retry budget belongs to a tenant and a dependency, and to the whole fleet: its retries stay a share
//! of its first attempts, plus a floor. Asking a node before each retry costs a round trip. Here tokens
//! are *leased* instead: fetched a handful ahead, good for about a second, and spent from memory with an
//! atomic operation. What leases promise, and how they are asked for, is said in the module [`tokens`].
//!
//! ```no_run
//! use semel_client::Client;
//! use semel_client::tokens::RetryTokenSettings;
//!
//! # async fn call() -> Result<(), std::io::Error> { Ok(()) }
//! # async fn example(stopped: impl Future<Output = ()>) -> Result<(), Box<dyn std::error::Error>> {
//! let semel = Client::connect("acme", ["http://10.0.0.1:7450", "http://10.0.0.2:7450"])?;
//! let tokens = semel.retry_tokens(RetryTokenSettings::default());
//! let budget = tokens.budget("acme", "stripe")?;
//!
//! let work = async {
//!     budget.first_attempt();
//!     let mut result = call().await;
//!     if result.is_err() && budget.try_spend().is_ok() {
//!         // Wait for a jittered backoff here, if the deadline allows.
//!         result = call().await;
//!     }
//!     result
//! };
//! let (result, ()) = tokio::join!(work, tokens.run(stopped));
//! # result?;
//! # Ok(())
//! # }
//! ```
//!
//! # Layout
//!
//! - [`once`]: a write that happens once: claim, work under a renewed lease, complete, or replay
//! - [`consumer`]: the same for each event of a queue, many at a time
//! - [`layers`]: the same for each request of a server, as a tower layer
//! - [`recovery`]: settles what lost owners left behind
//! - `local`, with the feature `postgres`: effects in your own database, with a receipt in the same transaction
//! - [`keys`]: the calls, one by one, with plain types
//! - [`fingerprint`]: what a key stands for
//! - [`connection`]: which node to ask, how long, and what an error means
//! - [`layers`]: the whole retry pattern as tower layers
//! - [`tokens`]: retry tokens
//! - [`breakers`]: the fleet's breakers, as one process follows them
//! - [`failure`]: what a failed attempt looked like
//! - [`deadline`], [`root`]: what travels with every call of an operation
//! - [`metrics`]: what is measured
//! - `followed`: how many budgets and breakers, and under which names
//! - `rules`: the policy of a budget, as the client follows it; `clock`, `dice`: time and randomness; `wire`: durations
//!   and moments as the contract has them
//!
//! # Types of other crates
//!
//! No type of the wire contract is part of the interface, so that a node and its clients change apart. Of other
//! crates there are the types that a caller holds anyway: those of `bytes`, `http`, `http-body`, `serde`, `tokio`,
//! `tower-layer` and `tower-service`, which do not change, and those of `tonic` (statuses, codes, channels),
//! `tokio-util` (a tracker of tasks), `opentelemetry` (a meter) and `tokio-postgres`, which do. The latter are
//! exported from here, in the versions that go with this one: a step of theirs that breaks is one of this crate.
//!
//! # Features
//!
//! - `tls`, a default: connections to `https://` nodes. Without it no C compiler is needed
//! - `postgres`: the module `local`

#![deny(missing_debug_implementations)]

pub mod breakers;
mod clock;
pub mod connection;
pub mod consumer;
pub mod deadline;
mod dice;
pub mod failure;
pub mod fingerprint;
mod followed;
pub mod keys;
pub mod layers;
#[cfg(feature = "postgres")]
pub mod local;
pub mod metrics;
pub mod once;
pub mod recovery;
pub mod root;
mod rules;
pub mod tokens;
mod wire;

pub use self::connection::client::Client;
pub use self::connection::error::{Error, Reason};
pub use self::deadline::Deadline;
pub use self::dice::Dice;
pub use self::failure::{Classify, Failure, FailureKind, WorkDone};
pub use self::followed::NotFollowed;
pub use self::metrics::Metrics;
pub use self::root::Root;

// Crates below 1.0 whose types are part of the interface, in the versions that go with this one.
#[cfg(feature = "postgres")]
pub use tokio_postgres;
pub use {opentelemetry, tokio_util, tonic};

#[cfg(test)]
mod tests;
