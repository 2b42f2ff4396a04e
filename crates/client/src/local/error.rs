//! What can go wrong in the database.

use thiserror::Error;
use tokio_postgres::error::{Severity, SqlState};

/// Why there is no outcome.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The key was used for another intent, or its digest was made by another algorithm. Nothing was done.
    #[error("the key {key:?} was used for another intent: use a new key for a new intent")]
    Mismatch {
        /// The key.
        key: String,
    },
    /// A statement failed, or the connection was lost before COMMIT was sent: all of it is rolled back.
    #[error("the database: {}", describe(.0))]
    Database(#[source] tokio_postgres::Error),
    /// The answer to COMMIT was lost. Perhaps it is done: ask again, and the receipt says it.
    #[error("whether it was committed is unknown: {}", describe(.0))]
    CommitUnknown(#[source] tokio_postgres::Error),
    /// The row of the key holds what this version can't read. Nothing was done.
    #[error("the receipt can't be read: {0}")]
    Unreadable(String),
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

impl Error {
    /// What a failed COMMIT means: only a server that answers with an ordinary error has rolled back.
    pub(super) fn of_commit(error: tokio_postgres::Error) -> Self {
        let rolled_back = error.as_db_error().is_some_and(|error| {
            error.parsed_severity() == Some(Severity::Error) && !leaves_open(error.code())
        });
        if rolled_back { Self::Database(error) } else { Self::CommitUnknown(error) }
    }
}

/// What poolers in between answer if they lost the server.
fn leaves_open(code: &SqlState) -> bool {
    code.code().starts_with("08") || *code == SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN
}

/// An error of the library hides what the server said behind "db error".
fn describe(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(
        || error.to_string(),
        |said| format!("{} ({})", said.message(), said.code().code()),
    )
}
