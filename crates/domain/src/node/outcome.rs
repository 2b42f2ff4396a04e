//! What can be answered. The answers of a rule stand in the order in which they are tried: the first that
//! fits is given.

use super::record::Record;

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// To [`Command::Heartbeat`](super::Command::Heartbeat).
    Heartbeat(HeartbeatOutcome),
    /// To [`Command::Leave`](super::Command::Leave).
    Leave {
        /// Whether there was a record to remove.
        left: bool,
    },
    /// To [`Command::Get`](super::Command::Get): the record as it is, of a live node or not.
    Get(Option<Box<Record>>),
    /// To [`Command::Expire`](super::Command::Expire).
    Expire {
        /// Whether the record is gone.
        removed: bool,
    },
}

/// What became of a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeartbeatOutcome {
    /// It, or a newer one, had come before: nothing was written.
    Repeated,
    /// It is the first of its node, or the first after its record was removed.
    Joined,
    /// The node goes on.
    Noted,
}
