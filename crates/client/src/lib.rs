//! The Rust client of Semel: retry tokens spent without a call for each, breakers of the whole fleet, one
//! deadline for an operation, and the [tower layers](layers) that put them together.
//!
//! # Retry tokens
//!
//! A retry budget belongs to a tenant and a dependency, and to the whole fleet: its retries stay a share
//! of its first attempts, plus a floor. Asking a node before each retry costs a round trip. Here tokens
//! are *leased* instead: fetched a handful ahead, good for about a second, and spent from memory with an
//! atomic operation.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use semel_client::{RetryTokens, Settings, SystemClock};
//! use tonic::transport::Endpoint;
//!
//! # async fn call() -> Result<(), std::io::Error> { Ok(()) }
//! # fn random() -> [u8; 16] { [7; 16] }
//! # async fn example(stopped: impl Future<Output = ()>) -> Result<(), Box<dyn std::error::Error>> {
//! let channel = Endpoint::from_static("http://127.0.0.1:7450").connect_lazy();
//! let tokens = RetryTokens::new(channel, Settings::new(random()), Arc::new(SystemClock));
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
//! # What it promises
//!
//! - **A token is spent once.** Purses are single atomic words; a lease that is given back can't be spent
//!   from the moment at which the request is made.
//! - **Nothing is spent after its lease.** A lease is counted from before its request was first sent, on
//!   the [`Clock`] that you hand in, which must never step. A token that was taken in time is good for
//!   the retry that follows at once: don't keep it.
//! - **A lost answer loses no tokens and doubles none.** The request goes out again with the same number
//!   and the same content, until it is answered. First attempts that were reported to a node that is gone
//!   are forfeited rather than counted twice.
//! - **No node, no unlimited retries.** Once the lease has ended, only the policy's share of this process's own
//!   first attempts is spent, of those that were not reported yet. First attempts are never gated:
//!   [`Budget::first_attempt`] only counts.
//! - **Quiet when idle.** A budget without first attempts and retries gives back what it holds, and sends
//!   nothing until it is used again.
//!
//! # How it asks
//!
//! At most two leases are in hand. About half-way through the newer one, or earlier when a quarter of its
//! tokens is left, the next is asked for: half as many tokens again as were wanted in the busier of the
//! last two such periods. The rest of the older lease goes back with that request, and so do the first
//! attempts counted since. While the answer is on its way the newer lease goes on being spent.
//!
//! # What it does not do yet
//!
//! - It knows nothing of keys: for those use the stubs of `semel-proto`.
//!
//! # Layout
//!
//! - `tokens`: the handle, its budgets, and the future that keeps them supplied
//! - `budget`: one budget as its users hold it
//! - `lessee`: when to ask, for how many, and what to make of the answers; pure
//! - `purse`, `demand`: tokens in one atomic word; how many are wanted
//! - `share`, `rules`: what own first attempts pay for without a node; the policy
//! - [`breakers`]: the fleet's breakers, as one process follows them
//! - [`failure`]: what a failed attempt looked like
//! - [`deadline`], [`root`]: what travels with every call of an operation
//! - [`layers`]: the whole pattern as tower layers
//! - [`metrics`]: what they measure
//! - `settings`, `clock`, `dice`: what is handed in

pub mod breakers;
mod budget;
mod clock;
pub mod deadline;
mod demand;
mod dice;
pub mod failure;
pub mod layers;
mod lessee;
pub mod metrics;
mod purse;
pub mod root;
mod rules;
mod settings;
mod share;
mod tokens;

pub use self::budget::{Budget, Denied};
pub use self::clock::{Clock, SystemClock};
pub use self::deadline::Deadline;
pub use self::dice::Dice;
pub use self::failure::{Classify, Failure, FailureKind, WorkDone};
pub use self::metrics::Metrics;
pub use self::root::Root;
pub use self::settings::Settings;
pub use self::tokens::{BudgetsFull, RetryTokens};
