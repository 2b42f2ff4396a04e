use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tower::Service;

use crate::layers::{
    BoxError, BreakerService, BulkheadService, DeadlineService, HedgeService, Protocol,
    RetryService,
};

/// A service with all layers of a [`Stack`](crate::layers::Stack) around it.
#[derive(Clone, Debug)]
pub struct Stacked<S, P>(pub(super) Layered<S, P>);

type Layered<S, P> = DeadlineService<BulkheadService<Repeated<S, P>>, P>;

/// The part of it that is gone through for each attempt.
type Repeated<S, P> = RetryService<HedgeService<BreakerService<DeadlineService<S, P>, P>, P>, P>;

impl<S, P, R> Service<R> for Stacked<S, P>
where
    S: Service<R> + Clone + Send + 'static,
    S::Response: Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    P: Protocol<R, S::Response>,
    R: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = ResponseFuture<S, P, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> Self::Future {
        ResponseFuture { future: self.0.call(request) }
    }
}

pin_project! {
    /// The future of [`Stacked`](crate::layers::Stacked).
    pub struct ResponseFuture<S, P, R>
    where
        S: Service<R>,
        S: Clone,
        S: Send,
        S: 'static,
        S::Response: Send,
        S::Response: 'static,
        S::Error: Into<BoxError>,
        S::Future: Send,
        P: Protocol<R, S::Response>,
        R: Send,
        R: 'static,
    {
        #[pin]
        future: <Layered<S, P> as Service<R>>::Future,
    }
}

impl<S, P, R> Future for ResponseFuture<S, P, R>
where
    S: Service<R> + Clone + Send + 'static,
    S::Response: Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    P: Protocol<R, S::Response>,
    R: Send + 'static,
{
    type Output = Result<S::Response, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().future.poll(cx)
    }
}

impl<S, P, R> std::fmt::Debug for ResponseFuture<S, P, R>
where
    S: Service<R> + Clone + Send + 'static,
    S::Response: Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    P: Protocol<R, S::Response>,
    R: Send + 'static,
{
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
