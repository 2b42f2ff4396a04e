//! One commit, and what became of it: for certain, as far as the cluster can be reached.

use std::time::Duration;

use foundationdb::{Transaction, TransactionCommitError};
use semel_store::optimistic::Lost;

use super::failure::Failure;
use super::settle::settle;
use super::write::Part;
use crate::layout::Range;
use crate::meaning::{Meaning, Phase};

/// What became of a commit.
pub(crate) enum Fate {
    Committed,
    /// Nothing was written, since what lies in these ranges, or something if there are none, was written
    /// since it was read.
    Conflict(Vec<Range>),
    /// None of its records was written, or nobody can tell.
    Failed(Lost),
}

impl From<Failure> for Fate {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure.into_lost())
    }
}

/// Commits a part, again after a pause as long as the cluster is busy.
pub(crate) async fn commit(part: &Part<'_>, within: Duration) -> Fate {
    let mut transaction = match part.shared.transaction(within) {
        Ok(transaction) => transaction,
        Err(failure) => return failure.into(),
    };
    loop {
        if let Err(error) = part.fill(&transaction) {
            return Failure::from(error).into();
        }
        let Err(error) = transaction.commit().await else { return Fate::Committed };
        match of_error(part, error).await {
            Next::Again(transaction_again) => transaction = transaction_again,
            Next::Done(fate) => return fate,
        }
    }
}

/// What comes after an error.
enum Next {
    /// The same, in this transaction.
    Again(Transaction),
    Done(Fate),
}

async fn of_error(part: &Part<'_>, error: TransactionCommitError) -> Next {
    let failure = Failure::new(*error, Phase::Commit);
    match failure.meaning {
        Meaning::Again => Next::Done(Fate::Conflict(conflicts(&error).await)),
        Meaning::Busy => match error.on_error().await {
            Ok(transaction) => Next::Again(transaction),
            Err(error) => Next::Done(Failure::from(error).into()),
        },
        Meaning::Unknown => Next::Done(match settle(part).await {
            Some(true) => Fate::Committed,
            Some(false) => Fate::Failed(Lost::Again),
            None => failure.into(),
        }),
        Meaning::Unavailable | Meaning::Invalid => Next::Done(failure.into()),
    }
}

/// What the transaction declared as read and others wrote since.
async fn conflicts(error: &TransactionCommitError) -> Vec<Range> {
    let found = error.conflicting_keys().await.unwrap_or_default();
    found.iter().map(|range| (range.begin().to_vec(), range.end().to_vec())).collect()
}
