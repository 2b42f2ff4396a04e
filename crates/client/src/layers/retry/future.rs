use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::future::BoxFuture;
use pin_project_lite::pin_project;
use semel_proto::v1::RetryVerdict;
use tokio::time::{Instant, sleep};
use tower::Service;

use super::layer::RetryLayer;
use super::retries::Decision;
use super::verdict::name;
use crate::deadline::now;
use crate::failure::Failure;
use crate::layers::{BoxError, Criticality, Ending, Protocol, gravest, outcome_of};
use crate::root::{Root, RootScoped};

pin_project! {
    /// The future of [`RetryService`](crate::layers::RetryService). It allocates nothing until an attempt fails.
    pub struct ResponseFuture<S, P, R, F, T> {
        #[pin]
        state: State<S, P, R, F, T>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, P, R, F, T> {
        First { #[pin] future: RootScoped<F>, call: Option<Call<S, P, R>> },
        Again { future: BoxFuture<'static, Result<T, BoxError>> },
    }
}

/// What is known of a call from its first attempt on.
pub(super) struct Call<S, P, R> {
    pub(super) layer: RetryLayer<P>,
    pub(super) service: S,
    pub(super) is_repeatable: bool,
    pub(super) criticality: Criticality,
    pub(super) copy: Option<R>,
    pub(super) request_id: Bytes,
    pub(super) root: Root,
    /// Its first attempt is not to be counted for the budget, or already was.
    pub(super) is_counted: bool,
    pub(super) began: Instant,
}

impl<S, P, R, F: Future, T> ResponseFuture<S, P, R, F, T> {
    pub(super) const fn new(future: RootScoped<F>, call: Call<S, P, R>) -> Self {
        Self { state: State::First { future, call: Some(call) } }
    }
}

impl<S, P, R, F, T, E> Future for ResponseFuture<S, P, R, F, T>
where
    S: Service<R, Response = T, Error = E, Future = F> + Send + 'static,
    F: Future<Output = Result<T, E>> + Send,
    T: Send + 'static,
    E: Into<BoxError>,
    P: Protocol<R, T>,
    R: Send + 'static,
{
    type Output = Result<T, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            match state.as_mut().project() {
                StateProj::First { future, call } => {
                    let result = ready!(future.poll(cx)).map_err(Into::into);
                    let Some(mut call) = call.take() else { return Poll::Ready(result) };
                    match call.end_first(&result) {
                        None => return Poll::Ready(result),
                        Some(failure) => {
                            state.set(State::Again {
                                future: Box::pin(call.again(result, failure)),
                            });
                        }
                    }
                }
                StateProj::Again { future } => return future.as_mut().poll(cx),
            }
        }
    }
}

impl<S, P, R> Call<S, P, R> {
    /// The failure to be mended, if there is one.
    fn end_first<T>(&mut self, result: &Result<T, BoxError>) -> Option<Failure>
    where
        P: Protocol<R, T>,
    {
        let ending = outcome_of(&self.layer.protocol, result);
        match ending {
            Some(Ending::Refused(_)) => self.is_counted = true,
            Some(Ending::Failed(_)) => self.count(),
            None => {
                self.count();
                self.layer.retries.budget().first_success();
                self.layer.retries.took(now().saturating_duration_since(self.began));
            }
        }
        self.mendable(ending)
    }

    /// A refusal of a layer below is final, and so is every failure of what can be sent only once.
    fn mendable(&self, ending: Option<Ending>) -> Option<Failure> {
        match ending {
            Some(Ending::Failed(failure)) if self.copy.is_some() => Some(failure),
            _ => None,
        }
    }

    fn count(&mut self) {
        if !std::mem::replace(&mut self.is_counted, true) {
            self.layer.retries.budget().first_attempt();
        }
    }

    async fn again<T>(
        mut self,
        mut result: Result<T, BoxError>,
        mut failure: Failure,
    ) -> Result<T, BoxError>
    where
        S: Service<R, Response = T>,
        S::Error: Into<BoxError>,
        P: Protocol<R, T>,
    {
        let mut attempt = 1;
        // What came of the last attempt that perhaps was carried out.
        let mut open = None;
        loop {
            let Some(request) = self.copy.take() else { break };
            let Ok(grant) = self.decide(attempt, failure).await else { break };
            // A body holds a connection: that of an attempt that was turned away is not kept.
            if Ending::Failed(failure).is_undone() {
                drop(result);
            } else {
                open = Some(result);
            }
            sleep(grant.wait).await;
            self.copy = self.layer.protocol.copy(&request);
            attempt += 1;
            let sending = grant.send(&mut self.service, request, &self.layer.protocol);
            result = self.root.clone().scope(sending).await;
            match self.mendable(outcome_of(&self.layer.protocol, &result)) {
                Some(next) => failure = next,
                None => break,
            }
        }
        gravest(&self.layer.protocol, open, result)
    }

    async fn decide(&mut self, attempt: u32, failure: Failure) -> Decision {
        let retries = &self.layer.retries;
        let question =
            retries.question(Some(failure), attempt, self.is_repeatable, self.criticality);
        let decision = retries.decide(&question, &self.request_id, &self.root).await;
        if let Some(metrics) = &self.layer.metrics {
            let verdict = decision.as_ref().err().copied().unwrap_or(RetryVerdict::Granted);
            metrics.decided(name(verdict), failure.kind.name());
            if retries.budget().is_out_of_reach() {
                metrics.degraded("retries");
            }
        }
        decision
    }
}

impl<S, P, R> Drop for Call<S, P, R> {
    fn drop(&mut self) {
        // A first attempt that was given up was made all the same.
        self.count();
    }
}

impl<S, P, R, F, T> std::fmt::Debug for ResponseFuture<S, P, R, F, T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
