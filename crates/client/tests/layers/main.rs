//! The layers against nodes in the same process, in virtual time.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod breakers;
mod fleet;
mod granted;
mod grpc;
mod hedges;
mod node;
mod outage;
mod support;
