//! What differs between HTTP and gRPC.

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Response};

use super::answer::AnswerBody;
use super::problem::Problem;
use super::verdict::Verdict;
use crate::fingerprint::Fingerprint;
use crate::keys;

/// How requests and answers are written. Given for HTTP and gRPC.
pub trait Dialect: Clone + Send + Sync + 'static {
    /// Whether requests of this kind have keys at all.
    fn has_keys(&self, request: &Parts) -> bool;

    /// The request's key.
    fn key(&self, headers: &HeaderMap) -> Result<Option<String>, Problem>;

    /// What the request's key stands for.
    fn fingerprint(
        &self,
        operation: &str,
        request: &Parts,
        body: &Bytes,
    ) -> Result<Fingerprint, Problem>;

    /// Makes the request ready for the handler.
    fn prepare(&self, request: &mut Parts);

    /// What an answer means, if it does not say so itself.
    fn verdict<B>(&self, answer: &Response<AnswerBody<B>>) -> Verdict;

    /// The answer as it is stored; `None`: it can't be.
    fn store<B>(&self, answer: &Response<AnswerBody<B>>) -> Option<keys::Response>;

    /// A stored answer; `None`: it can't be told.
    fn replay<B>(&self, stored: &keys::Response) -> Option<Response<AnswerBody<B>>>;

    /// Tells why there is no answer.
    fn refuse<B>(&self, problem: &Problem) -> Response<AnswerBody<B>>;
}

/// A dialect whose requests have bodies of this type.
pub trait RequestBody<B>: Dialect {
    /// A body of these bytes.
    fn body(bytes: Bytes) -> B;
}
