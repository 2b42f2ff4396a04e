//! Nodes that die under load, and journals that are damaged: what was answered is there afterwards,
//! or the node refuses to start.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says on the standard output how it went"
)]

#[path = "../support/mod.rs"]
mod support;

mod callers;
mod damage;
mod kill;
mod ledger;
