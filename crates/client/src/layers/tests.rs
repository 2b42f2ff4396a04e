//! What the tests of the layers share: a dependency that follows a script, and a budget and
//! a breaker without a node.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use tokio::time::sleep;
use tonic::transport::{Channel, Endpoint};
use tower::Service;

use super::{BoxError, Repeatable, Retries};
use crate::breakers::{Breaker, BreakerSettings, Breakers};
use crate::dice::Dice;
use crate::metrics::Metrics;
use crate::tokens::Budget;

/// What the dependency does with one request.
#[derive(Clone, Debug)]
pub(super) enum Act {
    Answer(u16),
    AnswerAfter(Duration, u16),
    Break(std::io::ErrorKind),
    Hang,
}

/// A dependency that follows a script, and does well at its end.
#[derive(Clone, Default)]
pub(super) struct Scripted(Arc<Mutex<Script>>);

#[derive(Default)]
struct Script {
    acts: VecDeque<Act>,
    requests: Vec<Request<String>>,
    reply_headers: http::HeaderMap,
}

impl Scripted {
    pub(super) fn new(acts: impl IntoIterator<Item = Act>) -> Self {
        let script = Script { acts: acts.into_iter().collect(), ..Script::default() };
        Self(Arc::new(Mutex::new(script)))
    }

    pub(super) fn replies(&self, name: http::HeaderName, value: &'static str) {
        let mut script = self.0.lock().unwrap();
        script.reply_headers.insert(name, value.parse().unwrap());
    }

    pub(super) fn attempts(&self) -> usize {
        self.0.lock().unwrap().requests.len()
    }

    pub(super) fn headers(&self, attempt: usize, name: &http::HeaderName) -> Option<String> {
        let script = self.0.lock().unwrap();
        let value = script.requests[attempt].headers().get(name);
        value.map(|value| value.to_str().unwrap().to_owned())
    }
}

impl Service<Request<String>> for Scripted {
    type Response = Response<&'static str>;
    type Error = BoxError;
    type Future = futures::future::BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), BoxError>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<String>) -> Self::Future {
        let mut script = self.0.lock().unwrap();
        script.requests.push(request);
        let act = script.acts.pop_front().unwrap_or(Act::Answer(200));
        let headers = script.reply_headers.clone();
        Box::pin(async move {
            let status = match act {
                Act::Answer(status) => status,
                Act::AnswerAfter(wait, status) => {
                    sleep(wait).await;
                    status
                }
                Act::Break(kind) => return Err(std::io::Error::from(kind).into()),
                Act::Hang => std::future::pending().await,
            };
            let mut answer = Response::new("answer");
            *answer.status_mut() = StatusCode::from_u16(status).unwrap();
            *answer.headers_mut() = headers;
            Ok(answer)
        })
    }
}

/// A request that may be repeated.
pub(super) fn read() -> Request<String> {
    Request::get("http://stripe/").body(String::new()).unwrap()
}

/// A request that may not.
pub(super) fn write() -> Request<String> {
    let mut request = Request::post("http://stripe/").body(String::new()).unwrap();
    request.extensions_mut().insert(Repeatable(false));
    request
}

/// Where nobody answers.
pub(super) fn nobody() -> Channel {
    Endpoint::from_static("http://127.0.0.1:1").connect_lazy()
}

/// A budget that holds these tokens for an hour.
pub(super) fn budget(tokens: u32) -> Budget {
    Budget::holding(tokens, Duration::from_secs(3_600))
}

pub(super) fn retries(tokens: u32) -> Retries {
    Retries::new(budget(tokens), Dice::seeded(1))
}

pub(super) fn breaker() -> Breaker {
    measured_breaker(Metrics::global())
}

pub(super) fn measured_breaker(metrics: Metrics) -> Breaker {
    let settings = BreakerSettings { metrics, ..BreakerSettings::default() };
    Breakers::new(nobody(), "acme", settings, Dice::seeded(2)).breaker("stripe").unwrap()
}
