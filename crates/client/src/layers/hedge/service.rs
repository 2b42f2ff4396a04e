use std::sync::Arc;
use std::task::{Context, Poll};

use tower::Service;

use super::future::{Hedging, ResponseFuture, Timing};
use super::layer::HedgeLayer;
use crate::deadline::now;
use crate::layers::{BoxError, Criticality, Protocol};

/// Sends slow calls a second time: see the [module](super).
#[derive(Clone, Debug)]
pub struct HedgeService<S, P> {
    inner: S,
    layer: HedgeLayer<P>,
}

impl<S, P> HedgeService<S, P> {
    pub(super) const fn new(inner: S, layer: HedgeLayer<P>) -> Self {
        Self { inner, layer }
    }
}

impl<S, P, R> Service<R> for HedgeService<S, P>
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
    type Future = ResponseFuture<S, P, R, S::Future, S::Response>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let Some(latencies) = &self.layer.latencies else {
            let protocol = self.layer.protocol.clone();
            return ResponseFuture::new(self.inner.call(request), protocol, None, None);
        };
        let timing = Timing { latencies: Arc::clone(latencies), began: now() };
        let may_hedge = self.layer.protocol.is_repeatable(&request);
        let hedging = latencies.delay().filter(|_| may_hedge).and_then(|delay| {
            let copy = self.layer.protocol.copy(&request)?;
            let (service, layer) = (self.inner.clone(), self.layer.clone());
            let criticality = Criticality::of(&layer.protocol, &request);
            Some((delay, Hedging { layer, service, copy, criticality }))
        });
        let protocol = self.layer.protocol.clone();
        ResponseFuture::new(self.inner.call(request), protocol, Some(timing), hedging)
    }
}
