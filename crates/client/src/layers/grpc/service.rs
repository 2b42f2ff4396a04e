use std::task::{Context, Poll};

use futures::TryFutureExt;
use futures::future::{MapErr, MapOk};
use http::{Request, Response};
use tonic::Status;
use tonic::body::Body;
use tower::{Layer, Service};

use super::body::ReplayBody;
use super::trailers::ToldBody;
use crate::layers::{BoxError, Grpc, Refused, SendOnce, Stack, Stacked};

/// All layers around a channel of tonic, or any other service that its generated clients can use.
///
/// ```no_run
/// use semel_client::layers::{Grpc, GrpcStack, Repeatable, Retries, Stack};
/// use semel_proto::v1::GetBudgetRequest;
/// use semel_proto::v1::retries_client::RetriesClient;
/// use tonic::transport::Endpoint;
/// use tower::Layer;
///
/// # async fn example(stack: Stack<Grpc>) -> Result<(), Box<dyn std::error::Error>> {
/// let channel = Endpoint::from_static("http://127.0.0.1:7450").connect_lazy();
/// let mut client = RetriesClient::new(GrpcStack::new(stack).layer(channel));
///
/// let mut request = tonic::Request::new(GetBudgetRequest::default());
/// // Reading twice does no harm. Of a write this is said by its `idempotency-key`.
/// request.extensions_mut().insert(Repeatable(true));
/// let budget = client.get_budget(request).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct GrpcStack(Stack<Grpc>);

/// A service of tonic with all layers around it.
#[derive(Clone, Debug)]
pub struct GrpcService<S>(Stacked<Sender<S>, Grpc>);

/// The service below, which takes tonic's own bodies, and whose answers tell their end.
#[derive(Clone, Debug)]
pub struct Sender<S>(S);

impl<S, T> Service<Request<ReplayBody>> for Sender<S>
where
    S: Service<Request<Body>, Response = Response<T>>,
{
    type Response = Response<ToldBody<T>>;
    type Error = S::Error;
    type Future = MapOk<S::Future, fn(Response<T>) -> Self::Response>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<ReplayBody>) -> Self::Future {
        self.0.call(request.map(Body::new)).map_ok(ToldBody::of)
    }
}

impl GrpcStack {
    /// These layers.
    #[must_use]
    pub const fn new(stack: Stack<Grpc>) -> Self {
        Self(stack)
    }
}

impl<S> Layer<S> for GrpcStack {
    type Service = GrpcService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        GrpcService(self.0.layer(Sender(inner)))
    }
}

impl<S, T> Service<Request<Body>> for GrpcService<S>
where
    S: Service<Request<Body>, Response = Response<T>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    T: Send + 'static,
{
    type Response = Response<ToldBody<T>>;
    type Error = Status;
    type Future = MapErr<
        <Stacked<Sender<S>, Grpc> as Service<Request<ReplayBody>>>::Future,
        fn(BoxError) -> Status,
    >;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        self.0.poll_ready(cx).map_err(status_of)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let mut request = request.map(ReplayBody::read);
        if !request.body().is_whole() {
            request.extensions_mut().insert(SendOnce);
        }
        self.0.call(request).map_err(status_of)
    }
}

/// The status of an error of the layers, or of the service below.
#[must_use]
pub fn status_of(error: BoxError) -> Status {
    match Refused::find(&*error) {
        Some(refused) => refused.to_status(),
        None => Status::from_error(error),
    }
}
