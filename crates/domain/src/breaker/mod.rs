//! Circuit breakers: whether a dependency is worth calling, one answer for the whole fleet.
//!
//! # Layout
//!
//! - [`policy`]: what a breaker is told
//! - [`window`]: outcomes over a sliding window; [`quorum`]: whether they are reason to open
//! - [`record`]: what is stored for a breaker
//! - [`command`]: what can be asked of it; [`outcome`]: what can be answered, in order of precedence
//! - `absorb`, `advance`, `probe`, `settle`, `force`, `set_policy`, `expire`: one rule a file
//! - [`view`]: a breaker at one moment
//! - [`layout`]: where records lie in the store; [`encoding`]: their versioned bytes
//!
//! # Invariants
//!
//! - Every change of state increments the generation, in the same write; no generation comes back.
//! - Outcomes change counts and nothing else, once, and only under their own generation: what may be
//!   lost in a crash is never more than counts.
//! - In the whole fleet no more permits are live than the policy's probes.
//! - One reporter alone never opens a breaker that others find well.
//!
//! # What it does not do
//!
//! It measures no call and watches no clock: callers say what was slow, and somebody has to ask for
//! what is due ([`Command::Advance`]). What is over needs nobody: every reader sees it so.

mod absorb;
mod advance;
mod expire;
mod force;
mod probe;
mod set_policy;
mod settle;

pub mod command;
pub mod encoding;
pub mod layout;
pub mod outcome;
pub mod policy;
pub mod quorum;
pub mod record;
pub mod view;
pub mod window;

pub use crate::codec::DecodeError;
pub use command::{Absorb, Command, Outcomes, Override, Probe, ProbeResult, SetPolicy, Settle};
pub use encoding::{decode, encode};
pub use outcome::{
    AbsorbOutcome, AdvanceOutcome, Grant, Outcome, ProbeOutcome, SetPolicyOutcome, SettleOutcome,
};
pub use policy::Policy;
pub use record::{Force, ForceKind, NodeSeen, Permit, PolicySet, Record, State};
pub use view::{Condition, Snapshot, Standing, isolated_for, snapshot, standing};
pub use window::{Counts, ReporterId, Ring, Slot, Tracked, Window};

use crate::Change;
use crate::time::Timestamp;

/// Decides `command` on the record of its breaker (absent: `None`) at `now`.
///
/// The one entry to the rules of this module. `now` is the store's clock; what counts is never earlier
/// than the record's last change.
#[must_use]
pub fn decide(
    record: Option<&Record>,
    command: &Command,
    now: Timestamp,
) -> (Change<Record>, Outcome) {
    let now = record.map_or(now, |record| now.max(record.touched_at));
    let settled = record.map(|record| record.settled(now));
    let settled = settled.as_deref();
    match command {
        Command::Absorb(absorb) => {
            let (change, absorbed, due) = absorb::decide(record, absorb, now);
            (change, Outcome::Absorb { absorbed, due })
        }
        Command::Advance { random } => {
            let (change, outcome) = advance::decide(record, *random, now);
            (change, Outcome::Advance(outcome))
        }
        Command::Probe(probe) => {
            let (change, outcome) = probe::decide(settled, probe, now);
            (change, Outcome::Probe(outcome))
        }
        Command::Settle(settle) => {
            let (change, outcome) = settle::decide(settled, settle, now);
            (change, Outcome::Settle(outcome))
        }
        Command::Override(command) => {
            let (change, already) = force::decide(settled, command, now);
            (change, Outcome::Override { already })
        }
        Command::SetPolicy(command) => {
            let (change, outcome) = set_policy::decide(settled, command, now);
            (change, Outcome::SetPolicy(outcome))
        }
        Command::Get => (Change::Keep, Outcome::Get(settled.cloned().map(Box::new))),
        Command::Expire => {
            let (change, removed) = expire::decide(record, now);
            (change, Outcome::Expire { removed })
        }
    }
}

/// Whether a change of state is due at `now`: ask for it with [`Command::Advance`].
#[must_use]
pub fn is_due(record: &Record, now: Timestamp) -> bool {
    advance::due(record, now.max(record.touched_at)).is_some()
}
