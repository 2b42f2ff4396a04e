//! The FoundationDB engine of Semel.

#![cfg_attr(
    not(feature = "client"),
    allow(
        dead_code,
        reason = "what talks to a cluster uses the rules; without it they are tested only"
    )
)]

mod attempt;
#[cfg(feature = "client")]
mod client;
mod error;
mod fleet;
mod head;
mod layout;
mod meaning;
mod options;
mod time;
mod warnings;

#[cfg(feature = "client")]
pub use client::{FdbStore, Network};
pub use error::OpenError;
pub use options::{FdbOptions, NetworkOptions};
