//! Whether the history of one key keeps the promises of keys.
//!
//! # The model
//!
//! A key goes through *phases*, in an order that its fences name: nothing; then for each fence claimed and,
//! perhaps, in doubt and given back; at last completed, and perhaps erased. Each answered call names the phases
//! in which it can have happened. From these follow, for each phase, the latest moment by which it must have
//! begun (somebody saw it, or what comes after it) and the earliest (nobody had asked for it yet, or somebody
//! still saw what comes before it). The calls are linearizable if no phase must begin before it can, and each
//! call finds one of its phases within its own interval. (For calls that name one phase or a row of them this
//! is exact; for one that names scattered phases it is necessary.)
//!
//! A claim whose reply was lost may have been granted with nobody knowing its fence. Such claims are no phases,
//! unless an operator settled one. A call that may have met one is held against the two things that are sure of
//! them: a fence that is current at two moments was so in between, and what is completed stays so.
//!
//! Leases are judged apart, since a lapsed claim can be taken over at any time: the owner counts its lease
//! from before it asked, so until then nobody else can have been given a claim.
//!
//! - `claims`: fences, leases, and keys that block
//! - `answers`: what is completed, and what is erased
//! - `chain`, `places`: the phases, and where each call can have happened
//! - `batches`: the same key twice in one call

use bytes::Bytes;

use super::{Broken, Promise};
use crate::support::ask::Owner;

mod answers;
mod batches;
mod chain;
mod claims;
mod places;

/// What was asked of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// `blocks`: nobody is to take over from an owner that is lost.
    Claim {
        owner: Owner,
        blocks: bool,
    },
    Renew {
        owner: Owner,
        fence: u64,
        lease_us: u64,
    },
    Release {
        owner: Owner,
        fence: u64,
    },
    Complete {
        owner: Owner,
        fence: u64,
        body: Bytes,
    },
    /// The owner says that it does not know whether it was done.
    Doubt {
        owner: Owner,
        fence: u64,
    },
    /// An operator says what it found: the answer, or that it was not done.
    Settle {
        fence: u64,
        found: Option<Bytes>,
    },
    Forget,
    Replay,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    /// Nothing, or nothing that tells.
    Unknown,
    /// The claim is the caller's.
    Granted {
        fence: u64,
        lease_us: u64,
        resumed: bool,
    },
    /// Somebody holds it; to a replay, lapsed or not.
    Held,
    /// Perhaps done: declared so, or, to a claim on a key that blocks, its owner is lost.
    Doubtful,
    /// It was given back; to a claim, by this very owner.
    GivenBack,
    /// It is completed so.
    Told {
        fence: u64,
        body: Bytes,
    },
    /// What was said or settled was accepted. `late`: it changed nothing any more.
    Accepted {
        late: bool,
    },
    Fenced,
    Conflict,
    /// There is nothing to settle: its lease runs.
    Live,
    /// There is nothing to erase.
    NotCompleted,
    Erased,
    NoSuchKey,
    /// An error that nothing here explains.
    Refused(String),
}

/// One call on the key, or one item of a call.
#[derive(Clone, Debug)]
#[allow(dead_code, reason = "the node is for whoever reads a history that is wrong")]
pub(crate) struct Call {
    pub(crate) node: usize,
    pub(crate) began_us: u64,
    pub(crate) ended_us: u64,
    pub(crate) asked: Asked,
    pub(crate) answered: Answered,
    /// The call that it was an item of; items stand in their order.
    pub(crate) batch: Option<u64>,
}

/// Everything that is wrong with the history of a key.
pub(crate) fn judge(calls: &[Call]) -> Vec<Broken> {
    let mut broken = Vec::new();
    let claims = claims::find(calls, &mut broken);
    let done = answers::done(calls, &claims, &mut broken);
    let erased = answers::erased(calls, &mut broken);
    claims::judge(calls, &claims, &mut broken);
    batches::judge(calls, &mut broken);
    chain::Chain::new(calls, &claims, done.as_ref(), erased.as_ref()).judge(&mut broken);
    broken
}

/// Whether nobody takes over from a lost owner of this key.
fn blocks(calls: &[Call]) -> bool {
    calls.iter().any(|call| matches!(call.asked, Asked::Claim { blocks: true, .. }))
}

#[cfg(test)]
mod planted;
