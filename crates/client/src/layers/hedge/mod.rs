//! Sends a slow call a second time, and takes the first good answer.
//!
//! A call is slow once it takes longer than 95 % of those of late. Only a request that may be repeated is
//! hedged, once, and only if the fleet's retry budget pays for it from what is in hand: nobody is asked. The
//! attempt that loses is dropped.

mod future;
mod latencies;
pub(super) mod layer;
pub(super) mod service;

pub use self::future::ResponseFuture;

#[cfg(test)]
mod tests;
