//! What came of asking for a write once.

use std::time::Duration;

use crate::connection::Error;
use crate::keys::{Completed, Response, StoredAnswer, Work};

/// What came of it. "Somebody is at it" and "nobody knows" are answers, not errors.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum Outcome {
    /// The work ran here, to its end.
    Ran {
        /// What it came to.
        work: Work,
        /// Whether Semel knows.
        record: Record,
    },
    /// It was done before; this is its answer, which may be that it failed for good.
    Replayed(StoredAnswer),
    /// Somebody else is at it. The work did not run here.
    InProgress {
        /// When to look again.
        retry_after: Duration,
    },
    /// Perhaps it is done.
    Unknown(Unknown),
}

/// Whether what the work came to is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Record {
    /// It is stored, and whoever asks again gets it.
    Stored(Completed),
    /// No node confirmed it in time. Perhaps it is stored; if not, the lease lapses, and the key's policy
    /// says who looks. The work ran: don't run it again.
    Unconfirmed(Error),
    /// It is not stored: another took over meanwhile, or the node refused it. What others are told about
    /// this key is not what the work came to here.
    Refused(Error),
}

/// Why nobody knows whether it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unknown {
    /// The work said so: [`Work::Unknown`].
    WorkSaidSo,
    /// The work was not over at the deadline, and was dropped.
    DeadlinePassed,
    /// The lease was lost while the work ran, and the work was dropped.
    LeaseLost,
    /// An earlier owner was lost, and an operator has to settle it. The work did not run here.
    Blocked,
}

impl Outcome {
    /// The answer to give to whoever asked, if there is one: of the work that ran, or the stored one.
    #[must_use]
    pub const fn response(&self) -> Option<&Response> {
        match self {
            Self::Ran { work: Work::Succeeded(response) | Work::FailedFinal(response), .. } => {
                Some(response)
            }
            Self::Replayed(answer) => answer.response.as_ref(),
            Self::Ran { .. } | Self::InProgress { .. } | Self::Unknown(_) => None,
        }
    }

    /// Whether the matter is settled for good: it is done or has failed for good, and that is stored. A
    /// message that asked for it may be acknowledged; any other is to be delivered again.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        match self {
            Self::Ran { work: Work::Succeeded(_) | Work::FailedFinal(_), record } => {
                matches!(record, Record::Stored(_))
            }
            Self::Replayed(_) => true,
            Self::Ran { .. } | Self::InProgress { .. } | Self::Unknown(_) => false,
        }
    }
}
