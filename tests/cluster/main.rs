//! Three nodes as processes over one database, with faults between everything and everything.
//!
//! # Layout
//!
//! - `gate`: a TCP proxy that passes, cuts, holds or delays
//! - `databases`: PostgreSQL or FoundationDB under the nodes, and what goes wrong with it
//! - `cluster`: the nodes, and a gate between each and its clients
//! - `call`: a call with its times, and what may be concluded from its answer
//! - `load`: clients that claim, spend retries and probe, and record what they were told
//! - `checker`: what those histories must have kept; it shares no code with a node
//! - `faults`: the seeded script of what goes wrong
//! - `soak`: the load under the script, judged
//! - `one_key`, `wakes`, `watches`, `clocks`, `losses`, `rolling`, `outage`, `failover`: one promise of a cluster each, over PostgreSQL
//! - `over_foundationdb`: those that another database could break, over FoundationDB

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says on the standard output how it went"
)]

#[path = "../../crates/store-fdb/tests/support/foundationdb.rs"]
mod foundationdb_server;
#[path = "../../crates/store-postgres/tests/support/postgres.rs"]
mod postgres;
#[path = "../../crates/store-postgres/tests/support/standby.rs"]
mod standby;
#[path = "../support/mod.rs"]
mod support;

mod call;
mod checker;
mod clocks;
mod cluster;
mod databases;
mod failover;
mod faults;
mod gate;
mod load;
mod losses;
mod one_key;
mod outage;
mod over_foundationdb;
mod rolling;
mod soak;
mod wakes;
mod watches;
