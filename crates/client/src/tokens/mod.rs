//! Retry tokens, leased a handful ahead and spent from memory.
//!
//! # What it promises
//!
//! - **A token is spent once.** Purses are single atomic words; a lease that is given back can't be spent
//!   from the moment at which the request is made.
//! - **What is not sent is not spent.** The token of a retry that was given up before it was sent goes back
//!   into its lease, or to the node that granted it.
//! - **Nothing is spent after its lease.** A lease is counted from before its request was first sent, on
//!   a clock that never steps. A token that was taken in time is good for
//!   the retry that follows at once: don't keep it.
//! - **A lost answer loses no tokens and doubles none.** The request goes out again with the same number
//!   and the same content, until it is answered. First attempts that were reported to a node that is gone
//!   are forfeited rather than counted twice.
//! - **No node, no unlimited retries.** Once the lease has ended, only the policy's share of this process's own
//!   first attempts is spent, of those that were not reported yet. First attempts are never gated:
//!   [`Budget::first_attempt`] only counts.
//! - **Quiet when idle.** A budget without first attempts and retries gives back what it holds, and sends
//!   nothing until it is used again.
//!
//! # How it asks
//!
//! At most two leases are in hand. About half-way through the newer one, or earlier when a quarter of its
//! tokens is left, the next is asked for: half as many tokens again as were wanted in the busier of the
//! last two such periods. The rest of the older lease goes back with that request, and so do the first
//! attempts counted since. While the answer is on its way the newer lease goes on being spent.
//!
//! # Layout
//!
//! - `supply`: the handle, its budgets, and the future that keeps them supplied
//! - `budget`: one budget as its users hold it
//! - `lessee`: when to ask, for how many, and what to make of the answers; pure
//! - `purse`, `demand`: tokens in one atomic word; how many are wanted
//! - `refunds`: tokens that a node granted one by one, on their way back
//! - `share`: what own first attempts pay for without a node
//! - `settings`: what is handed in

mod budget;
mod demand;
mod lessee;
mod purse;
mod refunds;
mod settings;
mod share;
mod supply;

pub(crate) use self::budget::Token;
pub use self::budget::{Budget, Denied};
pub(crate) use self::refunds::Granted;
pub use self::settings::RetryTokenSettings;
pub use self::supply::RetryTokens;
