//! A Semel node: the gRPC services over a store.
//!
//! A request flows one way: bytes are parsed at the edge into a domain command; the command becomes a
//! transition of one record; the store applies it, and the rule decides; the outcome becomes a reply.
//!
//! # Layout
//!
//! - [`options`]: what a node can be told, with its defaults and bounds
//! - [`node`]: the threads, the listener, the start and the end
//! - [`core`]: a node without threads and sockets: its services, and the work behind them
//! - `services`: the services of one serving thread, found by the path of a call
//! - `connection`: an accepted connection, counted until it closes
//! - `batcher`: calls of one thread become batches of the store
//! - `keys`: the Keys service; `retries`: the Retries service; `breakers`: the Breakers service
//! - `nodes`: the Admin service, this node's heartbeats, and the guard of its clock
//! - `leftovers`: records that say nothing any more go; `walk`: a range looked through in pages
//! - `reporters`: which reports were counted already
//! - `wire`, `pages`: values and listings that several services have in common
//! - `audit`: the log of what operators do
//! - `refusal`: every error reason, its code and its details, in one place
//! - `settle`: unknown commits made known
//! - `deadline`: what is left of a call's time
//! - `jitter`: randomness that was handed in
//!
//! # Invariants
//!
//! - Wire types do not travel past each service's `parse` and `reply`; rules are not written here.
//! - Everything that waits is bounded in number and in time, and ends when the node closes.
//! - No answer is given before the store gave it: when in doubt, STORE_UNAVAILABLE.
//!
//! # What it does not do
//!
//! It names no engine, and it does not authenticate: whoever can reach it may act for any tenant.

mod audit;
mod batcher;
mod breakers;
mod connection;
pub mod core;
mod deadline;
mod jitter;
mod keys;
mod leftovers;
pub mod node;
mod nodes;
pub mod options;
mod pages;
mod refusal;
mod reporters;
mod retries;
mod services;
mod settle;
mod walk;
mod wire;

pub use crate::core::{Core, Lane};
pub use node::{Node, StartError};
pub use options::{BreakerOptions, KeyOptions, NodeOptions, OptionsError};
