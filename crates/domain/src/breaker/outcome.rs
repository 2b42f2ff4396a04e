//! What can be answered. The answers of a rule stand in the order in which they are tried: the first
//! that fits is given.

use std::time::Duration;

use super::record::Record;
use super::window::ReporterId;

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// To [`Command::Absorb`](super::Command::Absorb).
    Absorb {
        /// What became of the outcomes.
        absorbed: AbsorbOutcome,
        /// Whether a change of state is due now: ask for it.
        due: bool,
    },
    /// To [`Command::Advance`](super::Command::Advance).
    Advance(AdvanceOutcome),
    /// To [`Command::Probe`](super::Command::Probe).
    Probe(ProbeOutcome),
    /// To [`Command::Settle`](super::Command::Settle).
    Settle(SettleOutcome),
    /// To [`Command::Override`](super::Command::Override).
    Override {
        /// It had been carried out before.
        already: bool,
    },
    /// To [`Command::SetPolicy`](super::Command::SetPolicy).
    SetPolicy(SetPolicyOutcome),
    /// To [`Command::Get`](super::Command::Get): the record as it stands now, its override ended if
    /// that is over.
    Get(Option<Box<Record>>),
    /// To [`Command::Expire`](super::Command::Expire).
    Expire {
        /// Whether the record is gone.
        removed: bool,
    },
}

/// What became of outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbsorbOutcome {
    /// They, or newer ones of the same node, had come before.
    Repeated,
    /// All were made under another generation than the breaker's: they do not count.
    Stale,
    /// The breaker follows as many nodes as it can: they do not count.
    Full,
    /// They count.
    Absorbed {
        /// The calls among them that were made under another generation, and do not count.
        stale_calls: u64,
    },
}

/// Which change of state was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdvanceOutcome {
    /// The override was over.
    OverrideEnded,
    /// The failures passed the threshold: it is open.
    Opened,
    /// One reporter alone fails: it is to hold back by itself. The generation stays.
    Isolated(ReporterId),
    /// None.
    NothingDue,
}

/// The answer to whoever would probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// An operator forces the breaker: there are no probes.
    Forced,
    /// It is closed: there is nothing to probe.
    Closed,
    /// It is open, and this is left until a probe may find out.
    CoolingDown(Duration),
    /// This very question was answered with this permit before, and still is.
    Repeated(Grant),
    /// All probes are under way; the first gives way after this, if not before.
    Taken(Duration),
    /// The permit.
    Granted(Grant),
}

/// A permit to probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Its id.
    pub permit: [u8; 16],
    /// How long it is good for from now.
    pub expires_in: Duration,
    /// The generation under which it was given.
    pub generation: u64,
}

/// What a probe brought about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleOutcome {
    /// Nothing: the permit is unknown, was settled before, has run out, or is of an earlier
    /// generation.
    Unknown,
    /// The next caller probes.
    Inconclusive,
    /// It is open again, for longer.
    Reopened,
    /// It is closed.
    Closed,
    /// One more success, and not enough yet.
    Counted,
}

/// Whether a policy was replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetPolicyOutcome {
    /// It is what was asked for: nothing was written.
    Already {
        /// Its version.
        version: u64,
    },
    /// Another version is there than the one that was to be replaced: nothing was written.
    Conflict {
        /// The version that is there.
        version: u64,
    },
    /// It was replaced.
    Set {
        /// The new version.
        version: u64,
    },
}
