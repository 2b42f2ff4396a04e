//! The work beside the renewing of its lease, and how it ends.

use std::pin::pin;

use tokio::time::sleep;

use super::LeaseLoss;
use super::keeper::Keeper;
use super::outcome::{Outcome, Record, Unknown};
use crate::connection::Error;
use crate::deadline::Deadline;
use crate::keys::{Completed, Work};

/// How the work ended, or did not.
pub(crate) enum End {
    Done(Work),
    DeadlinePassed,
    LeaseLost,
}

/// What is to be completed.
pub(crate) struct Done {
    pub(crate) work: Work,
    unknown: Option<Unknown>,
}

impl End {
    /// What is to be completed; nothing if the lease is lost.
    pub(crate) fn done(self) -> Option<Done> {
        let unknown = match &self {
            Self::LeaseLost => return None,
            Self::DeadlinePassed => Some(Unknown::DeadlinePassed),
            Self::Done(Work::Unknown) => Some(Unknown::WorkSaidSo),
            Self::Done(_) => None,
        };
        let work = if let Self::Done(work) = self { work } else { Work::Unknown };
        Some(Done { work, unknown })
    }
}

impl Done {
    /// The outcome, once completing has come to this.
    pub(crate) fn recorded(self, completed: Result<Completed, Error>, fence: u64) -> Outcome {
        let record = match completed {
            Ok(completed) => Record::Stored(completed),
            Err(error) if error.is_repeatable() => Record::Unconfirmed(error),
            Err(error) => Record::Refused(error),
        };
        if !matches!(record, Record::Stored(_)) {
            tracing::warn!(fence, ?record, "a completion was not stored");
        }
        self.unknown.map_or(Outcome::Ran { work: self.work, record }, Outcome::Unknown)
    }
}

/// Does the work while its lease is kept; the deadline is the current one of all that it calls. All of it is dropped on return: what ends early does nothing more.
pub(crate) async fn drive(
    work: impl Future<Output = Work>,
    keeper: Keeper<'_>,
    deadline: Deadline,
    lease_loss: LeaseLoss,
) -> End {
    let mut work = pin!(deadline.scope(work));
    let mut over = pin!(sleep(deadline.left()));
    tokio::select! {
        biased;
        done = &mut work => return End::Done(done),
        () = &mut over => return End::DeadlinePassed,
        () = keeper.keep() => {}
    }
    if lease_loss == LeaseLoss::Cancel {
        return End::LeaseLost;
    }
    tokio::select! {
        biased;
        done = work => End::Done(done),
        () = over => End::DeadlinePassed,
    }
}
