//! What is measured of writes that are to happen once.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;

use super::{Instruments, Metrics};
use crate::connection::{Error, Reason};
use crate::keys::{ClaimAnswer, Completed, Disposition as Claimed};
use crate::once::{Outcome, Record, Unknown};

/// What became of a request that was to be handled once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disposition {
    /// The work ran here, and its answer is the one to give.
    Ran,
    /// The stored answer was given.
    Replayed,
    /// Somebody else is at it.
    InProgress,
    /// The work ran here, but somebody took the claim over meanwhile.
    Overtaken,
    /// Perhaps it is done.
    Unknown,
    /// It was not over in time, and perhaps it is done.
    TimedOut,
    /// The key was used for another request.
    Mismatch,
    /// Nobody can tell any more.
    Expired,
    /// It is done, but its answer is not stored.
    AnswerOmitted,
    /// There is no key, and there has to be one.
    KeyMissing,
    /// The key is none.
    KeyInvalid,
    /// The request broke off, is too long, or is a stream.
    Unreadable,
    /// No time was left to begin.
    DeadlinePast,
    /// Semel can't be asked. Perhaps it granted the claim all the same; the work did not begin.
    Unavailable,
    /// As many as may are under way here.
    Overloaded,
    /// Semel does not take what this process asks.
    Refused,
    /// There is no key, and none is needed.
    Unkeyed,
    /// Handled without its key, since Semel can't be asked.
    Unprotected,
    /// Nobody waited for the end, or the work panicked.
    Dropped,
}

impl Disposition {
    const fn name(self) -> &'static str {
        match self {
            Self::Ran => "ran",
            Self::Replayed => "replayed",
            Self::InProgress => "in_progress",
            Self::Overtaken => "overtaken",
            Self::Unknown => "unknown",
            Self::TimedOut => "timed_out",
            Self::Mismatch => "mismatch",
            Self::Expired => "expired",
            Self::AnswerOmitted => "answer_omitted",
            Self::KeyMissing => "key_missing",
            Self::KeyInvalid => "key_invalid",
            Self::Unreadable => "unreadable",
            Self::DeadlinePast => "deadline_past",
            Self::Unavailable => "unavailable",
            Self::Overloaded => "overloaded",
            Self::Refused => "refused",
            Self::Unkeyed => "unkeyed",
            Self::Unprotected => "unprotected",
            Self::Dropped => "dropped",
        }
    }

    /// What an outcome means, or the error of a claim, after which nothing ran.
    pub(crate) fn of(outcome: &Result<Outcome, Error>) -> Self {
        match outcome {
            Ok(Outcome::Ran { record: Record::Refused(error), .. }) if error.voids_claim() => {
                Self::Overtaken
            }
            Ok(Outcome::Ran { .. }) => Self::Ran,
            Ok(Outcome::Replayed(_)) => Self::Replayed,
            Ok(Outcome::InProgress { .. }) => Self::InProgress,
            Ok(Outcome::Unknown(Unknown::DeadlinePassed)) => Self::TimedOut,
            Ok(Outcome::Unknown(_)) => Self::Unknown,
            Err(error) => Self::of_error(error),
        }
    }

    /// What the error of a claim means. Nothing ran.
    pub(crate) fn of_error(error: &Error) -> Self {
        match error.reason() {
            Some(Reason::KeyPayloadMismatch | Reason::FingerprintIncomparable) => Self::Mismatch,
            Some(Reason::KeyExpired) => Self::Expired,
            Some(Reason::KeyInvalid | Reason::FirstSentInvalid) => Self::KeyInvalid,
            _ if error.is_repeatable() => Self::Unavailable,
            _ => Self::Refused,
        }
    }
}

/// The instruments as one operation uses them. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct KeyMetrics {
    instruments: Arc<Instruments>,
    operation: KeyValue,
}

impl Metrics {
    /// The same for the keys of one operation.
    pub(crate) fn operation(&self, operation: &str) -> KeyMetrics {
        let operation = KeyValue::new("semel.operation", Arc::<str>::from(operation));
        KeyMetrics { instruments: Arc::clone(&self.0), operation }
    }
}

impl KeyMetrics {
    fn with(&self, key: &'static str, value: &'static str) -> [KeyValue; 2] {
        [self.operation.clone(), KeyValue::new(key, value)]
    }

    /// A request begins: it counts once, however it ends.
    pub(crate) fn begin(&self) -> Counted {
        Counted { metrics: self.clone(), ended: Disposition::Dropped }
    }

    /// A request ended so.
    pub(crate) fn ended(&self, disposition: Disposition) {
        let attributes = self.with("semel.disposition", disposition.name());
        self.instruments.key_requests.add(1, &attributes);
    }

    /// A claim ended, with all its attempts and what was waited for somebody else.
    pub(crate) fn claimed(&self, took: Duration, answer: &Result<ClaimAnswer, Error>) {
        let outcome = match answer {
            Ok(ClaimAnswer::Yours(claim)) if claim.resumed => "resumed",
            Ok(ClaimAnswer::Yours(claim)) => match claim.disposition {
                Claimed::Claimed => "claimed",
                Claimed::TakenOver => "taken_over",
                Claimed::ReconcileRequired => "reconcile_required",
            },
            Ok(ClaimAnswer::InProgress { .. }) => "in_progress",
            Ok(ClaimAnswer::Done(_)) => "replayed",
            Ok(ClaimAnswer::Indeterminate) => "indeterminate",
            Ok(ClaimAnswer::Released) => "released",
            Err(error) => failed(error),
        };
        let attributes = self.with("semel.outcome", outcome);
        self.instruments.key_claim.record(took.as_secs_f64(), &attributes);
    }

    /// A completion ended, with all its attempts.
    pub(crate) fn completed(&self, took: Duration, answer: &Result<Completed, Error>) {
        let outcome = answer.as_ref().map_or_else(failed, |_| "stored");
        let attributes = self.with("semel.outcome", outcome);
        self.instruments.key_completion.record(took.as_secs_f64(), &attributes);
    }
}

/// Refused, or perhaps carried out: no node's answer arrived.
const fn failed(error: &Error) -> &'static str {
    match error {
        Error::Unanswered { .. } => "unanswered",
        _ => "refused",
    }
}

/// A request that is counted when it ends, also if it is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    metrics: KeyMetrics,
    ended: Disposition,
}

impl Counted {
    pub(crate) fn end(mut self, disposition: Disposition) {
        self.ended = disposition;
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.metrics.ended(self.ended);
    }
}
