//! The FoundationDB engine of Semel: many nodes over one cluster, version 7.3 or later.
//!
//! # How an update runs
//!
//! One transaction reads all records that batches ask for at the same time, the transitions are applied
//! here, and a few transactions write what changed, at the very moment of that read: each declares that
//! it read the heads of its records, so it is committed only if none was changed since. If some were,
//! the cluster says which; the others are written again at once, and only those that were lost are read
//! and decided again. A decision that keeps its record is a linearizable read as it stands, and costs
//! no commit.
//!
//! # Invariants
//!
//! - A record, its chunks and its index entries change in one transaction; only heads conflict.
//! - Updates of one record by one node go one after the other; those of several nodes are ordered by the
//!   cluster.
//! - The answer to a commit whose result the cluster does not know is found out: each commit sets a
//!   marker of its own, which is read, or forbidden, afterwards.
//!   [`Unknown`](semel_store::StoreError::Unknown) is left only while the cluster can't be reached for
//!   that.
//! - The store's time is the middle of the clocks of all nodes, and never goes back.
//!
//! # Durability
//!
//! Every commit is on the disks of the cluster before it is answered, so relaxed updates are synced,
//! too. How many disks that are, the redundancy of the cluster says: see
//! `FdbStore::durability_warnings`.
//!
//! # Features
//!
//! What talks to a cluster needs `client`: libclang to build it, and the library libfdb_c to link and
//! to run. Without it there are the options and the rules, which are tested everywhere.
//!
//! # Layout
//!
//! - `layout`, `head`: keys and values; `attempt`, `slots`: markers of commits; `meaning`: what errors
//!   mean; `fleet`, `time`: the clock; `armed`: watches; `warnings`: settings that lose data
//! - `options`, `error`: what is chosen, and what goes wrong
//! - `client`: the network, the store and its tasks
//!
//! # What it does not do
//!
//! It expires nothing. It uses no atomic operations of the database: a transition is opaque. A batch is
//! not one transaction: its records are committed together, except for those that were lost to others,
//! or weigh more than 900 kB together. One record with its index entries must stay below the 10 MB that
//! the database takes in a transaction. It does not survive that its directory is moved or removed
//! while nodes run.

#![cfg_attr(
    not(feature = "client"),
    allow(
        dead_code,
        reason = "what talks to a cluster uses the rules; without it they are tested only"
    )
)]

mod armed;
mod attempt;
#[cfg(feature = "client")]
mod client;
mod error;
mod fleet;
mod head;
mod layout;
mod meaning;
mod options;
mod slots;
mod time;
mod warnings;

#[cfg(feature = "client")]
pub use client::{FdbStore, Network};
pub use error::OpenError;
pub use options::{FdbOptions, NetworkOptions};
