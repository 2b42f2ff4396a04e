//! The PostgreSQL engine against servers of its own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says how it went"
)]

#[path = "../support/postgres.rs"]
mod postgres;
#[path = "../support/standby.rs"]
mod standby;

mod conformance;
mod encryption;
mod failures;
mod nodes;
mod plans;
mod schema;
mod steps;
mod stopped;
mod warnings;
