//! Sends a call only while its dependency is worth calling, and tells the fleet what became of it.
//!
//! What the fleet's [breaker](crate::breakers) does not admit is refused at once with
//! [`Refused::BreakerOpen`](super::Refused::BreakerOpen), which says when to look again. A call that may be a probe asks
//! a node for the permit first.
//!
//! | what became of the call | counts as |
//! |---|---|
//! | a good answer | succeeded |
//! | not sent, throttled, unknown outcome, server error | failed |
//! | rejected, in progress | ignored; of a probe: it lives |
//! | cancelled, dropped, refused by a layer below | ignored; of a probe: inconclusive |

mod future;
pub(super) mod layer;
pub(super) mod service;

pub use self::future::ResponseFuture;

#[cfg(test)]
mod tests;
