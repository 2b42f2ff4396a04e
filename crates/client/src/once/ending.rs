//! The work beside the renewing of its lease, and how it ends.

use std::pin::pin;
use std::time::Duration;

use tokio::time::sleep;

use super::LeaseLoss;
use super::keeper::Keeper;
use super::outcome::{Outcome, Record, Unknown};
use crate::connection::Error;
use crate::deadline::Deadline;
use crate::keys::{Completed, Disposition, Work};

/// How the work ended, or did not.
pub(crate) enum End {
    Done(Work),
    DeadlinePassed,
    LeaseLost,
    /// Its time was over before it could begin.
    NotBegun,
}

/// What is to be completed.
pub(crate) struct Done {
    pub(crate) work: Work,
    /// The outcome, unless it is that the work ran.
    instead: Option<Outcome>,
}

impl End {
    /// What is to be completed of a claim that came about so; nothing if the lease is lost.
    pub(crate) fn done(self, disposition: Disposition) -> Option<Done> {
        let unknown = |why| Done { work: Work::Unknown, instead: Some(Outcome::Unknown(why)) };
        Some(match self {
            Self::LeaseLost => return None,
            Self::Done(Work::Unknown) => unknown(Unknown::WorkSaidSo),
            Self::Done(work) => Done { work, instead: None },
            // Nobody can have done it.
            Self::NotBegun if disposition == Disposition::Claimed => {
                let instead = Some(Outcome::InProgress { retry_after: Duration::ZERO });
                Done { work: Work::NotDone, instead }
            }
            Self::DeadlinePassed | Self::NotBegun => unknown(Unknown::DeadlinePassed),
        })
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
        self.instead.unwrap_or(Outcome::Ran { work: self.work, record })
    }
}

/// Does the work while its lease is kept; the deadline is the current one of all that it calls. All of it is dropped
/// on return: what ends early does nothing more.
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
