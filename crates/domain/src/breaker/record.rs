//! What is stored for a breaker. Its tenant and dependency are its address, not part of it.

use std::borrow::Cow;

use super::policy::Policy;
use super::window::Window;
use crate::time::Timestamp;

/// A breaker's record. One that is absent stands closed at generation 0, with the default policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// When the record last changed. Never goes back.
    pub touched_at: Timestamp,
    /// The policy that was set, if one was.
    pub policy: Option<PolicySet>,
    /// Increments with every change of state. Never goes back: a record whose generation is not 0 is
    /// never removed.
    pub generation: u64,
    /// Where it stands, unless an operator forces it.
    pub state: State,
    /// What was reported under this generation, or led to it.
    pub window: Window,
    /// The operator's force, if any.
    pub force: Option<Force>,
    /// The ids of operators' newest overrides, oldest first, to recognise one that is run again: the
    /// last 8.
    pub forces: Vec<[u8; 16]>,
    /// The newest outcomes of each node, by the node's incarnation: at most 512.
    pub nodes: Vec<NodeSeen>,
}

/// A policy, and who stands for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySet {
    /// The policy.
    pub policy: Policy,
    /// Counts the policies of this breaker, from 1.
    pub version: u64,
    /// Who set it.
    pub actor: Box<str>,
    /// When.
    pub set_at: Timestamp,
}

/// Where a breaker stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Calls go through.
    Closed {
        /// Since when.
        since: Timestamp,
        /// It recovered, after this many failed recoveries: a ramp leads to full traffic. `None`: it
        /// never opened, or an operator closed it.
        recovered: Option<u32>,
    },
    /// Calls are not worth making.
    Open {
        /// Since when.
        since: Timestamp,
        /// From then on, a probe may find out.
        until: Timestamp,
        /// How many recoveries failed one after another.
        level: u32,
    },
    /// Probes are under way.
    HalfOpen {
        /// Since when.
        since: Timestamp,
        /// How many recoveries failed one after another.
        level: u32,
        /// Probes that succeeded one after another.
        successes: u32,
        /// Probes under way, oldest first: at most 100.
        permits: Vec<Permit>,
    },
}

/// The right to make one call to a dependency that is being probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permit {
    /// 16 unguessable bytes.
    pub id: [u8; 16],
    /// The question that it answers: asked again, it is answered alike.
    pub probe_id: [u8; 16],
    /// From then on the probe is inconclusive, and its slot is free.
    pub expires_at: Timestamp,
}

/// What an operator forces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForceKind {
    /// Open, whatever the outcomes. No probes.
    Open,
    /// Closed, whatever the outcomes.
    Closed,
    /// Closed; outcomes are counted, and never open it.
    MetricsOnly,
}

/// An operator's force on a breaker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Force {
    /// Which.
    pub kind: ForceKind,
    /// Who.
    pub actor: Box<str>,
    /// Why.
    pub reason: Box<str>,
    /// Since when.
    pub since: Timestamp,
    /// Until when; absent: until it is taken away.
    pub expires_at: Option<Timestamp>,
}

/// The newest outcomes that a node brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeSeen {
    /// The node's incarnation.
    pub node: [u8; 16],
    /// The number of what it brought.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
}

impl Record {
    /// The record of a breaker that has none.
    #[must_use]
    pub fn fresh(now: Timestamp) -> Self {
        Self {
            touched_at: now,
            policy: None,
            generation: 0,
            state: State::Closed { since: now, recovered: None },
            window: Window::default(),
            force: None,
            forces: Vec::new(),
            nodes: Vec::new(),
        }
    }

    /// The policy in force.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.policy.as_ref().map_or_else(Policy::default, |set| set.policy)
    }

    /// The version of the policy in force; 0: the default policy.
    #[must_use]
    pub fn policy_version(&self) -> u64 {
        self.policy.as_ref().map_or(0, |set| set.version)
    }

    /// The record with its override ended, if that is over at `now`: what every reader sees, and what
    /// every rule that changes the state begins with, whether or not somebody wrote it down before.
    #[must_use]
    pub fn settled(&self, now: Timestamp) -> Cow<'_, Self> {
        let over = |force: &Force| force.expires_at.filter(|&end| end <= now).zip(Some(force.kind));
        let Some((end, kind)) = self.force.as_ref().and_then(over) else {
            return Cow::Borrowed(self);
        };
        let mut settled = self.clone();
        // Traffic that was held back returns step by step.
        let recovered = (kind == ForceKind::Open).then_some(0);
        settled.force = None;
        settled.window = Window::default();
        settled.enter(State::Closed { since: end, recovered });
        Cow::Owned(settled)
    }

    /// Goes on to another state, under the next generation.
    pub(super) fn enter(&mut self, state: State) {
        self.state = state;
        self.generation = self.generation.saturating_add(1);
    }
}
