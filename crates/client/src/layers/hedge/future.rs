use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::future::BoxFuture;
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep_until};
use tower::Service;

use super::latencies::Latencies;
use super::layer::HedgeLayer;
use crate::deadline::now;
use crate::failure::Classify;
use crate::layers::{BoxError, Criticality, Protocol, gravest, outcome_of};
use crate::metrics::Hedge;
use crate::root::Root;

pin_project! {
    /// The future of [`HedgeService`](crate::layers::HedgeService). It allocates nothing until a call is slow.
    pub struct ResponseFuture<S, P, R, F, T> {
        #[pin]
        first: F,
        is_first_over: bool,
        // What one attempt came to, while the other is under way.
        failed: Option<Result<T, BoxError>>,
        #[pin]
        slow: Option<Sleep>,
        second: Option<BoxFuture<'static, Result<T, BoxError>>>,
        protocol: P,
        timing: Option<Timing>,
        hedging: Option<Hedging<S, P, R>>,
    }
}

/// What a latency is measured for.
pub(super) struct Timing {
    pub(super) latencies: Arc<Latencies>,
    pub(super) began: Instant,
}

/// What a second attempt takes.
pub(super) struct Hedging<S, P, R> {
    pub(super) layer: HedgeLayer<P>,
    pub(super) service: S,
    pub(super) copy: R,
    pub(super) criticality: Criticality,
}

impl<S, P, R, F, T> ResponseFuture<S, P, R, F, T> {
    pub(super) fn new(
        first: F,
        protocol: P,
        timing: Option<Timing>,
        hedging: Option<(Duration, Hedging<S, P, R>)>,
    ) -> Self {
        let began = timing.as_ref().map(|timing| timing.began);
        let (delay, hedging) = hedging.unzip();
        let slow = began.zip(delay).and_then(|(began, delay)| began.checked_add(delay));
        let slow = slow.map(sleep_until);
        Self {
            first,
            is_first_over: false,
            failed: None,
            slow,
            second: None,
            protocol,
            timing,
            hedging,
        }
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
        let mut this = self.project();
        if !*this.is_first_over
            && let Poll::Ready(result) = this.first.poll(cx)
        {
            *this.is_first_over = true;
            let result = result.map_err(Into::into);
            let is_good = outcome_of(this.protocol, &result).is_none();
            if let Some(timing) = this.timing.take_if(|_| is_good) {
                timing.end();
            }
            if is_good {
                return Poll::Ready(result);
            }
            if this.second.is_none() {
                return Poll::Ready(gravest(this.protocol, this.failed.take(), result));
            }
            *this.failed = Some(result);
        }
        if let Some(slow) = this.slow.as_mut().as_pin_mut() {
            ready!(slow.poll(cx));
            this.slow.set(None);
            *this.second = this.hedging.take().and_then(Hedging::begin);
        }
        let Some(second) = this.second else { return Poll::Pending };
        let result = ready!(second.as_mut().poll(cx));
        *this.second = None;
        if outcome_of(this.protocol, &result).is_none() {
            return Poll::Ready(result);
        }
        if *this.is_first_over {
            return Poll::Ready(gravest(this.protocol, this.failed.take(), result));
        }
        // The first attempt may still succeed.
        *this.failed = Some(result);
        Poll::Pending
    }
}

impl Timing {
    fn end(self) {
        let now = now();
        self.latencies.record(now.saturating_duration_since(self.began), now);
    }
}

impl<S, P, R> Hedging<S, P, R> {
    /// Sends the second attempt, if the budget pays for it.
    fn begin<T, E>(mut self) -> Option<BoxFuture<'static, Result<T, BoxError>>>
    where
        S: Service<R, Response = T, Error = E> + Send + 'static,
        S::Future: Send,
        E: Into<BoxError>,
        T: Send + 'static,
        P: Classify<T> + Send + Sync + 'static,
        R: Send + 'static,
    {
        let retries = &self.layer.retries;
        let question = retries.question(None, 1, true, self.criticality);
        let Some(grant) = retries.pay_hedge(&question, Root::current().as_ref()) else {
            self.count(Hedge::Denied);
            return None;
        };
        self.count(Hedge::Sent);
        Some(Box::pin(async move {
            let protocol = &self.layer.protocol;
            let result = grant.send(&mut self.service, self.copy, protocol).await;
            if let Some(metrics) = &self.layer.metrics
                && outcome_of(protocol, &result).is_none()
            {
                metrics.hedge(Hedge::Won);
            }
            result
        }))
    }

    fn count(&self, result: Hedge) {
        if let Some(metrics) = &self.layer.metrics {
            metrics.hedge(result);
        }
    }
}

impl<S, P, R, F, T> std::fmt::Debug for ResponseFuture<S, P, R, F, T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
