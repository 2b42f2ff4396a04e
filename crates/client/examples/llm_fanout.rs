//! An agent calls a tool, the tool calls a chain, the chain calls a model, and the model is down. Each of the three
//! makes up to three attempts, so a plain loop in each makes 27 calls of one question. Behind the client's layers the
//! question carries how often all of them together may still try again: here twice, so there are 3 calls at the most.
//!
//! `cargo run -p semel-client --example llm_fanout`, with a node at SEMEL_TARGET (http://127.0.0.1:7450).

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "an example is a program of its own: it may read the environment and print"
)]

mod stage;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use semel_client::breakers::{BreakerSettings, Breakers};
use semel_client::layers::{BoxError, Http, InboundLayer, Stack};
use semel_client::tokens::{RetryTokenSettings, RetryTokens};
use semel_client::{Client, Root};
use tower::util::BoxCloneService;
use tower::{Layer, ServiceExt, service_fn};

/// Any service of the chain.
type Link = BoxCloneService<Request<String>, Response<String>, Infallible>;

const LAYERS: [&str; 3] = ["tool", "chain", "model"];
const ATTEMPTS: u32 = 3;
/// How often all layers together may try again for one question.
const RETRIES: u32 = 2;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let calls = Arc::new(AtomicU32::new(0));
    let mut naive = model(&calls);
    for _ in LAYERS {
        naive = loops(naive);
    }
    ask(naive).await?;
    println!(
        "a loop of {ATTEMPTS} attempts in each layer: {} calls",
        calls.swap(0, Ordering::Relaxed)
    );

    let semel = stage::semel()?;
    let tokens = semel.retry_tokens(RetryTokenSettings::default());
    let breakers = semel.breakers(BreakerSettings::default());
    let mut layered = model(&calls);
    for dependency in LAYERS.iter().rev() {
        layered = stacked(&semel, &tokens, &breakers, dependency, layered)?;
    }
    let question = Root::new("question-1", RETRIES).scope(ask(layered));
    // What keeps the client supplied is driven beside the work.
    tokio::select! {
        answer = question => answer?,
        () = tokens.run(std::future::pending()) => {}
        () = breakers.run(std::future::pending()) => {}
    }
    println!("behind the layers: {} calls", calls.load(Ordering::Relaxed));
    Ok(())
}

/// One question. That the model is down is no surprise here.
async fn ask(service: Link) -> Result<(), Infallible> {
    let answer = service.oneshot(Request::new(String::new())).await?;
    println!("the answer: {}", answer.status());
    Ok(())
}

/// The model, which is down, and counts how often it is called.
fn model(calls: &Arc<AtomicU32>) -> Link {
    let calls = Arc::clone(calls);
    BoxCloneService::new(service_fn(move |_| {
        calls.fetch_add(1, Ordering::Relaxed);
        std::future::ready(Ok(down()))
    }))
}

/// A layer that tries three times.
fn loops(below: Link) -> Link {
    BoxCloneService::new(service_fn(move |_: Request<String>| {
        let below = below.clone();
        async move {
            for _ in 0..ATTEMPTS {
                let answer = below.clone().oneshot(Request::new(String::new())).await?;
                if answer.status().is_success() {
                    return Ok(answer);
                }
            }
            Ok(down())
        }
    }))
}

/// A layer that calls the next one through the whole stack, and takes up what its own callers carry.
fn stacked(
    semel: &Client,
    tokens: &RetryTokens,
    breakers: &Breakers,
    dependency: &str,
    below: Link,
) -> Result<Link, BoxError> {
    let retries = semel.retries(tokens, dependency)?;
    let client = Stack::new(Http::default(), retries, breakers.breaker(dependency)?)
        .within(Duration::from_secs(10))
        .layer(below);
    let handler = service_fn(move |_: Request<String>| {
        let client = client.clone();
        async move {
            let answer = client.oneshot(Request::new(String::new())).await;
            Ok::<_, Infallible>(answer.unwrap_or_else(|_| down()))
        }
    });
    Ok(BoxCloneService::new(InboundLayer::default().layer(handler)))
}

fn down() -> Response<String> {
    let mut answer = Response::default();
    *answer.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    answer
}
