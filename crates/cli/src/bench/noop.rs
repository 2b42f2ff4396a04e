//! The reference: a stock tonic service whose one call does nothing, in a process of its own.
//!
//! It is what tonic's generator writes for a unary call from an empty message to an empty message, on
//! a runtime of two workers.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::Ipv4Addr;

use clap::Args;
use tokio::net::TcpListener;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Context, Poll, Service, http};
use tonic::server::{NamedService, UnaryService};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;

use super::client::Stub;
use super::crew::Caller;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::serve::Listening;
use crate::stop::{multi_thread_runtime, parent_gone};

const PATH: &str = "/semel.bench.Noop/Call";

/// The arguments of the hidden command that is the reference server.
#[derive(Args, Debug)]
pub(crate) struct NoopServerArgs {}

impl NoopServerArgs {
    /// Serves until the parent is gone.
    pub(crate) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        multi_thread_runtime()?.block_on(serve(output))?;
        Ok(Exit::Done)
    }
}

async fn serve(output: &mut Output) -> Result<(), Failure> {
    let broken = |error: &dyn std::error::Error| Failure::broken(format!("serving: {error}"));
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(|error| broken(&error))?;
    let address = listener.local_addr().map_err(|error| broken(&error))?;
    output.reply(&Listening::at(address))?;
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    Server::builder()
        .add_service(NoopService)
        .serve_with_incoming_shutdown(incoming, parent_gone()?)
        .await
        .map_err(|error| broken(&error))
}

#[derive(Clone)]
struct NoopService;

impl NamedService for NoopService {
    const NAME: &'static str = "semel.bench.Noop";
}

impl Service<http::Request<Body>> for NoopService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        match request.uri().path() {
            PATH => Box::pin(async move {
                let mut grpc = tonic::server::Grpc::new(ProstCodec::default());
                Ok(grpc.unary(NoopCall, request).await)
            }),
            _ => Box::pin(ready(Ok(Status::new(Code::Unimplemented, "").into_http()))),
        }
    }
}

struct NoopCall;

impl UnaryService<()> for NoopCall {
    type Response = ();
    type Future = Ready<Result<Response<()>, Status>>;

    fn call(&mut self, _: Request<()>) -> Self::Future {
        ready(Ok(Response::new(())))
    }
}

/// A caller of the reference.
pub(crate) struct Noop;

impl Caller for Noop {
    async fn call(&mut self, stub: &mut Stub) -> Result<(), String> {
        stub.unary(PATH, ()).await
    }
}
