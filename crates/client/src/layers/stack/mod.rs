//! All layers, in the order that is right.
//!
//! From the outside to the inside, and why:
//!
//! 1. **Deadline of the operation**: all below it, waits and backoffs too, happens within it.
//! 2. **Bulkhead**: a call that is waiting for its next attempt holds its place, so that a sick dependency can
//!    have only so many calls of this process in its hands. A refusal here is nobody's failure, so it
//!    has to be above retries and breaker.
//! 3. **Retry**: above the breaker, so that each attempt asks it, and a refusal ends the call.
//! 4. **Hedge**: of each attempt; below retries, so that only an attempt that failed on both ways is one that
//!    failed.
//! 5. **Breaker**: counts every attempt, hedges too, and lets none through while it is open.
//! 6. **Deadline of the attempt**: innermost, so that what the breaker counts, and what the headers say, is
//!    true of each attempt.

pub(super) mod layer;
pub(super) mod service;

pub use self::service::ResponseFuture;

#[cfg(test)]
mod tests;
