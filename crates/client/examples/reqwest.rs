//! A client of reqwest behind all layers: the last of its calls is answered badly, and its retry is granted. The
//! server that it calls says what is left of the deadline in each.
//!
//! `cargo run -p semel-client --example reqwest`. It starts the server that it calls, and needs no node: without
//! one at SEMEL_TARGET, this process decides by itself, within the bound.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "an example is a program of its own: it may read the environment and print"
)]

mod stage;

use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use semel_client::Client as Semel;
use semel_client::breakers::BreakerSettings;
use semel_client::deadline::wire::DEADLINE_HEADER;
use semel_client::layers::{BoxError, Http, Stack};
use semel_client::tokens::RetryTokenSettings;
use tokio::net::TcpListener;
use tower::{Layer, Service, ServiceExt};

/// Enough first attempts for a tenth of them to be a retry, also of those that no report is on its way with.
const CALLS: u32 = 61;
/// The time from one call to the next.
const PACE: Duration = Duration::from_millis(10);
/// The request, of all that arrive, that is answered badly: that of the last call.
const BAD: u32 = CALLS;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let uri = format!("http://{}/", listener.local_addr()?);
    tokio::select! {
        ended = serve(listener) => ended,
        ended = call(&uri) => ended,
    }
}

/// All answers are good but one.
async fn serve(listener: TcpListener) -> Result<(), BoxError> {
    let count = AtomicU32::new(0);
    let count = &count;
    let answer = |request: Request<Incoming>| async move {
        let number = count.fetch_add(1, Ordering::Relaxed) + 1;
        let mut answer = Response::new(Full::new(Bytes::from_static(b"an answer")));
        if number == BAD {
            *answer.status_mut() = StatusCode::BAD_GATEWAY;
        }
        if number >= BAD {
            let left = request.headers().get(DEADLINE_HEADER).and_then(|left| left.to_str().ok());
            let (left, status) = (left.unwrap_or("no"), answer.status());
            println!("request {number}: {DEADLINE_HEADER}: {left}, answered {status}");
        }
        Ok::<_, Infallible>(answer)
    };
    loop {
        let (stream, _) = listener.accept().await?;
        let connection = hyper::server::conn::http1::Builder::new();
        connection.serve_connection(TokioIo::new(stream), service_fn(answer)).await?;
    }
}

/// A client of reqwest as a service of plain HTTP requests. Bodies are bytes, so that they can be sent again.
fn service(
    client: reqwest::Client,
) -> impl Service<
    Request<Bytes>,
    Response = Response<reqwest::Body>,
    Error = BoxError,
    Future: Send + 'static,
> + Clone
+ Send
+ 'static {
    tower::service_fn(move |request: Request<Bytes>| {
        let client = client.clone();
        async move {
            let request = reqwest::Request::try_from(request)?;
            let answer = client.oneshot(request).await?;
            Ok::<_, BoxError>(Response::from(answer))
        }
    })
}

async fn call(uri: &str) -> Result<(), BoxError> {
    let semel: Semel = stage::semel()?;
    let tokens = semel.retry_tokens(RetryTokenSettings::default());
    let breakers = semel.breakers(BreakerSettings::default());
    let retries = semel.retries(&tokens, "flaky")?;
    let stack = Stack::new(Http::default(), retries, breakers.breaker("flaky")?)
        .within(Duration::from_secs(5))
        .attempt_within(Duration::from_secs(2));

    // Its own retries are nobody's budget: off. Proxies of the environment would stand between the two.
    let client = reqwest::Client::builder().retry(reqwest::retry::never()).no_proxy().build()?;
    let client = stack.layer(service(client));
    let work = async {
        for number in 1..=CALLS {
            let answer = client.clone().oneshot(Request::get(uri).body(Bytes::new())?).await?;
            let status = answer.status();
            let body = answer.into_body().collect().await?.to_bytes();
            if number == CALLS {
                println!("call {number}: {status}: {}", String::from_utf8_lossy(&body));
            }
            tokio::time::sleep(PACE).await;
        }
        Ok(())
    };
    // What keeps the client supplied is driven beside the work.
    tokio::select! {
        ended = work => ended,
        () = tokens.run(std::future::pending()) => Ok(()),
        () = breakers.run(std::future::pending()) => Ok(()),
    }
}
