//! A cluster in virtual time: the code of real nodes over the engine in memory, with every fault that a
//! seed can think of, and oracles that watch what callers are told.
//!
//! Nodes are [`semel_server::Core`] and its services, called directly: no sockets, no threads. Time
//! stands still while anybody has something to do, and chance comes from one seed: a seed that is run
//! twice gives the same events in the same order.
//!
//! # Layout
//!
//! - `check`: many seeds; `storm`: what goes wrong in them
//! - `load`: what callers do; `oracle`: what they may be told; `plant`: bugs that must be caught
//! - [`scenario`]: experiments with a known answer
//! - `cluster`, `node`, `network`, `store`: what the world is made of
//! - `world`, `time`, `random`, `log`, `pause`: how it runs
//!
//! # What it does not do
//!
//! It does not test the transport, the embedded engine, or threads: they are tested where they are.

mod check;
mod cluster;
mod load;
mod log;
mod network;
mod node;
mod oracle;
mod pause;
mod plant;
mod random;
pub mod scenario;
mod store;
mod storm;
mod time;
mod world;

pub use check::{Checked, check, play_seed};
pub use log::{Promise, Record, Violation};
pub use plant::Plant;
