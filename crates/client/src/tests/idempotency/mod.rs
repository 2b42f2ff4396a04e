//! The layer around a handler, against a small Semel in this process.

mod deadlines;
mod grpc;
mod http;
mod lost;
mod measured;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ::http::{Request, Response, StatusCode};
use bytes::Bytes;
use futures::future::BoxFuture;
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use tower::{BoxError, Layer, Service, ServiceExt};

use super::semel::{Node, client};
use crate::layers::IdempotencyLayer;
use crate::layers::idempotency::HttpDialect;
use crate::once::Held;

/// What a handler gets.
type Asked = Request<Full<Bytes>>;

/// A handler that counts its runs.
#[derive(Clone)]
struct Handler<F> {
    runs: Arc<AtomicU32>,
    answer: F,
}

impl<F> Handler<F> {
    fn new(answer: F) -> Self {
        Self { runs: Arc::default(), answer }
    }

    fn runs(&self) -> u32 {
        self.runs.load(Ordering::Relaxed)
    }
}

impl<F, W> Service<Asked> for Handler<F>
where
    F: Fn(u32, Option<Held>) -> W,
    W: Future<Output = Response<String>> + Send + 'static,
{
    type Response = Response<String>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<String>, BoxError>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), BoxError>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Asked) -> Self::Future {
        let number = self.runs.fetch_add(1, Ordering::Relaxed) + 1;
        let answer = (self.answer)(number, request.extensions_mut().remove());
        Box::pin(async move { Ok(answer.await) })
    }
}

/// A layer of this node's.
fn layer(node: &Node) -> IdempotencyLayer<HttpDialect> {
    IdempotencyLayer::http(client([node]), |_| Some("charge".to_owned()))
        .lease(Duration::from_secs(3))
}

/// A charge under this key, if there is one.
fn charge(key: Option<&str>, body: &str) -> Asked {
    let request = Request::post("/charges").header("content-type", "application/json");
    let request = match key {
        Some(key) => request.header("idempotency-key", key),
        None => request,
    };
    request.body(Full::from(body.to_owned())).unwrap()
}

/// The charge of most tests.
fn this_charge() -> Asked {
    charge(Some(r#""order-1""#), r#"{"amount": 1}"#)
}

/// An answer as its caller reads it.
#[derive(Debug)]
struct Read {
    status: StatusCode,
    headers: ::http::HeaderMap,
    body: Bytes,
}

impl Read {
    fn problem(&self) -> (u16, String) {
        assert_eq!(self.headers["content-type"], "application/problem+json", "{self:?}");
        let told: Value = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(told["status"], self.status.as_u16());
        (self.status.as_u16(), told["reason"].as_str().unwrap().to_owned())
    }

    fn is_replayed(&self) -> bool {
        self.headers.get("idempotency-replayed").is_some_and(|value| value == "true")
    }

    fn assert_problem(&self, status: u16, reason: &str) {
        assert_eq!(self.problem(), (status, reason.to_owned()), "{self:?}");
    }
}

/// Sends a request and reads the answer.
async fn send<S>(layer: &IdempotencyLayer<HttpDialect>, handler: &S, request: Asked) -> Read
where
    S: Service<Asked, Response = Response<String>, Error = BoxError> + Clone + Send + 'static,
    S::Future: Send,
{
    let answer = layer.layer(handler.clone()).oneshot(request).await.unwrap();
    let (parts, body) = answer.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Read { status: parts.status, headers: parts.headers, body }
}

/// An answer with a body that tells the runs apart.
fn answer(status: u16, number: u32) -> Response<String> {
    Response::builder().status(status).body(format!("run {number}")).unwrap()
}
