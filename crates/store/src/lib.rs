//! The store contract of Semel and the engines that need no service beside the node.
//!
//! An engine keeps opaque records under opaque keys, and an ordered index beside them. It knows no
//! rule: what a change is, a [`Transition`] says. It promises three things and nothing else:
//!
//! 1. [`Store::update`] is linearizable per key, and each item of a batch has its own result;
//! 2. the record and its index entries change in one commit, or not at all;
//! 3. what was answered is durable, to the degree that [`Durability`] names.
//!
//! # Layout
//!
//! - [`contract`]: the [`Store`] trait and the values that cross it
//! - [`limits`]: the sizes that it allows, the same for every engine
//! - [`clock`]: time as a value that is handed in
//! - [`watch`]: in-process wake-ups, for engines that live in one process
//! - [`embedded`]: one machine, on a log-structured tree, with its journal checked before use
//! - [`memory`]: nothing survives the process; injects faults on request
//! - [`optimistic`]: how engines over a shared database update, whatever the database
//! - [`conformance`]: the suite that defines a correct engine
//!
//! # What it does not do
//!
//! It has no notion of tenants, keys that expire, leases or fences, and it never retries a
//! transition whose commit is unknown: the caller does, since only the caller knows its deadline.

pub mod clock;
pub mod conformance;
pub mod contract;
pub mod embedded;
pub mod limits;
pub mod memory;
pub mod optimistic;
pub mod watch;

pub use clock::{Clock, ManualClock, SystemClock};
pub use contract::{
    Change, Durability, IndexChange, Page, Row, Scan, Space, Store, StoreError, Transition, Update,
    ValueChange,
};
pub use embedded::{EmbeddedOptions, EmbeddedStore};
pub use memory::MemoryStore;
pub use watch::{Watch, WatchHub};
