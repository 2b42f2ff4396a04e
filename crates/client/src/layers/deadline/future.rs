use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep_until};

use super::layer::DeadlineLayer;
use crate::deadline::{Deadline, Scoped, now};
use crate::failure::Classify;
use crate::layers::{BoxError, Ending as Outcome, Refused, outcome_of, when_known};
use crate::root::Handed;

pin_project! {
    /// The future of [`DeadlineService`](crate::layers::DeadlineService).
    pub struct ResponseFuture<F, P> {
        #[pin]
        state: State<F>,
        ending: Ending<P>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F> {
        Bounded {
            // First: who ends at the same moment below has the better reason.
            #[pin]
            future: Scoped<F>,
            #[pin]
            end: Sleep,
        },
        Unbounded { #[pin] future: F },
        Refused { refused: Refused },
    }
}

/// What is done at the end of a call.
pub(super) struct Ending<P> {
    pub(super) layer: DeadlineLayer<P>,
    pub(super) began: Instant,
    pub(super) handed: Option<Handed>,
}

impl<F, P> ResponseFuture<F, P> {
    pub(super) fn bounded(future: Scoped<F>, deadline: Deadline, ending: Ending<P>) -> Self {
        let end = sleep_until(deadline.instant());
        Self { state: State::Bounded { future, end }, ending }
    }

    pub(super) const fn unbounded(future: F, ending: Ending<P>) -> Self {
        Self { state: State::Unbounded { future }, ending }
    }

    pub(super) const fn refused(refused: Refused, ending: Ending<P>) -> Self {
        Self { state: State::Refused { refused }, ending }
    }
}

impl<F, P, T, E> Future for ResponseFuture<F, P>
where
    F: Future<Output = Result<T, E>>,
    E: Into<BoxError>,
    P: Classify<T>,
{
    type Output = Result<T, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let result = match this.state.project() {
            StateProj::Unbounded { future } => ready!(future.poll(cx)).map_err(Into::into),
            StateProj::Refused { refused } => {
                if let Some(metrics) = &this.ending.layer.metrics {
                    metrics.refused(refused.reason());
                }
                Err((*refused).into())
            }
            StateProj::Bounded { future, end } => match future.poll(cx) {
                Poll::Ready(result) => result.map_err(Into::into),
                Poll::Pending => {
                    ready!(end.poll(cx));
                    Err(Refused::TimedOut { after: this.ending.took() }.into())
                }
            },
        };
        this.ending.end(&result);
        Poll::Ready(result)
    }
}

impl<P> Ending<P> {
    fn took(&self) -> std::time::Duration {
        now().saturating_duration_since(self.began)
    }

    fn end<T>(&mut self, result: &Result<T, BoxError>)
    where
        P: Classify<T>,
    {
        let protocol = &self.layer.protocol;
        if let Some(handed) = self.handed.take() {
            let headers = result.as_ref().ok().and_then(|answer| protocol.reply_headers(answer));
            match headers {
                Some(headers) => handed.take_back(headers),
                None if outcome_of(protocol, result).is_some_and(Outcome::is_unsent) => {
                    handed.keep();
                }
                // Nobody knows what the callee did with them.
                None => {}
            }
        }
        let Some(metrics) = self.layer.metrics.clone() else { return };
        let (step, took) = (self.layer.step, self.took());
        when_known(protocol, result, false, move |outcome| {
            metrics.ended(step, took, outcome.map(Outcome::name));
        });
    }
}

impl<F, P> std::fmt::Debug for ResponseFuture<F, P> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
