//! What a failed attempt looked like, and what that says about the work.
//!
//! | what was seen | kind | sent again? |
//! |---|---|---|
//! | name lookup, connection or TLS failed; connect timeout; no connection was free in time; a stream refused by its peer | [`NotSent`](FailureKind::NotSent) | yes, whatever it is |
//! | 429, 425, 503 with `Retry-After`; `RESOURCE_EXHAUSTED`, `UNAVAILABLE` with `RetryInfo` | [`Throttled`](FailureKind::Throttled) | yes, after the delay |
//! | no answer in time, connection lost after sending; 408, 502, 503, 504; `DEADLINE_EXCEEDED`, `UNAVAILABLE` | [`UnknownOutcome`](FailureKind::UnknownOutcome) | if it may be repeated |
//! | 500 and other 5xx; `INTERNAL`, `UNKNOWN`, `DATA_LOSS` | [`ServerError`](FailureKind::ServerError) | if it may be repeated |
//! | other 4xx, 501, 505; `INVALID_ARGUMENT`, `NOT_FOUND`, `FAILED_PRECONDITION` and their like | [`Rejected`](FailureKind::Rejected) | no |
//! | 409; `ABORTED` | [`InProgress`](FailureKind::InProgress) | yes, later, with the same key |
//! | 499; `CANCELLED` | [`Cancelled`](FailureKind::Cancelled) | no |
//!
//! `grpc-retry-pushback-ms` says no more of the work; it is the least delay of a retry, or, if it is negative or no
//! number, forbids every retry.
//!
//! - `http`, `grpc`: answers that say so themselves
//! - `errors`: what stands in the place of an answer

pub(crate) mod errors;
pub(crate) mod grpc;
pub(crate) mod http;

use std::time::Duration;

use ::http::HeaderMap;
use semel_proto::v1;

pub use self::errors::failure_of_error;
pub use self::grpc::{failure_of_grpc, failure_of_status};
pub use self::http::failure_of_http;
use crate::layers::grpc::Trailers;

/// What a failed attempt looked like to its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// It never left.
    NotSent,
    /// Turned away by the service itself.
    Throttled,
    /// Nobody knows whether the work was done.
    UnknownOutcome,
    /// The service failed: perhaps a bug, perhaps half done.
    ServerError,
    /// Refused for what it is.
    Rejected,
    /// Being done just now by another attempt of the same key.
    InProgress,
    /// The caller lost interest.
    Cancelled,
}

/// Whether the work of a failed attempt may have been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkDone {
    /// It was not: sending it again is the first time, whatever the request is.
    No,
    /// Perhaps: only a request that may be repeated may be sent again.
    Perhaps,
    /// It does not matter: no retry mends this.
    Irrelevant,
}

impl FailureKind {
    /// Every kind that this version knows.
    pub const ALL: &'static [Self] = &[
        Self::NotSent,
        Self::Throttled,
        Self::UnknownOutcome,
        Self::ServerError,
        Self::Rejected,
        Self::InProgress,
        Self::Cancelled,
    ];

    /// Whether the work may have been done. An attempt in progress has a key, so that asking again starts
    /// nothing.
    #[must_use]
    pub const fn work_done(self) -> WorkDone {
        match self {
            Self::NotSent | Self::Throttled | Self::InProgress => WorkDone::No,
            Self::UnknownOutcome | Self::ServerError => WorkDone::Perhaps,
            Self::Rejected | Self::Cancelled => WorkDone::Irrelevant,
        }
    }

    /// Its name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotSent => "not_sent",
            Self::Throttled => "throttled",
            Self::UnknownOutcome => "unknown_outcome",
            Self::ServerError => "server_error",
            Self::Rejected => "rejected",
            Self::InProgress => "in_progress",
            Self::Cancelled => "cancelled",
        }
    }

    /// Its name in the contract.
    pub(crate) const fn to_wire(self) -> v1::FailureKind {
        match self {
            Self::NotSent => v1::FailureKind::NotSent,
            Self::Throttled => v1::FailureKind::Throttled,
            Self::UnknownOutcome => v1::FailureKind::UnknownOutcome,
            Self::ServerError => v1::FailureKind::ServerError,
            Self::Rejected => v1::FailureKind::Rejected,
            Self::InProgress => v1::FailureKind::InProgress,
            Self::Cancelled => v1::FailureKind::Cancelled,
        }
    }
}

/// How an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// What it looked like.
    pub kind: FailureKind,
    /// The delay that the dependency asked for.
    pub server_delay: Option<Duration>,
    /// The dependency asked for no retry, whatever the kind.
    pub forbids_retries: bool,
}

impl Failure {
    /// A failure of this kind, whose dependency asked for no delay.
    #[must_use]
    pub const fn of(kind: FailureKind) -> Self {
        Self { kind, server_delay: None, forbids_retries: false }
    }

    /// The same with the delay that the dependency asked for.
    #[must_use]
    pub const fn with_delay(mut self, delay: Option<Duration>) -> Self {
        self.server_delay = delay;
        self
    }

    /// The same, of a dependency that asked for no retry.
    #[must_use]
    pub const fn forbidding_retries(mut self) -> Self {
        self.forbids_retries = true;
        self
    }
}

/// Tells what became of an attempt, by its answer or by the error in its place.
///
/// Ready-made: [`Http`](crate::layers::Http), [`Grpc`](crate::layers::Grpc) and, for values of one's own,
/// [`Calls`](crate::layers::Calls).
pub trait Classify<T> {
    /// `None`: the answer is good.
    fn answer(&self, answer: &T) -> Option<Failure>;

    /// What an error says. By default what it and its sources are known for: see [`failure_of_error`].
    fn error(&self, error: &(dyn std::error::Error + 'static)) -> Failure {
        failure_of_error(error)
    }

    /// What is still to come of an answer whose head is good. `None`: its head says it all.
    fn trailers(&self, answer: &T) -> Option<Trailers> {
        let _ = answer;
        None
    }

    /// The headers of an answer. `None`: it has none, and returns nothing of the root's retries.
    fn reply_headers<'a>(&self, answer: &'a T) -> Option<&'a HeaderMap> {
        let _ = answer;
        None
    }
}
