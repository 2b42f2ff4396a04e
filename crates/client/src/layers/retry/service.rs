use std::task::{Context, Poll};

use tower::Service;

use super::future::{Call, ResponseFuture};
use super::layer::RetryLayer;
use crate::deadline::now;
use crate::layers::{BoxError, Criticality, Protocol};
use crate::root::Root;

/// Sends failed calls again: see the [module](super).
#[derive(Clone, Debug)]
pub struct RetryService<S, P> {
    inner: S,
    layer: RetryLayer<P>,
}

impl<S, P> RetryService<S, P> {
    pub(super) const fn new(inner: S, layer: RetryLayer<P>) -> Self {
        Self { inner, layer }
    }
}

impl<S, P, R> Service<R> for RetryService<S, P>
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
        let retries = &self.layer.retries;
        let request_id = retries.request_id();
        let root = Root::current().unwrap_or_else(|| retries.new_root(request_id.clone()));
        let call = Call {
            layer: self.layer.clone(),
            is_repeatable: self.layer.protocol.is_repeatable(&request),
            criticality: Criticality::of(&self.layer.protocol, &request),
            copy: self.layer.protocol.copy(&request),
            request_id,
            root: root.clone(),
            is_counted: false,
            began: now(),
            service: self.inner.clone(),
        };
        let first = root.clone().sync_scope(|| self.inner.call(request));
        ResponseFuture::new(root.scope(first), call)
    }
}
