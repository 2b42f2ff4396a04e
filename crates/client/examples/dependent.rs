//! A service that depends on another: it calls it steadily through all layers, and says every second, in
//! a line of JSON, what came of that, and at once when its breaker opens or closes, or when somebody else
//! decides about it.
//!
//! `cargo run -p semel-client --example dependent -- NODE URL REQUESTS_PER_SECOND SECONDS`

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "an example is a whole program: it may read the clock, draw at random and print"
)]

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http::{HeaderValue, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use semel_client::breakers::{Breaker, BreakerSettings};
use semel_client::layers::{BoxError, Http, Refused, Stack};
use semel_client::tokens::RetryTokenSettings;
use serde_json::json;
use tokio::time::{interval, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tower::{Layer, Service, ServiceExt, service_fn};

const TENANT: &str = "acme";
const DEPENDENCY: &str = "flaky";
const OPERATION: Duration = Duration::from_secs(2);
const ATTEMPT: Duration = Duration::from_secs(1);
/// How often the breaker is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// Rides with a request and all its copies: how often it was sent.
#[derive(Clone, Default)]
struct Attempts(Arc<AtomicU32>);

/// What came of the requests of a second.
#[derive(Default)]
struct Second {
    attempts: u32,
    first_attempts: u32,
    ok_us: Vec<u64>,
    failed_us: Vec<u64>,
    refused_us: Vec<u64>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [node, url, rate, seconds] = &words[..] else {
        return Err("usage: dependent NODE URL REQUESTS_PER_SECOND SECONDS".into());
    };
    let beat = Duration::from_secs(1).div_f64(rate.parse()?);
    let length = Duration::from_secs(seconds.parse()?);

    let semel = semel_client::Client::connect(TENANT, [node])?;
    let tokens = semel.retry_tokens(RetryTokenSettings::default());
    let breakers = semel.breakers(BreakerSettings::default());
    let breaker = breakers.breaker(DEPENDENCY)?;
    let retries = semel.retries(&tokens, DEPENDENCY)?;
    let stack = Stack::new(Http::default(), retries, breaker.clone())
        .within(OPERATION)
        .attempt_within(ATTEMPT);

    let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let client = stack.layer(service_fn(move |request| send(client.clone(), request)));
    let (second, closing) = (RefCell::new(Second::default()), CancellationToken::new());
    let work = async {
        let load = load(&client, url, beat, &second);
        tokio::select! {
            // It ends in order: what it has of tokens goes back, and its last outcomes are told.
            _ = timeout(length, load) => {}
            _ = tokio::signal::ctrl_c() => {}
            () = tell_seconds(&second) => {}
            () = tell_changes(&breaker) => {}
        }
        closing.cancel();
    };
    tokio::join!(work, tokens.run(closing.cancelled()), breakers.run(closing.cancelled()));
    Ok(())
}

/// Below all layers: each attempt comes by, with its number for the dependency.
async fn send(
    client: Client<hyper_util::client::legacy::connect::HttpConnector, Full<Bytes>>,
    mut request: Request<Full<Bytes>>,
) -> Result<Response<Incoming>, BoxError> {
    if let Some(Attempts(count)) = request.extensions().get() {
        let number = count.fetch_add(1, Ordering::Relaxed) + 1;
        request.headers_mut().insert("x-attempt", HeaderValue::from(number));
    }
    Ok(client.request(request).await?)
}

/// Makes a request at each beat, however long the others take.
async fn load<S>(client: &S, url: &str, beat: Duration, second: &RefCell<Second>)
where
    S: Service<Request<Full<Bytes>>, Response = Response<Incoming>, Error = BoxError> + Clone,
{
    let (mut beat, mut calls) = (interval(beat), FuturesUnordered::new());
    loop {
        tokio::select! {
            _ = beat.tick() => calls.push(request(client.clone(), url, second)),
            Some(()) = calls.next() => {}
        }
    }
}

async fn request<S>(client: S, url: &str, second: &RefCell<Second>)
where
    S: Service<Request<Full<Bytes>>, Response = Response<Incoming>, Error = BoxError>,
{
    let attempts = Attempts::default();
    let request = Request::get(url).extension(attempts.clone()).body(Full::default());
    let Ok(request) = request else { return };
    let began = Instant::now();
    let answer = client.oneshot(request).await;
    let took_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    let sent = attempts.0.load(Ordering::Relaxed);
    let mut second = second.borrow_mut();
    second.attempts += sent;
    second.first_attempts += sent.min(1);
    match answer {
        Ok(answer) if answer.status().is_success() => second.ok_us.push(took_us),
        Err(error) if sent == 0 && is_open(&error) => second.refused_us.push(took_us),
        _ => second.failed_us.push(took_us),
    }
}

/// Here a service would answer from its cache, or with less than usual.
fn is_open(error: &BoxError) -> bool {
    matches!(Refused::find(&**error), Some(Refused::BreakerOpen { .. }))
}

async fn tell_seconds(second: &RefCell<Second>) {
    loop {
        sleep(Duration::from_secs(1)).await;
        let Second { attempts, first_attempts, ok_us, failed_us, refused_us } = second.take();
        println!(
            "{}",
            json!({
                "at_ms": now_ms(),
                "attempts": attempts,
                "first_attempts": first_attempts,
                "ok": latencies(ok_us),
                "failed": latencies(failed_us),
                "refused": latencies(refused_us),
            })
        );
    }
}

fn latencies(mut took_us: Vec<u64>) -> serde_json::Value {
    took_us.sort_unstable();
    let at = |percent: usize| took_us.get((took_us.len() * percent / 100).min(took_us.len() - 1));
    match took_us.last() {
        None => json!({ "count": 0 }),
        Some(most) => json!({
            "count": took_us.len(), "p50_us": at(50), "p99_us": at(99), "most_us": most,
        }),
    }
}

async fn tell_changes(breaker: &Breaker) {
    let (mut was, mut look) = ((true, true), interval(LOOK));
    loop {
        look.tick().await;
        let is = (breaker.is_closed(), breaker.is_local());
        if is != was {
            was = is;
            let (at_ms, (is_closed, is_local)) = (now_ms(), is);
            println!("{}", json!({ "at_ms": at_ms, "closed": is_closed, "local": is_local }));
        }
    }
}

/// Milliseconds since 1970.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
