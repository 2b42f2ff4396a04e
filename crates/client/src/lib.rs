//! The Rust client of Semel: retry tokens, spent without a call for each.
//!
//! A retry budget belongs to a tenant and a dependency, and to the whole fleet: its retries stay a share
//! of its first attempts, plus a floor. Asking a node before each retry costs a round trip. Here tokens
//! are *leased* instead: fetched a handful ahead, good for about a second, and spent from memory with an
//! atomic operation.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use semel_client::tokens::{RetryTokens, Settings, SystemClock};
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
//! What leases promise, and how they are asked for, is said in the module [`tokens`].

pub mod tokens;
