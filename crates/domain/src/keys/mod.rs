//! Idempotency keys: who may do the work of an intent, and what it came to.
//!
//! # Layout
//!
//! - [`record`]: what is stored for a key
//! - [`command`]: what can be asked of it
//! - [`outcome`]: what can be answered, in order of precedence
//! - `claim`, `complete`, `renew`, `release`, `replay`, `reconcile`, `forget`, `expire`: one rule a file
//! - [`layout`]: where records and index entries lie in the store
//! - [`encoding`]: the versioned bytes of a record
//!
//! # What it does not do
//!
//! It decides on one record at a time and knows nothing of waiting, batching or caching: a waiter is
//! a caller who asks again, and a batch is many decisions.

mod claim;
mod complete;
mod expire;
mod forget;
mod reconcile;
mod release;
mod renew;
mod replay;

pub mod command;
pub mod encoding;
pub mod layout;
pub mod outcome;
pub mod record;

pub use crate::codec::DecodeError;
pub use command::{
    Claim, Command, Complete, Completed, Forget, Policy, Reconcile, Release, Renew, Replay,
    Resolution,
};
pub use encoding::{decode, encode};
pub use outcome::{
    ClaimOutcome, CompleteOutcome, ForgetOutcome, Grant, GrantKind, InProgress, Outcome,
    ReconcileOutcome, ReleaseOutcome, RenewOutcome, ReplayOutcome,
};
pub use record::{
    Answer, Attempt, AttemptEnd, Audit, AuditAction, Claimed, Conclusion, OnOwnerLost, OwnerId,
    Record, Stage, State,
};

use crate::Change;
use crate::time::Timestamp;

/// Decides `command` on the record of its key (absent: `None`) at `now`.
///
/// The one entry to the rules of this module: each command has its rule in a file of its own. `now`
/// is the store's clock; what counts is never earlier than the record's last change.
#[must_use]
pub fn decide(
    record: Option<&Record>,
    command: &Command,
    now: Timestamp,
) -> (Change<Record>, Outcome) {
    let now = record.map_or(now, |record| now.max(record.touched_at));
    // What has outlived its retention is gone, whether or not the sweeper came by.
    let present = record.filter(|record| !record.is_expired(now));
    match command {
        Command::Claim(claim) => {
            let fence_floor = record.map_or(0, |record| record.fence.saturating_add(1));
            let (change, outcome) = claim::decide(present, claim, fence_floor, now);
            (change, Outcome::Claim(outcome))
        }
        Command::Complete(complete) => {
            let (change, outcome) = complete::decide(present, complete, now);
            (change, Outcome::Complete(outcome))
        }
        Command::Renew(renew) => {
            let (change, outcome) = renew::decide(present, renew, now);
            (change, Outcome::Renew(outcome))
        }
        Command::Release(release) => {
            let (change, outcome) = release::decide(present, release, now);
            (change, Outcome::Release(outcome))
        }
        Command::Replay(replay) => {
            (Change::Keep, Outcome::Replay(replay::decide(present, replay, now)))
        }
        Command::Get => (Change::Keep, Outcome::Get(present.cloned().map(Box::new))),
        Command::Reconcile(reconcile) => {
            let (change, outcome) = reconcile::decide(present, reconcile, now);
            (change, Outcome::Reconcile(outcome))
        }
        Command::Forget(forget) => {
            let (change, outcome) = forget::decide(present, forget, now);
            (change, Outcome::Forget(outcome))
        }
        Command::Expire => {
            let (change, removed) = expire::decide(record, now);
            (change, Outcome::Expire { removed })
        }
    }
}
