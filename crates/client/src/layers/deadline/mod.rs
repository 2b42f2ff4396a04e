//! Bounds a call in time, and tells the callee how much is left.
//!
//! Of an operation: put it outermost, and every layer below sees its deadline. Of an attempt: put it
//! innermost, and each attempt gets at most so long, and carries what is left, with its part of the
//! [root](crate::Root)'s retries and how much [it matters](crate::layers::Criticality). Both take the [current deadline](crate::Deadline::current) if that is
//! earlier. What is past is refused at once, and nothing is sent.

mod future;
pub(super) mod layer;
pub(super) mod service;

pub use self::future::ResponseFuture;

#[cfg(test)]
mod tests;
