//! The nodes of the cluster, and this one among them: the Admin service, and what a node tells of itself.
//!
//! # Layout
//!
//! - `heart`: this node's heartbeats, from its start to its leaving
//! - `clock_guard`: whether this node's clock can be believed
//! - `load`: what this node has to do, counted
//! - `transition`: a command as a step of the store
//! - `service`: the calls of operators; `reply`: records to wire replies
//!
//! # Invariants
//!
//! - A node whose clock is off for certain decides no claim, answers no replay from memory, and does not
//!   sweep, until it is right again.
//! - Nobody waits for a heartbeat: one that gets no answer is followed by the next.

mod clock_guard;
mod heart;
mod load;
mod reply;
mod service;
mod transition;

pub(crate) use clock_guard::ClockGuard;
pub(crate) use heart::Heart;
pub(crate) use load::{LaneLoad, Load, OpenCall, OpenConnection};
pub(crate) use service::AdminService;
pub(crate) use transition::expire;
