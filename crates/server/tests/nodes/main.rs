//! The nodes of a cluster over gRPC on loopback, one file a theme. A test is named by what would go wrong.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that meets what it does not expect should stop"
)]

#[path = "../support/mod.rs"]
mod support;

mod clocks;
mod listing;
