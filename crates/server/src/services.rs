//! The services of one serving thread, found by the path of a call.
//!
//! The library's router boxes bodies and clones services behind pointers for each call. That is a tenth of
//! what a small call costs, so the services that callers wait for are called without it; the others are not
//! in a hurry.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use semel_proto::v1::admin_server::AdminServer;
use semel_proto::v1::breakers_server::BreakersServer;
use semel_proto::v1::keys_server::KeysServer;
use semel_proto::v1::retries_server::RetriesServer;
use semel_store::Store;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::service::Routes;
use tonic_health::pb::health_server::{Health, HealthServer};

use crate::breakers::BreakersService;
use crate::core::Lane;
use crate::keys::KeysService;
use crate::nodes::{LaneLoad, OpenCall};
use crate::options::MESSAGE_MAX_BYTES;
use crate::retries::RetriesService;

/// The names of the contract's services, as the paths of their calls begin.
const KEYS: &str = "/semel.v1.Keys/";
const RETRIES: &str = "/semel.v1.Retries/";
const BREAKERS: &str = "/semel.v1.Breakers/";

/// All services of a node.
pub(crate) struct Services<S> {
    keys: KeysServer<KeysService<S>>,
    retries: RetriesServer<RetriesService<S>>,
    breakers: BreakersServer<BreakersService<S>>,
    others: Routes,
    load: Arc<LaneLoad>,
}

impl<S: Store> Services<S> {
    /// Those of the contract, health, and reflection over all of them.
    pub(crate) fn new(
        lane: Lane<S>,
        health: HealthServer<impl Health>,
    ) -> Result<Self, tonic_reflection::server::Error> {
        let Lane { keys, retries, breakers, admin, load, .. } = lane;
        let reflection = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(semel_proto::DESCRIPTORS)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        Ok(Self {
            keys: KeysServer::new(keys).max_decoding_message_size(MESSAGE_MAX_BYTES),
            retries: RetriesServer::new(retries).max_decoding_message_size(MESSAGE_MAX_BYTES),
            breakers: BreakersServer::new(breakers).max_decoding_message_size(MESSAGE_MAX_BYTES),
            load,
            others: Routes::new(health)
                .add_service(AdminServer::new(admin).max_decoding_message_size(MESSAGE_MAX_BYTES))
                // Generic clients ask in either version.
                .add_service(reflection().build_v1()?)
                .add_service(reflection().build_v1alpha()?)
                .prepare(),
        })
    }
}

impl<S> Clone for Services<S> {
    fn clone(&self) -> Self {
        Self {
            keys: self.keys.clone(),
            retries: self.retries.clone(),
            breakers: self.breakers.clone(),
            others: self.others.clone(),
            load: Arc::clone(&self.load),
        }
    }
}

impl<S: Store> Service<http::Request<Body>> for Services<S> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Counted<BoxFuture<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let open = self.load.call();
        let path = request.uri().path();
        let call: BoxFuture<Self::Response, Self::Error> = if path.starts_with(KEYS) {
            self.keys.call(request)
        } else if path.starts_with(RETRIES) {
            self.retries.call(request)
        } else if path.starts_with(BREAKERS) {
            self.breakers.call(request)
        } else {
            Box::pin(self.others.call(request))
        };
        Counted { call, _open: open }
    }
}

/// A call that counts as long as it is under way.
pub(crate) struct Counted<F> {
    call: F,
    _open: OpenCall,
}

impl<F: Future + Unpin> Future for Counted<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        Pin::new(&mut self.call).poll(context)
    }
}

#[cfg(test)]
mod tests {
    use semel_proto::v1::{breakers_server, keys_server, retries_server};

    use super::*;

    #[test]
    fn paths_begin_with_the_names_of_the_contract() {
        let begin = |name: &str| format!("/{name}/");
        assert_eq!(begin(keys_server::SERVICE_NAME), KEYS);
        assert_eq!(begin(retries_server::SERVICE_NAME), RETRIES);
        assert_eq!(begin(breakers_server::SERVICE_NAME), BREAKERS);
    }
}
