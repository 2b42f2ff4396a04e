//! The Breakers service.
//!
//! Each breaker that is asked for has a view: the record as this node knows it. Questions are answered
//! from views, at once; the keeper follows the store and keeps them fresh. Outcomes of calls gather in
//! views, too, and go to the store a few times a second.
//!
//! # Layout
//!
//! - `shared`: what all threads of a node share, and commands carried out
//! - `view`: a breaker as the node knows it; `pending`: outcomes on their way to the store
//! - `keeper`: the node's own work: it brings outcomes, follows the store, keeps time; `agenda`: what it
//!   has to do, and when
//! - `transition`: a command as a step of the store
//! - `parse`: wire requests to commands; `reply`: outcomes to wire replies
//! - `service`: the calls of services; `reports`: outcomes taken in; `watching`: streams of changes;
//!   `operators`: the calls of operators
//!
//! # Invariants
//!
//! - A view never goes back to an earlier generation.
//! - What is lost when a node dies are counts of a fraction of a second, never a state.
//! - A breaker that is not known counts as closed: doubt must not stop traffic.

mod agenda;
mod keeper;
mod operators;
mod parse;
mod pending;
mod reply;
mod reports;
mod service;
mod shared;
mod transition;
mod view;
mod watching;

pub(crate) use service::BreakersService;
pub(crate) use shared::{Breakers, Gate};
pub(crate) use transition::expire;
