//! A client of hyper behind all layers, with what happens printed: `cargo run -p semel-client --example hyper`.
//!
//! It needs no node: without one, this process decides by itself, within the bound.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use semel_client::Client as Semel;
use semel_client::breakers::BreakerSettings;
use semel_client::layers::{BoxError, Http, Refused, Stack};
use semel_client::tokens::RetryTokenSettings;
use tokio::net::TcpListener;
use tower::{Layer, ServiceExt};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let uri = format!("http://{}/", listener.local_addr()?);
    tokio::select! {
        ended = serve(listener) => ended,
        ended = call(&uri) => ended,
    }
}

/// Every third answer is good.
async fn serve(listener: TcpListener) -> Result<(), BoxError> {
    let count = AtomicU32::new(0);
    let answer = |_: Request<Incoming>| async {
        let is_good = count.fetch_add(1, Ordering::Relaxed) % 3 == 2;
        let mut answer = Response::new(Full::new(Bytes::from_static(b"an answer")));
        *answer.status_mut() = if is_good { StatusCode::OK } else { StatusCode::BAD_GATEWAY };
        Ok::<_, Infallible>(answer)
    };
    loop {
        let (stream, _) = listener.accept().await?;
        let connection = hyper::server::conn::http1::Builder::new();
        connection.serve_connection(TokioIo::new(stream), service_fn(answer)).await?;
    }
}

async fn call(uri: &str) -> Result<(), BoxError> {
    let semel = Semel::connect("acme", ["http://127.0.0.1:7450"])?;
    let tokens = semel.retry_tokens(RetryTokenSettings::default());
    let breakers = semel.breakers(BreakerSettings::default());
    let retries = semel.retries(&tokens, "flaky")?;
    let stack = Stack::new(Http::default(), retries, breakers.breaker("flaky")?)
        .within(Duration::from_secs(2))
        .attempt_within(Duration::from_millis(500));

    let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let client = stack.layer(client);
    let work = async {
        for number in 1..=60 {
            let request = Request::get(uri).body(Full::default())?;
            match client.clone().oneshot(request).await {
                Ok(answer) => report(number, answer.status().as_str()),
                Err(error) => match Refused::find(&*error) {
                    Some(refused) => report(number, &refused.to_string()),
                    None => return Err(error),
                },
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
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

#[expect(clippy::print_stdout, reason = "an example shows what happens")]
fn report(number: u32, text: &str) {
    println!("{number:>2}  {text}");
}
