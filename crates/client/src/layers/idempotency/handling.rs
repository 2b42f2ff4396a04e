//! The handler inside of a claim, and what its caller gets.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower::Service;

use super::answer::AnswerBody;
use super::dialect::Dialect;
use super::intake::Time;
use super::layer::IdempotencyLayer;
use super::problem::Problem;
use super::verdict::Verdict;
use crate::connection::{Error, Reason};
use crate::keys::{self, Disposition, OnOwnerLost, Work};
use crate::metrics::{Counted, Disposition as Counts};
use crate::once::{Held, Once, Outcome, Record, Unknown};

/// A header of a stored answer that says that its body is not there. Handlers can't have set it: it is no name
/// of a header.
const OMITTED: &str = ":omitted";

/// What a handler came to: an answer, or an error of its own.
type Handled<T, E> = Result<Response<AnswerBody<T>>, E>;

/// One request on its way through the handler, which gets it once at the most.
struct Attempt<S, B, T, E> {
    handler: S,
    request: Option<Request<B>>,
    /// The handler has ended so.
    handled: Option<Handled<T, E>>,
}

/// Claims the key and runs the handler, or tells what others did.
pub(super) async fn handle<S, B, T, D>(
    layer: Arc<IdempotencyLayer<D>>,
    handler: S,
    once: Once,
    request: Request<B>,
    (time, counted): (Time, Counted),
) -> Handled<T, S::Error>
where
    S: Service<Request<B>, Response = Response<T>>,
    T: Body<Data = Bytes>,
    D: Dialect,
{
    let mut attempt = Attempt { handler, request: Some(request), handled: None };
    let within = &mut attempt;
    let outcome = once.perform(|held| async { within.work(&layer, held).await }).await;
    let counts = Counts::of(&outcome);
    let told = match outcome {
        Ok(outcome) => match attempt.handled.take() {
            Some(handled) if is_ours(&outcome) => {
                counted.end(counts);
                return handled;
            }
            _ => layer.told(outcome),
        },
        Err(error) => match attempt.request.take().filter(|_| layer.goes_without(&error, time)) {
            Some(request) => {
                tracing::warn!(%error, "a request is handled without its key");
                let handling = async { attempt.handler.call(request).await };
                let handled = layer.over(time).scope(handling).await;
                counted.end(Counts::Unprotected);
                return Ok(handled?.map(AnswerBody::unread));
            }
            None => Err(Problem::of(&error)),
        },
    };
    Ok(match told {
        Ok(answer) => {
            counted.end(counts);
            answer
        }
        Err(problem) => layer.refuse(counted, &problem),
    })
}

impl<S, B, T> Attempt<S, B, T, S::Error>
where
    S: Service<Request<B>, Response = Response<T>>,
    T: Body<Data = Bytes>,
{
    async fn work<D: Dialect>(&mut self, layer: &IdempotencyLayer<D>, held: Held) -> Work {
        // An earlier attempt may have done it, and this handler does not promise to look first.
        let looks_first = layer.claiming.on_owner_lost != OnOwnerLost::Block;
        if held.disposition() == Disposition::ReconcileRequired && !looks_first {
            return Work::Unknown;
        }
        let Some(mut request) = self.request.take() else { return Work::Unknown };
        request.extensions_mut().insert(held);
        match self.handler.call(request).await {
            Ok(answer) => match AnswerBody::read(answer, layer.answer_max_bytes).await {
                Ok(answer) => {
                    let work = layer.work(&answer);
                    self.handled = Some(Ok(answer));
                    work
                }
                // It began to answer, and broke off.
                Err(_) => Work::Unknown,
            },
            Err(error) => {
                self.handled = Some(Err(error));
                Work::Unknown
            }
        }
    }
}

impl<D: Dialect> IdempotencyLayer<D> {
    /// Whether a request is handled as if it had no key. Never when no time is left: that is no sign of Semel's
    /// being away.
    fn goes_without(&self, error: &Error, time: Time) -> bool {
        self.unkeyed_without_semel && is_out_of_reach(error) && !time.answer().is_past()
    }

    /// What an answer means for the key.
    fn work<T>(&self, answer: &Response<AnswerBody<T>>) -> Work {
        let said = answer.extensions().get().copied();
        let stored = || {
            self.dialect.store(answer).unwrap_or_else(|| {
                keys::Response::new(answer.status().as_u16().into(), "").header(OMITTED, "true")
            })
        };
        match said.unwrap_or_else(|| self.dialect.verdict(answer)) {
            Verdict::Succeeded => Work::Succeeded(stored()),
            Verdict::FailedFinal => Work::FailedFinal(stored()),
            Verdict::NotDone => Work::NotDone,
            Verdict::Unknown => Work::Unknown,
        }
    }

    /// What to tell whose handler did not run, or has no say.
    fn told<T>(&self, outcome: Outcome) -> Result<Response<AnswerBody<T>>, Problem> {
        match outcome {
            Outcome::Replayed(stored) => {
                let stored = stored.response.filter(|_| !stored.omitted_too_large);
                let replayed = stored
                    .filter(|stored| !stored.metadata.iter().any(|(name, _)| name == OMITTED))
                    .and_then(|stored| self.dialect.replay(&stored));
                replayed.ok_or(Problem::AnswerOmitted)
            }
            Outcome::InProgress { retry_after } => Err(Problem::InProgress(retry_after)),
            Outcome::Unknown(Unknown::DeadlinePassed) => Err(Problem::TimedOut),
            Outcome::Unknown(_) => Err(Problem::Unknown),
            Outcome::Ran { .. } => Err(Problem::TakenOver),
        }
    }
}

/// Whether the handler's answer is the one to give: nobody took over meanwhile.
fn is_ours(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Ran { record: Record::Refused(error), .. } => !error.voids_claim(),
        Outcome::Ran { .. } | Outcome::Unknown(Unknown::WorkSaidSo) => true,
        Outcome::Replayed(_) | Outcome::InProgress { .. } | Outcome::Unknown(_) => false,
    }
}

fn is_out_of_reach(error: &Error) -> bool {
    match error {
        Error::Unanswered { .. } => true,
        _ => matches!(error.reason(), Some(Reason::StoreUnavailable | Reason::ShuttingDown)),
    }
}
