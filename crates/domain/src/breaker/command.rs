//! What can be asked of a breaker. Values are checked and defaults are filled in before a command is
//! made: a rule sees nothing malformed.

use std::time::Duration;

use super::policy::Policy;
use super::record::ForceKind;
use super::window::{Counts, ReporterId};

/// A command on one breaker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Brings outcomes. Changes counts, never the state: it may be lost in a crash.
    Absorb(Absorb),
    /// Makes the change of state that is due, if one is.
    Advance {
        /// Spreads cool-downs.
        random: u64,
    },
    /// Asks for a permit to probe.
    Probe(Probe),
    /// Says what became of a probe.
    Settle(Settle),
    /// Forces the state or takes the force away, for operators.
    Override(Override),
    /// Replaces the policy, for operators.
    SetPolicy(SetPolicy),
    /// Reads the whole record.
    Get,
    /// Removes the record if it says no more than none would.
    Expire,
}

/// Brings the outcomes that reached a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absorb {
    /// The node's incarnation.
    pub node: [u8; 16],
    /// Counts what this node brings to this breaker, from 1. Brought again, it counts once.
    pub seq: u64,
    /// The outcomes.
    pub outcomes: Vec<Outcomes>,
}

/// Outcomes of one reporter under one generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcomes {
    /// Whose.
    pub reporter: ReporterId,
    /// Under which generation the calls were made.
    pub generation: u64,
    /// What became of them.
    pub counts: Counts,
}

/// Asks for a permit to probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The id that the permit will have: unguessable, and used once.
    pub permit: [u8; 16],
    /// The question: asked again, it is answered with the same permit.
    pub probe_id: [u8; 16],
}

/// What became of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeResult {
    /// The dependency lives.
    Succeeded,
    /// It does not.
    Failed,
    /// Nobody knows.
    Inconclusive,
}

/// Says what became of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settle {
    /// Its permit.
    pub permit: [u8; 16],
    /// What became of it.
    pub result: ProbeResult,
    /// Spreads cool-downs.
    pub random: u64,
}

/// Forces the state or takes the force away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// 16 random bytes that name this command, to recognise it when it is run again.
    pub id: [u8; 16],
    /// What to force; absent: takes the force away, forgets all counts, and closes.
    pub kind: Option<ForceKind>,
    /// For how long; absent: until it is taken away.
    pub expires_in: Option<Duration>,
    /// Who.
    pub actor: Box<str>,
    /// Why.
    pub reason: Box<str>,
}

/// Replaces the policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetPolicy {
    /// The new policy.
    pub policy: Policy,
    /// The version to be replaced; absent: whatever is there.
    pub expected_version: Option<u64>,
    /// Who.
    pub actor: Box<str>,
}
