use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::Body;
use tower::{BoxError, Service};

use super::answer::AnswerBody;
use super::dialect::RequestBody;
use super::handling::handle;
use super::layer::IdempotencyLayer;
use super::problem::Problem;

/// Handles a request with an idempotency key once: see the [module](super).
#[derive(Clone, Debug)]
pub struct IdempotencyService<S, D> {
    inner: S,
    layer: Arc<IdempotencyLayer<D>>,
}

impl<S, D> IdempotencyService<S, D> {
    pub(super) const fn new(inner: S, layer: Arc<IdempotencyLayer<D>>) -> Self {
        Self { inner, layer }
    }
}

impl<S, B, T, D> Service<Request<B>> for IdempotencyService<S, D>
where
    S: Service<Request<B>, Response = Response<T>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send + 'static,
    B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
    T: Body<Data = Bytes, Error: Send> + Send + 'static,
    D: RequestBody<B>,
{
    type Response = Response<AnswerBody<T>>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The service that is ready goes along; its clone has to become ready anew.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let layer = Arc::clone(&self.layer);
        let (parts, body) = request.into_parts();
        let asked = layer.asked(&parts);
        let request = Request::from_parts(parts, body);
        match asked {
            Ok(Some(asked)) => Box::pin(async move {
                let (once, request) = match layer.read(&asked, request).await {
                    Ok(read) => read,
                    Err(problem) => return Ok(layer.refuse(&problem)),
                };
                let handling = handle(Arc::clone(&layer), inner, once, request);
                let Some(tasks) = &layer.tasks else { return handling.await };
                tasks.run(handling).await.unwrap_or_else(|problem| Ok(layer.refuse(&problem)))
            }),
            Ok(None) => {
                let handling = inner.call(request);
                Box::pin(async move { Ok(handling.await?.map(AnswerBody::unread)) })
            }
            Err(problem) => Box::pin(async move { Ok(layer.refuse(&problem)) }),
        }
    }
}

impl<D: super::dialect::Dialect> IdempotencyLayer<D> {
    pub(super) fn refuse<T>(&self, problem: &Problem) -> Response<AnswerBody<T>> {
        self.dialect.refuse(problem)
    }
}
