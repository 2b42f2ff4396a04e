//! Idempotency keys, call by call: claim, complete, replay, renew, release, alone and in batches;
//! and for operators: what is stuck, and how it is settled.
//!
//! Plain Rust types for what `keys.proto` says. Every call goes on until a node answers or its deadline is
//! there, always with the same ids. Leases are counted from before a request is first sent.
//!
//! What it does not do: it renews nothing and completes nothing by itself. That is [`once`](crate::once).
//!
//! # Layout
//!
//! - `calls`, `batch`: the calls
//! - `stuck`: keys that a lost owner left behind, and how they are settled
//! - `claiming`: what can be chosen wherever something claims
//! - `request`, `claim`, `response`, `work`, `name`: what is asked and answered

mod batch;
mod calls;
mod claim;
mod claiming;
mod name;
mod request;
mod response;
mod stuck;
mod work;

pub use self::batch::BATCH_MAX;
pub use self::claim::{Attempt, AttemptEnd, Claim, ClaimAnswer, Disposition};
pub(crate) use self::claiming::{Claiming, claim_options};
pub use self::name::KeyName;
pub use self::request::{ClaimRequest, OnOwnerLost, ReplayRequest};
pub use self::response::{Body, Response, StoredAnswer};
pub use self::stuck::{Resolution, StuckFilter, StuckKey, StuckPage, StuckState};
pub use self::work::{Completed, Renewed, ReplayAnswer, Work};
