//! What can be asked of a node's record. Values are checked before a command is made: a rule sees nothing
//! malformed.

use std::time::Duration;

use super::record::{Format, Load};
use super::skew::ClockSample;

/// A command on the record of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// The node lives, and says how it is. It may be lost in a crash: the next one follows soon.
    Heartbeat(Heartbeat),
    /// The node ends.
    Leave,
    /// Reads the record.
    Get,
    /// Removes the record if its node is gone for good.
    Expire,
}

/// A node says how it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Counts the heartbeats of this node, from 1.
    pub seq: u64,
    /// For how long it has been up, by a clock that never steps.
    pub up_for: Duration,
    /// How often it means to send one.
    pub interval: Duration,
    /// The version of its program: at most 64 bytes.
    pub version: Box<str>,
    /// Where it can be reached: at most 255 bytes.
    pub address: Box<str>,
    /// The stored formats that it knows, in the order of their names: at most 32.
    pub formats: Vec<Format>,
    /// What it has to do.
    pub load: Load,
    /// How far its clock is off, as it last measured; absent: not yet.
    pub clock: Option<ClockSample>,
}
