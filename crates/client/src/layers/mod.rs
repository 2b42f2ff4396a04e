//! The whole retry pattern as tower layers, each usable apart.
//!
//! | layer | what it does |
//! |---|---|
//! | [`DeadlineLayer`] | bounds an operation, or each attempt, and tells the callee what is left |
//! | [`BulkheadLayer`] | bounds how many calls are under way |
//! | [`RetryLayer`] | sends a failed call again, if that makes sense and the fleet's budget pays |
//! | [`HedgeLayer`] | sends a slow call a second time, on the same budget |
//! | [`BreakerLayer`] | sends a call only while its dependency is worth calling |
//! | [`Stack`] | all of them, in the order that is right |
//! | [`GrpcStack`] | the same around a channel of tonic |
//! | [`IdempotencyLayer`] | for servers: a request with an idempotency key is handled once |
//! | [`InboundLayer`] | for servers: takes up the deadline, the root and the criticality that a request carries |
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use semel_client::Client;
//! use semel_client::breakers::BreakerSettings;
//! use semel_client::layers::{Http, Refused, Stack};
//! use semel_client::tokens::RetryTokenSettings;
//! use tower::{BoxError, Layer, Service, ServiceExt, service_fn};
//!
//! # async fn send(request: http::Request<String>) -> Result<http::Response<String>, BoxError> {
//! #     Ok(http::Response::new(request.into_body()))
//! # }
//! # async fn example(stopped: impl Future<Output = ()> + Clone) -> Result<(), BoxError> {
//! let semel = Client::connect("acme", ["http://10.0.0.1:7450", "http://10.0.0.2:7450"])?;
//! let tokens = semel.retry_tokens(RetryTokenSettings::default());
//! let breakers = semel.breakers(BreakerSettings::default());
//!
//! let retries = semel.retries(&tokens, "stripe")?;
//! let stack = Stack::new(Http::default(), retries, breakers.breaker("stripe")?)
//!     .within(Duration::from_secs(10))
//!     .attempt_within(Duration::from_secs(3))
//!     .outside();
//!
//! // Any service of HTTP requests: a client of hyper, of reqwest, a router of axum.
//! let mut stripe = stack.layer(service_fn(send));
//!
//! let work = async {
//!     let request = http::Request::put("https://api.stripe.com/v1/customers/7").body("{}".to_owned())?;
//!     match stripe.ready().await?.call(request).await {
//!         Err(error) => match Refused::find(&*error) {
//!             Some(Refused::BreakerOpen { .. }) => Ok(http::Response::new("from the cache".to_owned())),
//!             _ => Err(error),
//!         },
//!         answer => answer,
//!     }
//! };
//! // Both are driven for as long as the process lives.
//! let (answer, (), ()) = tokio::join!(work, tokens.run(stopped.clone()), breakers.run(stopped));
//! # answer.map(drop)
//! # }
//! ```
//!
//! # Around reqwest
//!
//! `reqwest::Client` is a service of requests of its own type, which are made of those of the `http` crate, so a
//! function between the two is all it takes. Its own retries are paid from no budget: turn them off. The example
//! `reqwest` is a program of this.
//!
//! ```no_run
//! use bytes::Bytes;
//! use semel_client::layers::{BoxError, Http, Stack};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # async fn example(stack: Stack<Http>) -> Result<(), BoxError> {
//! let client = reqwest::Client::builder().retry(reqwest::retry::never()).build()?;
//! let client = stack.layer(service_fn(move |request: http::Request<Bytes>| {
//!     let client = client.clone();
//!     async move {
//!         let answer = client.oneshot(reqwest::Request::try_from(request)?).await?;
//!         Ok::<_, BoxError>(http::Response::<reqwest::Body>::from(answer))
//!     }
//! }));
//! let request = http::Request::get("https://api.stripe.com/v1/balance").body(Bytes::new())?;
//! let answer = reqwest::Response::from(client.oneshot(request).await?);
//! println!("{}", answer.text().await?);
//! # Ok(())
//! # }
//! ```
//!
//! # Errors
//!
//! Every layer answers with a [`BoxError`]: the service's own, or a [`Refused`]. What a layer refused is never
//! held against the dependency, and never sent again. A call with several attempts comes to what the last of them
//! says, unless that one was turned away, or never left, and an earlier one perhaps was carried out: then that one's
//! failure is told, so that nobody takes such a call for undone.
//!
//! # What they do not do
//!
//! They do not make a call safe to repeat: that takes an idempotency key, and a service that keeps to it. They
//! don't look into the messages of a stream: an answer counts as good once its head is; but of gRPC, breakers and
//! metrics wait for [its status](grpc).

pub mod breaker;
pub mod bulkhead;
pub mod deadline;
mod ending;
pub mod grpc;
pub mod hedge;
pub mod idempotency;
mod inbound;
mod protocol;
mod refused;
pub mod retry;
pub mod stack;

// Each type has one path: what is used by itself is here, and what goes with it in its layer's module.
pub use self::breaker::layer::BreakerLayer;
pub use self::breaker::service::BreakerService;
pub use self::bulkhead::layer::BulkheadLayer;
pub use self::bulkhead::service::BulkheadService;
pub use self::deadline::layer::DeadlineLayer;
pub use self::deadline::service::DeadlineService;
pub(crate) use self::ending::{Ending, gravest, outcome_of, when_known};
pub use self::grpc::service::{GrpcService, GrpcStack};
pub use self::hedge::layer::{HedgeLayer, HedgeSettings};
pub use self::hedge::service::HedgeService;
pub use self::idempotency::layer::IdempotencyLayer;
pub use self::idempotency::service::IdempotencyService;
pub use self::inbound::{InboundLayer, InboundService};
pub use self::protocol::{
    CRITICALITY_HEADER, Calls, Criticality, CriticalityScoped, Grpc, Http, IDEMPOTENCY_KEY_HEADER,
    Protocol, Repeatable, RequestPolicy, SendOnce,
};
pub use self::refused::{BoxError, Refused};
pub use self::retry::layer::RetryLayer;
pub use self::retry::retries::Retries;
pub use self::retry::service::RetryService;
pub use self::stack::layer::Stack;
pub use self::stack::service::Stacked;

#[cfg(test)]
mod tests;
