//! For servers: a request with an idempotency key is handled once, whoever sends it and however often.
//!
//! The first request with a key reaches the handler, inside of a claim whose lease is renewed. Its answer is
//! stored, and whoever asks again gets the same bytes. A handler that talks to a provider finds its claim, with
//! the key to hand on, among the request's extensions.
//!
//! ```no_run
//! use axum::extract::{Extension, MatchedPath};
//! use axum::http::StatusCode;
//! use axum::response::IntoResponse;
//! use axum::{Router, routing::post};
//! use semel_client::Client;
//! use semel_client::layers::IdempotencyLayer;
//! use semel_client::layers::idempotency::{Verdict, operation_of_route};
//! use semel_client::once::Held;
//! use tokio_util::task::TaskTracker;
//! # enum Failure { NotSent, NoAnswer }
//! # async fn charge_by_provider(idempotency_key: &str) -> Result<String, Failure> { Ok(String::new()) }
//! # #[derive(Clone)] struct User(String);
//!
//! async fn charge(Extension(claim): Extension<Held>) -> impl IntoResponse {
//!     match charge_by_provider(claim.derived_key()).await {
//!         Ok(receipt) => (StatusCode::CREATED, receipt).into_response(),
//!         // It says so, and the next attempt may run.
//!         Err(Failure::NotSent) => {
//!             (StatusCode::SERVICE_UNAVAILABLE, Extension(Verdict::NotDone)).into_response()
//!         }
//!         // Perhaps it is done: the next attempt does not run.
//!         Err(Failure::NoAnswer) => StatusCode::GATEWAY_TIMEOUT.into_response(),
//!     }
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let semel = Client::connect("acme", ["http://10.0.0.1:7450", "http://10.0.0.2:7450"])?;
//! let tracker = TaskTracker::new();
//! let once = IdempotencyLayer::http(semel, |request| {
//!     let route = request.extensions.get::<MatchedPath>()?;
//!     Some(operation_of_route(&request.method, route.as_str()))
//! })
//! // Set by the layer that authenticates: equal keys of two users are two keys.
//! .caller_by(|request| request.extensions.get::<User>().map(|user| user.0.clone()).unwrap_or_default())
//! // Whoever hangs up does not stop a charge midway.
//! .to_the_end(tracker.clone(), 1_000);
//!
//! let router: Router = Router::new().route("/charges", post(charge)).layer(once);
//! let listener = tokio::net::TcpListener::bind("0.0.0.0:8080").await?;
//! axum::serve(listener, router).await?;
//! tracker.close();
//! tracker.wait().await;
//! # Ok(())
//! # }
//! ```
//!
//! For tonic it is the same, with the key in the metadata of unary calls:
//!
//! ```no_run
//! use semel_client::Client;
//! use semel_client::layers::IdempotencyLayer;
//! # use semel_proto::v1::keys_server::{Keys, KeysServer};
//!
//! # async fn example(service: impl Keys) -> Result<(), Box<dyn std::error::Error>> {
//! let semel = Client::connect("acme", ["http://10.0.0.1:7450"])?;
//! let once = IdempotencyLayer::grpc(semel, |request| match request.uri.path() {
//!     "/semel.v1.Keys/ForgetKey" => Some("keys.forget".to_owned()),
//!     // Streams, and methods that only read.
//!     _ => None,
//! });
//! let server = tonic::transport::Server::builder().layer(once);
//! # let mut server = server;
//! server.add_service(KeysServer::new(service)).serve("0.0.0.0:9090".parse()?).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What a caller gets
//!
//! Statuses of HTTP as in the IETF draft `draft-ietf-httpapi-idempotency-key-header`, with a problem of RFC
//! 9457; of gRPC with an `ErrorInfo`. Both have the reason.
//!
//! | what is known of the key | HTTP | gRPC | reason |
//! |---|---|---|---|
//! | done: the stored answer, `Idempotency-Replayed: true` | its own | its own | |
//! | being done: come again with it | 409, `Retry-After` | `ABORTED`, `RetryInfo` | `IN_PROGRESS` |
//! | used for another request | 422 | `FAILED_PRECONDITION` | `KEY_PAYLOAD_MISMATCH` |
//! | perhaps done: to be settled | 409 | `FAILED_PRECONDITION` | `OUTCOME_UNKNOWN` |
//! | perhaps done: the handler took too long | 504 | `DEADLINE_EXCEEDED` | `OUTCOME_UNKNOWN` |
//! | nothing, no time was left to begin: come again with it | 504 | `DEADLINE_EXCEEDED` | `DEADLINE_PAST` |
//! | done, but its answer was too long to be stored | 410 | `FAILED_PRECONDITION` | `ANSWER_OMITTED` |
//! | forgotten | 410 | `FAILED_PRECONDITION` | `KEY_EXPIRED` |
//! | nothing, Semel can't be asked: come again with it | 503, `Retry-After` | `UNAVAILABLE`, `RetryInfo` | `SEMEL_UNREACHABLE` |
//! | nothing, too many requests: come again with it | 503, `Retry-After` | `UNAVAILABLE`, `RetryInfo` | `OVERLOADED` |
//! | there is none | 400 | `INVALID_ARGUMENT` | `KEY_MISSING` |
//! | it is malformed | 400 | `INVALID_ARGUMENT` | `KEY_INVALID` |
//! | the request broke off | 400 | `INVALID_ARGUMENT` | `BODY_UNREAD` |
//! | the request is too long | 413 | `OUT_OF_RANGE` | `BODY_TOO_LARGE` |
//! | the call is a stream | | `UNIMPLEMENTED` | `NOT_UNARY` |
//! | Semel does not take the service's requests | 500 | `INTERNAL` | `MISCONFIGURED` |
//!
//! What is being done is `ABORTED` rather than `UNAVAILABLE`: it is no failure of the service, and must not open
//! a breaker. Whoever was overtaken, because its lease was lost, answers `IN_PROGRESS` too: the other's answer
//! is the one that stays.
//!
//! # Deadlines
//!
//! A request's own deadline is the earliest of the [current](crate::Deadline::current) one, of its header
//! `x-deadline-ms` and of its `grpc-timeout`. Reading it, the claim, the wait for others and the handler are over by
//! then, and it is the current deadline of what the handler calls. Only completing has its own few seconds: what is
//! done is not given up. A server that drops requests at their deadline, as tonic's does, drops that too, so let
//! such requests go on [to the end](crate::layers::IdempotencyLayer::to_the_end): whoever asked is answered at its
//! deadline then, and the handler has the layer's time limit.
//!
//! # What is measured
//!
//! Requests by what became of them, and the time of claims and completions, by operation: see
//! [`metrics`](crate::metrics).
//!
//! # What it promises
//!
//! - **What is not known to be undone is never said to be.** An error after the handler began, an answer that
//!   breaks off, a panic, a timeout, a lost process: none of them lets another attempt run. What an answer means
//!   is read off its status, with [`verdict_of_status`] and [`verdict_of_code`]; a handler that knows more, such as
//!   that nothing was done before its 503, says so with a [`Verdict`].
//! - **Never a second silent run.** After a lost process a handler runs again only if the layer was told that it
//!   [looks first, or may begin again](crate::layers::IdempotencyLayer::on_owner_lost). Otherwise the key waits for a
//!   [recovery worker](crate::recovery). So does that of a claim whose answer was lost for good, though nothing ran
//!   here: it is measured as `unavailable`, not as run.
//! - **Whoever hangs up releases nothing.** A server drops the handler of a caller who hangs up. Its lease lapses
//!   then, as if the process were lost; [`to_the_end`](crate::layers::IdempotencyLayer::to_the_end) lets it go on,
//!   and the next attempt gets its answer. Use it wherever callers are impatient.
//! - **No key, no run.** While Semel is out of reach, requests are refused, unless
//!   [that is given up](crate::layers::IdempotencyLayer::unkeyed_without_semel).
//! - **Nothing is cut.** A body that is too long to be stored is known to be done, and never replayed in part.
//!
//! # Where to put it
//!
//! Inside of what authenticates, compresses, limits and logs, so that an answer is stored as the handler gave it,
//! and what was turned away has no key; and inside of an [`InboundLayer`](crate::layers::InboundLayer), which takes
//! the root up; outside of what the handler's verdict depends on. The request and the answer are read whole, so a
//! stream is answered only once it ends or is [too long](crate::layers::IdempotencyLayer::answer_max_bytes).
//!
//! # What it does not do
//!
//! - It does not make the work and its record one step: between the handler's effect and the completion a process
//!   can be lost. Hand [`Held::derived_key`](crate::once::Held::derived_key) to the provider, or write
//!   [`Held::fence`](crate::once::Held::fence) along with the effect.
//! - In tasks, what is local to the caller's task is not there, but for the [root](crate::Root) and how much the
//!   request [matters](crate::layers::Criticality).
//! - It does not know when an intent was made, unless it is
//!   [told](crate::layers::IdempotencyLayer::first_sent_by): a key that comes after its retention runs again.
//!
//! # Layout
//!
//! - `layer`, `service`: what can be chosen; tower's side of it
//! - `intake`, `handling`, `tasks`: the request until it is claimed; the handler inside of the claim; where
//! - `dialect`, `http`, `grpc`: how each protocol has it
//! - `key`, `headers`, `answer`, `problem`, `verdict`: their parts

mod answer;
mod dialect;
mod grpc;
mod handling;
mod headers;
mod http;
mod intake;
mod key;
pub(super) mod layer;
mod problem;
pub(super) mod service;
mod tasks;
mod verdict;

pub use self::answer::AnswerBody;
pub use self::grpc::{GrpcDialect, verdict_of_code};
pub use self::http::{HttpDialect, operation_of_route, verdict_of_status};
pub use self::verdict::Verdict;
