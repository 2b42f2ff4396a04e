//! What became of a call, as the layers see it.

use super::{BoxError, Refused};
use crate::failure::{Classify, Failure, FailureKind};

/// A call that did not go well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// A layer below did not send it: the dependency is not to blame.
    Refused(Refused),
    /// It failed.
    Failed(Failure),
}

/// What became of a call. `None`: it went well.
pub(crate) fn outcome_of<T, P: Classify<T>>(
    protocol: &P,
    result: &Result<T, BoxError>,
) -> Option<Ending> {
    match result {
        Ok(answer) => protocol.answer(answer).map(Ending::Failed),
        Err(error) => Some(match Refused::find(&**error) {
            Some(refused) if refused.is_unsent() => Ending::Refused(*refused),
            _ => Ending::Failed(protocol.error(&**error)),
        }),
    }
}

/// Tells what became of a call once that is known: at once, or with the trailers of its answer; if it is hasty, its
/// first message is enough.
pub(crate) fn when_known<T, P: Classify<T>>(
    protocol: &P,
    result: &Result<T, BoxError>,
    is_hasty: bool,
    tell: impl FnOnce(Option<Ending>) + Send + 'static,
) {
    let ending = outcome_of(protocol, result);
    let answer = result.as_ref().ok().filter(|_| ending.is_none());
    match answer.and_then(|answer| protocol.trailers(answer)) {
        None => tell(ending),
        Some(trailers) => {
            let listener = |failure: Option<Failure>| tell(failure.map(Ending::Failed));
            trailers.tell(is_hasty, Box::new(listener));
        }
    }
}

/// What a call came to whose attempts all failed: the `last` of them; but if that one was not carried out, one that
/// perhaps was. Nobody is to take such a call for undone.
pub(crate) fn gravest<T, P: Classify<T>>(
    protocol: &P,
    open: Option<Result<T, BoxError>>,
    last: Result<T, BoxError>,
) -> Result<T, BoxError> {
    match open {
        Some(open) if outcome_of(protocol, &last).is_some_and(Ending::is_undone) => open,
        _ => last,
    }
}

impl Ending {
    /// Its name in metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Refused(refused) => refused.reason(),
            Self::Failed(failure) => failure.kind.name(),
        }
    }

    /// Whether it certainly was not carried out.
    pub(crate) const fn is_undone(self) -> bool {
        match self {
            Self::Refused(_) => true,
            Self::Failed(failure) => {
                matches!(failure.kind, FailureKind::NotSent | FailureKind::Throttled)
            }
        }
    }

    /// Whether it certainly never left.
    pub(crate) const fn is_unsent(self) -> bool {
        match self {
            Self::Refused(_) => true,
            Self::Failed(failure) => matches!(failure.kind, FailureKind::NotSent),
        }
    }
}
