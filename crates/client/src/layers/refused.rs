//! What a layer answers when it does not send a call, or gives it up.

use std::error::Error;
use std::time::Duration;

use thiserror::Error;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::failure::errors::source;

/// The error of every layer.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Why a layer did not send a call, or gave it up. Layers answer with a [`BoxError`]; [`Refused::find`]
/// finds this in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refused {
    /// The operation's deadline was past before the call was made.
    #[error("the deadline of the operation is past: nothing was sent")]
    DeadlinePast,
    /// No answer came in time. The work may have been done.
    #[error("no answer came within {after:?}")]
    TimedOut {
        /// How long it was waited.
        after: Duration,
    },
    /// As many calls of the dependency are under way as may be, and none ended in time.
    #[error("too many calls of this dependency are under way: nothing was sent")]
    BulkheadFull,
    /// The dependency is not worth calling at present.
    #[error(
        "the breaker of the dependency is open, look again in {retry_after:?}: nothing was sent"
    )]
    BreakerOpen {
        /// When to look again.
        retry_after: Duration,
    },
}

impl Refused {
    /// Finds it in an error or its sources.
    #[must_use]
    pub fn find<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(refused) = error.downcast_ref() {
                return Some(refused);
            }
            next = source(error);
        }
        None
    }

    /// Whether it was our own decision: nothing was sent, and the dependency is not to blame.
    #[must_use]
    pub const fn is_unsent(self) -> bool {
        !matches!(self, Self::TimedOut { .. })
    }

    /// The reason in metrics.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::DeadlinePast => "deadline_past",
            Self::TimedOut { .. } => "timed_out",
            Self::BulkheadFull => "bulkhead_full",
            Self::BreakerOpen { .. } => "breaker_open",
        }
    }

    /// The same for callers that speak gRPC.
    #[must_use]
    pub fn to_status(self) -> Status {
        let text = self.to_string();
        match self {
            Self::DeadlinePast | Self::TimedOut { .. } => Status::deadline_exceeded(text),
            Self::BulkheadFull => Status::resource_exhausted(text),
            Self::BreakerOpen { retry_after } => {
                let details = ErrorDetails::with_retry_info(Some(retry_after));
                Status::with_error_details(Code::Unavailable, text, details)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_of_grpc_learns_when_to_look_again() {
        let retry_after = Duration::from_secs(12);
        let status = Refused::BreakerOpen { retry_after }.to_status();
        assert_eq!(status.code(), Code::Unavailable);
        let told = status.get_details_retry_info().unwrap().retry_delay;
        assert_eq!(told, Some(retry_after));
        assert_eq!(Refused::BulkheadFull.to_status().code(), Code::ResourceExhausted);
    }

    #[test]
    fn it_is_found_however_deep() {
        let error: BoxError = Box::new(std::io::Error::other(Refused::BulkheadFull));
        assert_eq!(Refused::find(&*error), Some(&Refused::BulkheadFull));
        let error: BoxError = Box::new(Refused::DeadlinePast);
        assert_eq!(Refused::find(&*error), Some(&Refused::DeadlinePast));
    }
}
