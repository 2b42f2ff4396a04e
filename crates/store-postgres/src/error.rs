//! What went wrong, and what that means for a change.
//!
//! Invariant: no text here holds a connection string or a password; what the server said is passed
//! on, and what could not be parsed is not.

use std::error::Error as _;

use semel_store::StoreError;
use semel_store::optimistic::Lost;
use tokio_postgres::error::{Severity, SqlState};

/// Why a store was not opened, or its schema not changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The connection string can't be read. It is not shown, since it may hold a password.
    #[error("the connection string of the database is not valid: {0}")]
    Address(String),
    /// An option is out of its range.
    #[error("{option} is {found}; it must be {allowed}")]
    Option {
        /// Which option.
        option: &'static str,
        /// What it was.
        found: String,
        /// What it may be.
        allowed: &'static str,
    },
    /// Certificates could not be read or used.
    #[error("the certificates for the database can not be used: {0}")]
    Certificates(String),
    /// The database could not be reached, or refused.
    #[error("the database could not be reached: {0}")]
    Unreachable(String),
    /// The schema is not one that this version can use.
    #[error(
        "the schema {schema} has version {found}, and this version of Semel knows those up to \
         {known}: upgrade this node, or give it a database of its own"
    )]
    Newer {
        /// The schema.
        schema: String,
        /// The version that was found.
        found: i32,
        /// The newest version that is known here.
        known: i32,
    },
    /// Migrations are missing, and opening was not to apply them.
    #[error("the schema {schema} has version {found}, and {known} is needed: run the migrations")]
    Older {
        /// The schema.
        schema: String,
        /// The version that was found; 0: none at all.
        found: i32,
        /// The version that is needed.
        known: i32,
    },
    /// A thread or a runtime could not be started.
    #[error("could not start the threads of the store: {0}")]
    Thread(std::io::Error),
}

impl OpenError {
    pub(crate) fn unreachable(error: &tokio_postgres::Error) -> Self {
        Self::Unreachable(describe(error))
    }
}

/// What an error means for the statement that met it.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// It was rolled back, and running it again at once may succeed.
    Again(String),
    /// Nothing was written.
    Unavailable(String),
    /// It may have been committed.
    Unknown(String),
    /// Nothing was written, and trying again won't help.
    Invalid(String),
}

impl Failure {
    /// An error of a statement that writes nothing, or that was not yet sent.
    pub(crate) fn before_write(error: &tokio_postgres::Error) -> Self {
        match Self::of_write(error) {
            Self::Unknown(text) => Self::Unavailable(text),
            other => other,
        }
    }

    /// An error of a statement that writes, after it was sent.
    pub(crate) fn of_write(error: &tokio_postgres::Error) -> Self {
        let text = describe(error);
        let Some(found) = error.as_db_error() else { return Self::Unknown(text) };
        if !matches!(found.parsed_severity(), Some(Severity::Error)) {
            // The session ends; it may have been past its commit.
            return Self::Unknown(text);
        }
        let again = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED]
            .contains(found.code());
        if again {
            return Self::Again(text);
        }
        let code = found.code().code();
        let class = code.get(..2).unwrap_or_default();
        // Something between here and the server lost sight of it.
        if class == "08" || code == "40003" {
            return Self::Unknown(text);
        }
        let unavailable = [
            // The lock or the time ran out, the row is locked, or the server ends.
            SqlState::LOCK_NOT_AVAILABLE,
            SqlState::QUERY_CANCELED,
            // A standby: a node that was connected to the primary before a failover.
            SqlState::READ_ONLY_SQL_TRANSACTION,
            // Prepared statements that are gone or no longer fit: a new connection has new ones.
            SqlState::INVALID_SQL_STATEMENT_NAME,
            SqlState::FEATURE_NOT_SUPPORTED,
        ];
        // Resources, interventions, the system, and transactions that were ended.
        if unavailable.contains(found.code()) || ["25", "40", "53", "57", "58"].contains(&class) {
            return Self::Unavailable(text);
        }
        Self::Invalid(text)
    }

    /// What an update makes of it.
    pub(crate) fn into_lost(self) -> Lost {
        match self {
            Self::Again(_) => Lost::Again,
            other => Lost::Failed(other.into_store_error()),
        }
    }

    /// What the caller of an item is told.
    pub(crate) fn into_store_error(self) -> StoreError {
        match self {
            Self::Again(text) | Self::Unavailable(text) => StoreError::Unavailable(text),
            Self::Unknown(text) => StoreError::Unknown(text),
            Self::Invalid(text) => StoreError::Invalid(text),
        }
    }
}

/// Whether a connection that met this error is of no use any more.
pub(crate) fn ends_session(error: &tokio_postgres::Error) -> bool {
    let codes = [
        SqlState::READ_ONLY_SQL_TRANSACTION,
        SqlState::INVALID_SQL_STATEMENT_NAME,
        SqlState::FEATURE_NOT_SUPPORTED,
    ];
    error.is_closed() || error.code().is_some_and(|code| codes.contains(code))
}

/// What the server said with its code, or what the connection met.
pub(crate) fn describe(error: &tokio_postgres::Error) -> String {
    if let Some(found) = error.as_db_error() {
        return format!("{} ({})", found.message(), found.code().code());
    }
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}
