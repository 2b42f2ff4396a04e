//! The built command as its users meet it: over its own command line and over gRPC, in processes of
//! its own, with disks that fill up and callers that send nonsense.

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

mod breakers;
mod budgets;
mod commands;
mod config;
mod disk;
mod experiments;
mod generic_client;
mod malformed;
mod nodes;
mod races;
mod serving;
