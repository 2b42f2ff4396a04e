use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::Body;
use tower::{BoxError, Service};

use super::answer::AnswerBody;
use super::dialect::{Dialect, RequestBody};
use super::handling::handle;
use super::intake::Asked;
use super::layer::IdempotencyLayer;
use super::problem::Problem;
use super::tasks::Tasks;
use crate::metrics::{Counted, Disposition};

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
        let operation = layer.operation(&parts);
        let counted = operation.as_deref().map(|name| layer.metrics.operation(name).begin());
        let asked = operation.map_or(Ok(None), |operation| layer.asked(operation, &parts));
        let request = Request::from_parts(parts, body);
        match (asked, counted) {
            (Ok(Some(asked)), Some(counted)) => {
                Box::pin(handled(layer, inner, asked, request, counted))
            }
            (Err(problem), Some(counted)) => {
                Box::pin(async move { Ok(layer.refuse(counted, &problem)) })
            }
            (_, counted) => {
                let handling = inner.call(request);
                Box::pin(async move {
                    let handled = handling.await;
                    if let Some(counted) = counted {
                        counted.end(Disposition::Unkeyed);
                    }
                    Ok(handled?.map(AnswerBody::unread))
                })
            }
        }
    }
}

/// Reads the request, and handles it: here, or in a task.
async fn handled<S, B, T, D>(
    layer: Arc<IdempotencyLayer<D>>,
    inner: S,
    asked: Asked,
    request: Request<B>,
    counted: Counted,
) -> Result<Response<AnswerBody<T>>, S::Error>
where
    S: Service<Request<B>, Response = Response<T>> + Send + 'static,
    S::Future: Send,
    S::Error: Send + 'static,
    B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
    T: Body<Data = Bytes, Error: Send> + Send + 'static,
    D: RequestBody<B>,
{
    let (once, request) = match layer.read(&asked, request).await {
        Ok(read) => read,
        Err(problem) => return Ok(layer.refuse(counted, &problem)),
    };
    let place = match layer.tasks.as_ref().map(Tasks::place).transpose() {
        Ok(place) => place,
        Err(problem) => return Ok(layer.refuse(counted, &problem)),
    };
    let handling = handle(Arc::clone(&layer), inner, once, request, (asked.time, counted));
    let Some(place) = place else { return handling.await };
    let ended = place.run(handling, asked.time.own).await;
    ended.unwrap_or_else(|problem| Ok(layer.dialect.refuse(&problem)))
}

impl<D: Dialect> IdempotencyLayer<D> {
    pub(super) fn refuse<T>(&self, counted: Counted, problem: &Problem) -> Response<AnswerBody<T>> {
        counted.end(problem.disposition());
        self.dialect.refuse(problem)
    }
}
