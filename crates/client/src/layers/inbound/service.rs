use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{Request, Response};
use tower::{Layer, Service};

use crate::deadline::wire;
use crate::layers::Criticality;
use crate::root::Root;

/// Takes up what a request carries: see the [module](super).
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct InboundLayer;

/// Takes up what a request carries: see the [module](super).
#[derive(Clone, Debug)]
pub struct InboundService<S>(S);

impl<S> Layer<S> for InboundLayer {
    type Service = InboundService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        InboundService(inner)
    }
}

impl<S, B, T> Service<Request<B>> for InboundService<S>
where
    S: Service<Request<B>, Response = Response<T>> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
    T: Send + 'static,
{
    type Response = Response<T>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<T>, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let headers = request.headers();
        let (deadline, root) = (wire::read(headers), Root::read(headers));
        let criticality = Criticality::read(headers);
        // The service that is ready goes along; its clone has to become ready anew.
        let clone = self.0.clone();
        let mut inner = std::mem::replace(&mut self.0, clone);
        let handling = async move { inner.call(request).await };
        let handling: BoxFuture<'static, _> = match deadline {
            Some(deadline) => Box::pin(deadline.scope(handling)),
            None => Box::pin(handling),
        };
        let handling = match criticality {
            Some(criticality) => Box::pin(criticality.scope(handling)),
            None => handling,
        };
        let Some(root) = root else { return handling };
        Box::pin(async move {
            let mut reply = root.clone().scope(handling).await?;
            root.give_back(reply.headers_mut());
            Ok(reply)
        })
    }
}
