//! Retry budgets: the retries of a whole fleet stay a share of its first attempts, plus a floor.
//!
//! # Layout
//!
//! - [`policy`]: the rules of one budget, as an operator sets them
//! - [`ledger`]: a window of deposits and of what was spent: the arithmetic under the bound
//! - [`record`]: what is stored for a budget
//! - [`command`]: what can be asked of it; [`outcome`]: what can be answered, in order of precedence
//! - `sync`: the rule by which a node and the store settle their accounts
//! - [`share`]: what one node holds of a budget, and the rule by which it spends it; [`payment`]: what
//!   comes in and goes out; `demand`: how much is asked of it
//! - [`layout`]: where records lie in the store; [`encoding`]: their versioned bytes
//!
//! # The bound
//!
//! For every stretch of time W, with B the policy's window and carry-over and L its lease: what the
//! fleet grants in W is at most what was deposited in W+B+L, times the ratio, plus the floor of W+B+L.
//!
//! *Proof sketch.* A token is granted from one of two ledgers. (1) A node's own: see [`ledger`]; each
//! grant is matched with a deposit at most B older. (2) A slice: debited in the store's ledger at most L
//! before it is spent, and the debit is matched with a deposit, or a part of the floor, at most B older.
//! Deposits are moved from the first ledger to the second, never copied, and keep their slot; so no
//! deposit is matched twice. A slice that is not accounted for by its end counts as spent at its end.
//!
//! # What it does not do
//!
//! It does not decide whether a retry makes sense (see [`crate::retry`]), and a slice's way over the
//! network is the node's affair.

pub mod command;
mod demand;
pub mod encoding;
pub mod layout;
pub mod ledger;
pub mod outcome;
pub mod payment;
pub mod policy;
pub mod record;
pub mod share;
mod sync;

pub use crate::codec::DecodeError;
pub use command::{Command, ReplacePolicy, Settled, Spent, Sync};
pub use encoding::{decode, encode};
pub use ledger::{Amount, Ledger};
pub use outcome::{Done, Outcome, SetPolicyOutcome, SyncOutcome};
pub use payment::{Charge, Deposit, Price};
pub use policy::{
    Backoff, Costs, DepositOn, Enforcement, FailMode, Policy, SetPolicy, TOKEN_MILLI,
};
pub use record::{Granted, Incarnation, Member, Record, Slice};
pub use share::{Handing, Share};

use crate::Change;
use crate::time::Timestamp;

/// Decides `command` on the record of its budget (absent: `None`) at `now`.
///
/// `now` is the store's clock; what counts is never earlier than the record's last change.
#[must_use]
pub fn decide(
    record: Option<&Record>,
    command: &Command,
    now: Timestamp,
) -> (Change<Record>, Outcome) {
    let now = record.map_or(now, |record| now.max(record.touched_at));
    let mut current = record.cloned().unwrap_or_default();
    let policy = current.policy();
    sync::advance(&mut current, &policy, now);
    match command {
        Command::Sync(command) => {
            let (changed, outcome) = sync::decide(&mut current, command, &policy, now);
            (put_if(changed, current, now), Outcome::Sync(outcome))
        }
        Command::SetPolicy(replace) => {
            let (changed, outcome) = set_policy(&mut current, replace, now);
            (put_if(changed, current, now), Outcome::SetPolicy(outcome))
        }
        Command::Get => (Change::Keep, Outcome::Get(Box::new(current))),
        Command::Expire => {
            let says_nothing =
                current.policy.is_none() && current.ledger.is_empty() && current.members.is_empty();
            let removed = record.is_some() && says_nothing;
            let change = if removed { Change::Delete } else { Change::Keep };
            (change, Outcome::Expire { removed })
        }
    }
}

fn put_if(changed: bool, mut record: Record, now: Timestamp) -> Change<Record> {
    if !changed {
        return Change::Keep;
    }
    record.touched_at = now;
    Change::Put(record)
}

fn set_policy(
    record: &mut Record,
    replace: &ReplacePolicy,
    now: Timestamp,
) -> (bool, SetPolicyOutcome) {
    let current = record.policy_version();
    // The reply to the same replacement was lost: what it set is in force.
    let same = |set: &SetPolicy| set.policy == replace.policy && set.actor == replace.actor;
    if record.policy.as_ref().is_some_and(same) {
        return (false, SetPolicyOutcome::Unchanged { version: current });
    }
    if replace.expected_version.is_some_and(|expected| expected != current) {
        return (false, SetPolicyOutcome::Conflict { current });
    }
    let version = current.saturating_add(1);
    record.policy = Some(SetPolicy {
        policy: replace.policy.clone(),
        version,
        actor: replace.actor.clone(),
        set_at: now,
    });
    (true, SetPolicyOutcome::Replaced { version })
}
