//! What talks to a cluster.
//!
//! - `network`, `open`, `store`, `shared`: the handles, and what a store is made of
//! - `failure`: errors, and transactions that are tried again
//! - `engine`, `read`, `write`, `commit`, `settle`: updates; `scan`: scans
//! - `heartbeat`: the node's stamp, once a second; `wakes`: wake-ups across nodes

mod commit;
mod engine;
mod failure;
mod heartbeat;
mod network;
mod open;
mod read;
mod scan;
mod settle;
mod shared;
mod store;
mod wakes;
mod write;

pub use network::Network;
pub use store::FdbStore;
