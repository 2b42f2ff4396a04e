use std::task::{Context, Poll};

use tower::Service;

use super::future::{ResponseFuture, end};
use super::layer::BreakerLayer;
use crate::breakers::{Asking, Entrance};
use crate::layers::{BoxError, Protocol, Refused};

/// Sends calls only while they are worth it: see the [module](super).
#[derive(Clone, Debug)]
pub struct BreakerService<S, P> {
    inner: S,
    layer: BreakerLayer<P>,
}

impl<S, P> BreakerService<S, P> {
    pub(super) const fn new(inner: S, layer: BreakerLayer<P>) -> Self {
        Self { inner, layer }
    }

    fn probe<R>(&mut self, asking: Asking, request: R) -> ResponseFuture<S::Future, P, S::Response>
    where
        S: Service<R> + Clone + Send + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send,
        P: Protocol<R, S::Response>,
        R: Send + 'static,
    {
        // The service that is ready goes along; its clone has to become ready anew.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let layer = self.layer.clone();
        ResponseFuture::probing(Box::pin(async move {
            let ticket =
                layer.breaker.probe(asking).await.map_err(|refused| layer.refuse(refused))?;
            let result = inner.call(request).await.map_err(Into::into);
            end(ticket, &layer.protocol, &result);
            result
        }))
    }
}

impl<P> BreakerLayer<P> {
    fn refuse(&self, refused: Refused) -> Refused {
        if let Some(metrics) = &self.metrics {
            metrics.refused(refused.reason());
        }
        refused
    }
}

impl<S, P, R> Service<R> for BreakerService<S, P>
where
    S: Service<R> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    P: Protocol<R, S::Response>,
    R: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = ResponseFuture<S::Future, P, S::Response>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: R) -> Self::Future {
        match self.layer.breaker.entrance() {
            Entrance::Open(ticket) => {
                let protocol = self.layer.protocol.clone();
                ResponseFuture::running(self.inner.call(request), protocol, ticket)
            }
            Entrance::Ask(asking) => self.probe(asking, request),
            Entrance::Shut(refused) => ResponseFuture::refused(self.layer.refuse(refused)),
        }
    }
}
