//! The Retries service: this node's part of the fleet's retry budgets.
//!
//! # Layout
//!
//! - `parse`: wire requests to questions; `policy`: policies, both ways; `reply`: verdicts to replies
//! - `account`: what this node has of one budget, behind one short lock
//! - `budgets`: all accounts of the node, and what tokens and roots it remembers
//! - `acquire`: one question, from memory; only a budget that just ran dry asks the store first
//! - `waiting`: what a call does while the store is asked
//! - `lease`: tokens that clients spend themselves
//! - `transition`: a command as a step of the store
//! - `keeper`: carries the syncs of all accounts to the store, in the background
//! - `service`: the calls of services; `operators`: the calls of operators
//!
//! # Invariants
//!
//! - A token is charged before it is given, from what this node holds; the store debits what it gives.
//! - A denial waits for nothing but, once, for the store's answer to a question that is due anyway.
//! - When the store is away, what is granted is what the policy's fail mode says, and replies say so.

mod account;
mod acquire;
mod budgets;
mod keeper;
mod lease;
mod operators;
mod parse;
mod policy;
mod reply;
mod roots;
mod service;
mod tokens;
mod transition;
mod waiting;

pub(crate) use budgets::Budgets;
pub(crate) use keeper::Keeper;
pub(crate) use service::RetriesService;
pub(crate) use transition::expire;
