//! The Keys service.
//!
//! # Layout
//!
//! - `parse`: wire requests to commands; `reply`: outcomes to wire replies; `body`: stored bodies
//! - `transition`: a command as a step of the store
//! - `engine`: a command carried out, its unknown commits settled, its waiting done
//! - `waiters`: how many may wait
//! - `replay_cache`: answers kept in memory, for a moment
//! - `service`: the calls of services; `batches`: many in one; `operators`: the calls of operators
//! - `sweeper`: what has outlived its retention goes

mod batches;
mod body;
mod engine;
mod operators;
mod parse;
mod replay_cache;
mod reply;
mod service;
mod sweeper;
mod transition;
mod waiters;

pub(crate) use engine::{Engine, Patience, refuse};
pub(crate) use replay_cache::ReplayCache;
pub(crate) use service::KeysService;
pub(crate) use sweeper::Sweeper;
pub(crate) use transition::KeyTransition;
pub(crate) use waiters::WaiterCounts;
