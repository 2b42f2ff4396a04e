use std::task::{Context, Poll};

use tower::Service;

use super::future::{Ending, ResponseFuture};
use super::layer::DeadlineLayer;
use crate::deadline::{Deadline, now};
use crate::layers::{BoxError, Criticality, Protocol, Refused};
use crate::root::{Handed, Root};

/// Bounds calls in time: see the [module](super).
#[derive(Clone, Debug)]
pub struct DeadlineService<S, P> {
    inner: S,
    layer: DeadlineLayer<P>,
}

impl<S, P> DeadlineService<S, P> {
    pub(super) const fn new(inner: S, layer: DeadlineLayer<P>) -> Self {
        Self { inner, layer }
    }

    fn hand_over<R, T>(&self, request: &mut R) -> Option<Handed>
    where
        P: Protocol<R, T>,
    {
        if !self.layer.carries_root {
            return None;
        }
        let criticality = Criticality::known(&self.layer.protocol, request);
        let headers = self.layer.protocol.headers(request)?;
        if let Some(criticality) = criticality {
            criticality.write(headers);
        }
        let handed = Root::current()?.hand_over();
        handed.write(headers);
        Some(handed)
    }
}

impl<S, P, R> Service<R> for DeadlineService<S, P>
where
    S: Service<R>,
    S::Error: Into<BoxError>,
    P: Protocol<R, S::Response>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = ResponseFuture<S::Future, P>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: R) -> Self::Future {
        let began = now();
        let own = self.layer.limit.and_then(|limit| began.checked_add(limit)).map(Deadline::at);
        let deadline = [Deadline::current(), own].into_iter().flatten().min();
        let left = deadline.map(|deadline| deadline.instant().saturating_duration_since(began));
        let mut ending = Ending { layer: self.layer.clone(), began, handed: None };
        let (Some(deadline), Some(left)) = (deadline, left) else {
            ending.handed = self.hand_over::<R, S::Response>(&mut request);
            return ResponseFuture::unbounded(self.inner.call(request), ending);
        };
        if let Some(metrics) = &self.layer.metrics {
            metrics.remaining(self.layer.step, left);
        }
        if left.is_zero() {
            return ResponseFuture::refused(Refused::DeadlinePast, ending);
        }
        if let Some(headers) = self.layer.protocol.headers(&mut request) {
            self.layer.protocol.write_deadline(headers, left);
        }
        ending.handed = self.hand_over::<R, S::Response>(&mut request);
        let inner = deadline.sync_scope(|| self.inner.call(request));
        ResponseFuture::bounded(deadline.scope(inner), deadline, ending)
    }
}
