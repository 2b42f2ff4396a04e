//! The nodes of a cluster: who is there, and how each of them is.
//!
//! # Layout
//!
//! - [`record`]: what is stored of a node
//! - [`command`]: what can be asked; [`outcome`]: what can be answered, in order of precedence
//! - `heartbeat`, `expire`: one rule a file
//! - [`skew`]: how far a clock is off, and how sure that is
//! - [`layout`]: where records lie in the store; [`encoding`]: their versioned bytes
//!
//! # Invariants
//!
//! - A node writes its own record only, and a heartbeat that arrives late or twice changes nothing.
//! - Whether a node is live is a function of its record and the store's clock: no reader's own
//!   settings count, and no reader's own clock.
//!
//! # What it does not do
//!
//! Nothing depends on who is live: claims, budgets and breakers are right whoever else there is. A node
//! that is not live any more may well be serving still.

mod expire;
mod heartbeat;

pub mod command;
pub mod encoding;
pub mod layout;
pub mod outcome;
pub mod record;
pub mod skew;

pub use crate::codec::DecodeError;
pub use command::{Command, Heartbeat};
pub use encoding::{decode, encode};
pub use outcome::{HeartbeatOutcome, Outcome};
pub use record::{Format, Load, NodeId, Record, is_live};
pub use skew::ClockSample;

use crate::Change;
use crate::time::Timestamp;

/// Decides `command` on the record of its node (absent: `None`) at `now`.
///
/// The one entry to the rules of this module. `now` is the store's clock; what counts is never earlier
/// than the record's last heartbeat.
#[must_use]
pub fn decide(
    record: Option<&Record>,
    command: &Command,
    now: Timestamp,
) -> (Change<Record>, Outcome) {
    let now = record.map_or(now, |record| now.max(record.touched_at));
    match command {
        Command::Heartbeat(heartbeat) => {
            let (change, outcome) = heartbeat::decide(record, heartbeat, now);
            (change, Outcome::Heartbeat(outcome))
        }
        Command::Leave => {
            let left = record.is_some();
            (if left { Change::Delete } else { Change::Keep }, Outcome::Leave { left })
        }
        Command::Get => (Change::Keep, Outcome::Get(record.cloned().map(Box::new))),
        Command::Expire => {
            let (change, removed) = expire::decide(record, now);
            (change, Outcome::Expire { removed })
        }
    }
}
