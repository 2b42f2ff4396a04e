//! For servers: takes up what a request carries, so that all that it causes goes on from there.
//!
//! The request's deadline, root and criticality become the current ones of whatever handles it, and the reply
//! returns the retries of the root that were not used. A request whose deadline is past is handled all the same: what it
//! calls is refused at once.
//!
//! ```
//! use semel_client::layers::{Criticality, InboundLayer};
//! use semel_client::{Deadline, Root};
//! use tower::{BoxError, Layer, ServiceExt, service_fn};
//!
//! async fn handle(_: http::Request<String>) -> Result<http::Response<String>, BoxError> {
//!     assert!(Deadline::current().is_some());
//!     assert_eq!(Root::current().map(|root| root.left()), Some(2));
//!     assert_eq!(Criticality::current(), Some(Criticality::High));
//!     Ok(http::Response::new("done".to_owned()))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! // A router of axum, or a server of tonic, takes it the same way.
//! let service = InboundLayer::default().layer(service_fn(handle));
//! let request = http::Request::get("/")
//!     .header("x-deadline-ms", "1500")
//!     .header("x-semel-root", "6162;1;2")
//!     .header("x-semel-criticality", "high")
//!     .body(String::new())?;
//! let reply = service.oneshot(request).await?;
//! assert_eq!(reply.headers()["x-semel-root-left"], "2");
//! # Ok(())
//! # }
//! ```

mod service;

pub use self::service::{InboundLayer, InboundService};
