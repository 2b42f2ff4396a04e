//! Why a request was not handled, or its answer is not there. Each dialect says it in its own words.

use std::time::Duration;

use crate::connection::Error;
use crate::metrics::Disposition;

/// When to come again if Semel, or this process, could not take the request.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// Why there is no answer of the handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The request needs a key.
    KeyMissing,
    /// The key is none; what is wrong with it.
    KeyInvalid(String),
    /// The request's body is longer than this.
    BodyTooLarge(usize),
    /// The request's body broke off, or did not come in time.
    BodyUnread,
    /// The call is not one message that gets one message.
    NotUnary,
    /// The key was used for another request.
    Mismatch,
    /// Somebody is at it.
    InProgress(Duration),
    /// It ran here, but somebody took the claim over meanwhile: theirs is the answer.
    TakenOver,
    /// Perhaps it is done.
    Unknown,
    /// It was not over in time, and perhaps it is done.
    TimedOut,
    /// Its deadline was there before it began: nothing was done.
    DeadlinePast,
    /// It is done, but its answer was not stored.
    AnswerOmitted,
    /// Nobody can tell any more whether it is done.
    Expired,
    /// Semel can't be asked.
    Unreachable(Duration),
    /// As many requests as may are under way.
    Full,
    /// Semel does not take what this service asks.
    Misconfigured,
}

impl Problem {
    /// What an error of claiming means. Nothing ran.
    pub(super) fn of(error: &Error) -> Self {
        match Disposition::of_error(error) {
            Disposition::Mismatch => Self::Mismatch,
            Disposition::Expired => Self::Expired,
            Disposition::KeyInvalid => Self::KeyInvalid(error.to_string()),
            Disposition::Unavailable => {
                tracing::warn!(%error, "a request was refused because Semel can not be asked");
                Self::Unreachable(error.retry_after().unwrap_or(PAUSE))
            }
            _ => {
                tracing::error!(%error, "Semel does not take the requests of a layer");
                Self::Misconfigured
            }
        }
    }

    /// How it counts.
    pub(super) const fn disposition(&self) -> Disposition {
        match self {
            Self::KeyMissing => Disposition::KeyMissing,
            Self::KeyInvalid(_) => Disposition::KeyInvalid,
            Self::BodyTooLarge(_) | Self::BodyUnread | Self::NotUnary => Disposition::Unreadable,
            Self::Mismatch => Disposition::Mismatch,
            Self::InProgress(_) => Disposition::InProgress,
            Self::TakenOver => Disposition::Overtaken,
            Self::Unknown => Disposition::Unknown,
            Self::TimedOut => Disposition::TimedOut,
            Self::DeadlinePast => Disposition::DeadlinePast,
            Self::AnswerOmitted => Disposition::AnswerOmitted,
            Self::Expired => Disposition::Expired,
            Self::Unreachable(_) => Disposition::Unavailable,
            Self::Full => Disposition::Overloaded,
            Self::Misconfigured => Disposition::Refused,
        }
    }

    /// Why, for programs. The texts are stable; where Semel has a reason for it, it is the same.
    pub(super) const fn reason(&self) -> &'static str {
        match self {
            Self::KeyMissing => "KEY_MISSING",
            Self::KeyInvalid(_) => "KEY_INVALID",
            Self::BodyTooLarge(_) => "BODY_TOO_LARGE",
            Self::BodyUnread => "BODY_UNREAD",
            Self::NotUnary => "NOT_UNARY",
            Self::Mismatch => "KEY_PAYLOAD_MISMATCH",
            Self::InProgress(_) | Self::TakenOver => "IN_PROGRESS",
            Self::Unknown | Self::TimedOut => "OUTCOME_UNKNOWN",
            Self::DeadlinePast => "DEADLINE_PAST",
            Self::AnswerOmitted => "ANSWER_OMITTED",
            Self::Expired => "KEY_EXPIRED",
            Self::Unreachable(_) => "SEMEL_UNREACHABLE",
            Self::Full => "OVERLOADED",
            Self::Misconfigured => "MISCONFIGURED",
        }
    }

    /// Why, for people.
    pub(super) fn detail(&self) -> String {
        let text = match self {
            Self::KeyMissing => {
                "this request needs an idempotency key: one for each intent, the same on every attempt"
            }
            Self::KeyInvalid(why) => why,
            Self::BodyTooLarge(most) => {
                return format!(
                    "a request with an idempotency key has a body of at most {most} bytes"
                );
            }
            Self::BodyUnread => "the body broke off or did not come in time: nothing was done",
            Self::NotUnary => {
                "an idempotency key goes with a call of one message: leave it out of streams"
            }
            Self::Mismatch => {
                "the idempotency key was used for another request: use a new key for a new intent"
            }
            Self::InProgress(_) | Self::TakenOver => {
                "a request with this idempotency key is being handled: come again with the same key"
            }
            Self::Unknown => {
                "perhaps it is done: a request with this idempotency key was lost on its way, and has to be \
                 settled; a new key might do it twice"
            }
            Self::TimedOut => {
                "it was not over in time, and perhaps it is done: come again with the same key"
            }
            Self::DeadlinePast => {
                "its deadline was there before it could begin, and nothing was done: come again with the same key"
            }
            Self::AnswerOmitted => "it is done, but its answer was not stored",
            Self::Expired => {
                "what became of this idempotency key is no longer known; a new key might do it twice"
            }
            Self::Unreachable(_) => {
                "nobody can tell at present whether it is done: come again with the same key"
            }
            Self::Full => "too many requests are being handled: come again with the same key",
            Self::Misconfigured => "the service can't look idempotency keys up: tell its operators",
        };
        text.to_owned()
    }

    /// When to come again with the same key, if that makes sense.
    pub(super) const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::InProgress(after) | Self::Unreachable(after) => Some(*after),
            Self::TakenOver | Self::Full => Some(PAUSE),
            _ => None,
        }
    }
}
