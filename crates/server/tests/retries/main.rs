//! The Retries service over gRPC on loopback, one file a theme.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that meets what it does not expect should stop"
)]

#[path = "../support/mod.rs"]
mod support;
mod words;

mod batches;
mod deposits;
mod leases;
mod leftovers;
mod malformed;
mod many_nodes;
mod operators;
mod policies;
mod refunds;
mod roots;
mod store_away;
mod tokens;
mod verdicts;
