//! The Keys service over gRPC on loopback, one file a theme. A test is named by what would go wrong.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that meets what it does not expect should stop"
)]

#[path = "../support/mod.rs"]
mod support;

mod batches;
mod completions;
mod deadlines;
mod dispositions;
mod durations;
mod faults;
mod malformed;
mod many_nodes;
mod operators;
mod overload;
mod responses;
mod shutdown;
mod sweeping;
mod unreadable;
mod waiting;
