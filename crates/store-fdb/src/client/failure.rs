//! What a transaction met, and whether it is tried again.

use foundationdb::{FdbError, Transaction};
use semel_store::StoreError;
use semel_store::optimistic::Lost;

use crate::meaning::{Meaning, Phase};

/// What a transaction met, and what that means.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) meaning: Meaning,
    text: String,
    error: Option<FdbError>,
}

impl Failure {
    pub(crate) fn new(error: FdbError, phase: Phase) -> Self {
        Self {
            meaning: Meaning::of(error.code(), phase),
            text: format!("{} ({})", error.message(), error.code()),
            error: Some(error),
        }
    }

    /// What is stored can't be read.
    pub(crate) fn invalid(text: String) -> Self {
        Self { meaning: Meaning::Invalid, text, error: None }
    }

    /// The cluster did not answer in time.
    pub(crate) fn silent() -> Self {
        let text = "the cluster does not answer".to_owned();
        Self { meaning: Meaning::Unavailable, text, error: None }
    }

    /// What the caller of an item is told.
    pub(crate) fn into_store_error(self) -> StoreError {
        match self.meaning {
            Meaning::Again | Meaning::Busy | Meaning::Unavailable => {
                StoreError::Unavailable(self.text)
            }
            Meaning::Unknown => StoreError::Unknown(self.text),
            Meaning::Invalid => StoreError::Invalid(self.text),
        }
    }

    pub(crate) fn into_lost(self) -> Lost {
        match self.meaning {
            Meaning::Again => Lost::Again,
            _ => Lost::Failed(self.into_store_error()),
        }
    }
}

impl From<FdbError> for Failure {
    /// Of a transaction that had not asked for its commit.
    fn from(error: FdbError) -> Self {
        Self::new(error, Phase::Read)
    }
}

/// Prepares a transaction that writes nothing for another try, after the pause that the library thinks
/// right. Its own time limit goes on.
///
/// # Errors
///
/// What it met, if trying again is of no use.
pub(crate) async fn again(
    transaction: Transaction,
    failure: Failure,
) -> Result<Transaction, Failure> {
    match (failure.meaning, failure.error) {
        (Meaning::Again | Meaning::Busy, Some(error)) => Ok(transaction.on_error(error).await?),
        _ => Err(failure),
    }
}
