use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::future::BoxFuture;
use pin_project_lite::pin_project;

use crate::breakers::{Outcome, Ticket};
use crate::failure::{Classify, FailureKind};
use crate::layers::{BoxError, Ending, Refused, when_known};

pin_project! {
    /// The future of [`BreakerService`](crate::layers::BreakerService).
    pub struct ResponseFuture<F, P, T> {
        #[pin]
        state: State<F, P, T>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F, P, T> {
        Running { #[pin] future: F, protocol: P, ticket: Option<Ticket> },
        Probing { future: BoxFuture<'static, Result<T, BoxError>> },
        Refused { refused: Refused },
    }
}

impl<F, P, T> ResponseFuture<F, P, T> {
    pub(super) const fn running(future: F, protocol: P, ticket: Ticket) -> Self {
        Self { state: State::Running { future, protocol, ticket: Some(ticket) } }
    }

    pub(super) const fn probing(future: BoxFuture<'static, Result<T, BoxError>>) -> Self {
        Self { state: State::Probing { future } }
    }

    pub(super) const fn refused(refused: Refused) -> Self {
        Self { state: State::Refused { refused } }
    }
}

impl<F, P, T, E> Future for ResponseFuture<F, P, T>
where
    F: Future<Output = Result<T, E>>,
    E: Into<BoxError>,
    P: Classify<T>,
{
    type Output = Result<T, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProj::Running { future, protocol, ticket } => {
                let result = ready!(future.poll(cx)).map_err(Into::into);
                if let Some(ticket) = ticket.take() {
                    end(ticket, protocol, &result);
                }
                Poll::Ready(result)
            }
            StateProj::Probing { future } => future.as_mut().poll(cx),
            StateProj::Refused { refused } => Poll::Ready(Err((*refused).into())),
        }
    }
}

/// Tells what became of the call, once that is known.
pub(super) fn end<T, P: Classify<T>>(
    mut ticket: Ticket,
    protocol: &P,
    result: &Result<T, BoxError>,
) {
    ticket.answered();
    let is_probe = ticket.is_probe();
    when_known(protocol, result, is_probe, move |ending| tell(ticket, ending));
}

/// Nothing, if that says nothing of the dependency.
fn tell(ticket: Ticket, ending: Option<Ending>) {
    match ending {
        None => ticket.tell(Outcome::Succeeded),
        Some(Ending::Refused(_)) => drop(ticket),
        Some(Ending::Failed(failure)) => match failure.kind {
            FailureKind::NotSent
            | FailureKind::Throttled
            | FailureKind::UnknownOutcome
            | FailureKind::ServerError => ticket.tell(Outcome::Failed),
            FailureKind::Rejected | FailureKind::InProgress => ticket.tell(Outcome::Ignored),
            FailureKind::Cancelled => drop(ticket),
        },
    }
}

impl<F, P, T> std::fmt::Debug for ResponseFuture<F, P, T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
