//! Bounds how many calls of a dependency are under way at once, so that a slow one takes only its own part of
//! this process with it.
//!
//! A call that finds no place waits for one, but not for long, and only as many wait as there are places; all
//! others are refused at once with [`Refused::BulkheadFull`](super::Refused::BulkheadFull). All services that one layer
//! makes share its places.

mod future;
pub(super) mod layer;
pub(super) mod service;

pub use self::future::ResponseFuture;

#[cfg(test)]
mod tests;
