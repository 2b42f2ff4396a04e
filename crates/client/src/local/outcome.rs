//! What came of a write in one's own database.

use std::time::{Duration, SystemTime};

use crate::keys::{Resolution, Response, Work};

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum Outcome {
    /// The work ran here, and is committed with this receipt.
    Ran(Receipt),
    /// It was done before, and this is its receipt. The work did not run here.
    Replayed(Receipt),
    /// The work said that it is not done, and all of it is rolled back.
    NotDone,
    /// Another transaction is at it, for longer than the lock timeout. The work did not run here.
    ComeBackLater {
        /// When to come back.
        after: Duration,
    },
    /// Somebody made sure that no owner with this fence or an older one writes any more. The work did not
    /// run here.
    Fenced {
        /// That fence.
        fence: u64,
    },
}

/// What was done, as it lies beside the effect.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Receipt {
    /// The fence under which it was done; 0: without a claim.
    pub fence: u64,
    /// Whether it failed for good, rather than succeeded.
    pub failed: bool,
    /// What the work answered, byte for byte.
    pub response: Response,
    /// When its row was written, by the database's clock.
    pub written_at: SystemTime,
}

impl Outcome {
    /// The answer to give to whoever asked, if there is one.
    #[must_use]
    pub const fn response(&self) -> Option<&Response> {
        match self {
            Self::Ran(receipt) | Self::Replayed(receipt) => Some(&receipt.response),
            Self::NotDone | Self::ComeBackLater { .. } | Self::Fenced { .. } => None,
        }
    }

    /// As what to complete the claim under which it ran.
    pub(super) fn into_work(self) -> Work {
        match self {
            Self::Ran(receipt) | Self::Replayed(receipt) if receipt.failed => {
                Work::FailedFinal(receipt.response)
            }
            Self::Ran(receipt) | Self::Replayed(receipt) => Work::Succeeded(receipt.response),
            Self::NotDone => Work::NotDone,
            // Another may be doing it.
            Self::ComeBackLater { .. } | Self::Fenced { .. } => Work::Unknown,
        }
    }
}

impl Receipt {
    pub(super) fn into_resolution(self) -> Resolution {
        if self.failed {
            Resolution::FailedFinal(self.response)
        } else {
            Resolution::Succeeded(self.response)
        }
    }
}
