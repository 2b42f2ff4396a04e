//! The Rust client against real nodes in processes of their own.
//!
//! # Layout
//!
//! - `examples`: the examples of the client, killed where it hurts
//! - `impatient`: a slow charge, an impatient caller, and one charge all the same
//! - `lost_nodes`: nodes are stopped, frozen and killed under load, and no call fails
//! - `local`: effects with receipts in a database of the caller's own
//! - `recovery`: workers that are lost after the effect, and the job that settles what they left
//! - `refunds`: a retry that was granted and is given up costs nothing
//! - `server`: a server of HTTP whose writes happen once, raced for, and killed midway
//! - `outage`: a dependency that fails under the load of three processes behind all layers
//! - `dependency`, `dependents`: that dependency, and those processes
//! - `fleet`: three nodes over one PostgreSQL server

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says on the standard output how it went"
)]

#[path = "../../crates/store-postgres/tests/support/postgres.rs"]
mod postgres;
#[path = "../support/mod.rs"]
mod support;

mod dependency;
mod dependents;
mod examples;
mod fleet;
mod impatient;
mod local;
mod lost_nodes;
mod outage;
mod recovery;
mod refunds;
mod server;
