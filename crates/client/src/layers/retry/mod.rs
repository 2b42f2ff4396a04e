//! Sends a failed call again, if that makes sense, and if the fleet's budget pays for it.
//!
//! The order in which it is decided is the contract's: the failure, whether the request may be repeated, the
//! layer, the attempts of this call and the retries of its [root](crate::Root), the deadline, the breaker, the
//! budget. A token is taken from what is leased, which costs nothing; only without one the node is asked, and
//! only while it does not answer, this process's own first attempts pay. Then the jittered backoff of the
//! policy is waited for, on top of what the dependency asked for itself; without a deadline, for no longer than twice
//! the longest backoff.
//!
//! If a retry is not sent after all, since the call was dropped during the backoff or a layer below refused it,
//! what paid for it goes back: the retry into the root, a leased token into its lease, and one that a node granted
//! to that node. Only a call that is dropped while a node is being asked leaves the token charged that it may have
//! been granted.
//!
//! Every first attempt is counted for the budget, but one that a layer below refused. Put it above a breaker and
//! an attempt's deadline, so that they see each attempt; a refusal of theirs ends the call: with the failure before
//! it, if that attempt perhaps was carried out.
//!
//! A policy that only observes is observed by nodes: they grant every token. How many attempts a call has, and
//! which failures are mended, stays as the policy says.
//!
//! - `verdict`, `backoff`: the rule; pure
//! - `grant`: a retry that was paid for
//! - `retries`: the rule with a budget, a breaker and a node to ask
//! - `layer`, `service`, `future`: the layer

mod ask;
mod backoff;
mod future;
mod grant;
pub(super) mod layer;
pub(super) mod retries;
pub(super) mod service;
mod verdict;

pub use self::future::ResponseFuture;

#[cfg(test)]
mod tests;
