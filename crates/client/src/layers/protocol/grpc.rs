//! gRPC.

use std::time::Duration;

use http::{HeaderMap, Request, Response};

use super::http::{copy, is_keyed};
use super::{Criticality, RequestPolicy};
use crate::deadline::wire::write_grpc;
use crate::failure::{Classify, Failure, failure_of_grpc};
use crate::layers::grpc::Trailers;

/// gRPC: a call may be repeated if its extension [`Repeatable`](super::Repeatable) says so, or if its metadata
/// have an `idempotency-key`. tonic hands the extensions of its requests on.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Grpc;

impl<B: Clone> RequestPolicy<Request<B>> for Grpc {
    fn is_repeatable(&self, request: &Request<B>) -> bool {
        is_keyed(request).unwrap_or(false)
    }

    fn copy(&self, request: &Request<B>) -> Option<Request<B>> {
        copy(request)
    }

    fn criticality(&self, request: &Request<B>) -> Option<Criticality> {
        Criticality::said(request)
    }

    fn headers<'a>(&self, request: &'a mut Request<B>) -> Option<&'a mut HeaderMap> {
        Some(request.headers_mut())
    }

    fn write_deadline(&self, headers: &mut HeaderMap, left: Duration) {
        write_grpc(headers, left);
    }
}

impl<B> Classify<Response<B>> for Grpc {
    fn answer(&self, answer: &Response<B>) -> Option<Failure> {
        failure_of_grpc(answer.status(), answer.headers())
    }

    fn trailers(&self, answer: &Response<B>) -> Option<Trailers> {
        answer.extensions().get().cloned()
    }

    fn reply_headers<'a>(&self, answer: &'a Response<B>) -> Option<&'a HeaderMap> {
        Some(answer.headers())
    }
}
