//! For servers: what a request carries is taken up.

use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{Request, Response};
use tower::{Layer, Service};

use crate::deadline::wire;
use crate::layers::Criticality;
use crate::root::Root;

/// For servers: takes up what a request carries, so that all that it causes goes on from there.
///
/// The request's deadline, root and criticality become the current ones of whatever handles it, and the reply
/// returns the retries of the root that were not used. A request whose deadline is past is handled all the same: what it
/// calls is refused at once.
///
/// ```
/// use semel_client::layers::{Criticality, InboundLayer};
/// use semel_client::{Deadline, Root};
/// use tower::{BoxError, Layer, ServiceExt, service_fn};
///
/// async fn handle(_: http::Request<String>) -> Result<http::Response<String>, BoxError> {
///     assert!(Deadline::current().is_some());
///     assert_eq!(Root::current().map(|root| root.left()), Some(2));
///     assert_eq!(Criticality::current(), Some(Criticality::High));
///     Ok(http::Response::new("done".to_owned()))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// // A router of axum, or a server of tonic, takes it the same way.
/// let service = InboundLayer::default().layer(service_fn(handle));
/// let request = http::Request::get("/")
///     .header("x-deadline-ms", "1500")
///     .header("x-semel-root", "6162;1;2")
///     .header("x-semel-criticality", "high")
///     .body(String::new())?;
/// let reply = service.oneshot(request).await?;
/// assert_eq!(reply.headers()["x-semel-root-left"], "2");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct InboundLayer;

/// Takes up what a request carries. Made by an [`InboundLayer`].
#[derive(Clone, Debug)]
pub struct InboundService<S>(S);

impl<S> Layer<S> for InboundLayer {
    type Service = InboundService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        InboundService(inner)
    }
}

impl<S, B, T> Service<Request<B>> for InboundService<S>
where
    S: Service<Request<B>, Response = Response<T>> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
    T: Send + 'static,
{
    type Response = Response<T>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<T>, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let headers = request.headers();
        let (deadline, root) = (wire::read(headers), Root::read(headers));
        let criticality = Criticality::read(headers);
        // The service that is ready goes along; its clone has to become ready anew.
        let clone = self.0.clone();
        let mut inner = std::mem::replace(&mut self.0, clone);
        let handling = async move { inner.call(request).await };
        let handling: BoxFuture<'static, _> = match deadline {
            Some(deadline) => Box::pin(deadline.scope(handling)),
            None => Box::pin(handling),
        };
        let handling = match criticality {
            Some(criticality) => Box::pin(criticality.scope(handling)),
            None => handling,
        };
        let Some(root) = root else { return handling };
        Box::pin(async move {
            let mut reply = root.clone().scope(handling).await?;
            root.give_back(reply.headers_mut());
            Ok(reply)
        })
    }
}
