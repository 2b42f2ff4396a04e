//! gRPC: the same rules for unary calls, with the key in the metadata entry `idempotency-key`.
//!
//! Where coming again makes sense, a refusal has the entry `grpc-retry-pushback-ms` too, which retry policies of
//! gRPC keep to.
//!
//! The message of an answer is stored as it is encoded, without its frame; a recovery worker settles a key with
//! `Response::new(0, message.encode_to_vec())`. So that it is never compressed for one caller and replayed to
//! another, calls with keys are answered uncompressed.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use http_body_util::Full;
use tonic::body::Body;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use super::answer::AnswerBody;
use super::dialect::{Dialect, RequestBody};
use super::headers;
use super::key::{self, Notation};
use super::problem::Problem;
use super::verdict::Verdict;
use crate::connection::DOMAIN;
use crate::failure::grpc::PUSHBACK;
use crate::fingerprint::{Fingerprint, Intent};
use crate::keys;

const GRPC: &str = "application/grpc";
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");
const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// Stored entries that begin so are trailers: no header can.
const TRAILER: &str = "trailer:";
/// Whether it is compressed, and the length.
const FRAME_HEAD_BYTES: usize = 5;

type Classify = Arc<dyn Fn(Code) -> Verdict + Send + Sync>;

/// How the layer speaks gRPC.
#[derive(Clone)]
#[must_use]
pub struct GrpcDialect {
    classify: Classify,
}

impl Default for GrpcDialect {
    fn default() -> Self {
        Self { classify: Arc::new(verdict_of_code) }
    }
}

impl GrpcDialect {
    /// What an answer means that has no [`Verdict`] of its own. Default: [`verdict_of_code`].
    pub fn classify(mut self, classify: impl Fn(Code) -> Verdict + Send + Sync + 'static) -> Self {
        self.classify = Arc::new(classify);
        self
    }
}

impl Dialect for GrpcDialect {
    fn has_keys(&self, request: &Parts) -> bool {
        let kind = request.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        kind.is_some_and(|kind| kind.starts_with(GRPC.as_bytes()))
    }

    fn key(&self, headers: &HeaderMap) -> Result<Option<String>, Problem> {
        key::read(headers, Notation::QuotedOrBare)
    }

    fn fingerprint(
        &self,
        operation: &str,
        request: &Parts,
        body: &Bytes,
    ) -> Result<Fingerprint, Problem> {
        one_message(body).ok_or(Problem::NotUnary)?;
        Ok(Intent::new(operation, request.uri.path()).protobuf(body))
    }

    fn prepare(&self, request: &mut Parts) {
        request.headers.remove(ACCEPT_ENCODING);
    }

    fn verdict<B>(&self, answer: &Response<AnswerBody<B>>) -> Verdict {
        // tonic leaves the handler's status there.
        let said = answer.extensions().get().and_then(Verdict::of);
        let code = code(answer);
        said.or_else(|| code.map(|code| (self.classify)(code))).unwrap_or(Verdict::Unknown)
    }

    fn store<B>(&self, answer: &Response<AnswerBody<B>>) -> Option<keys::Response> {
        let (body, trailers) = answer.body().all()?;
        let code = code(answer)?;
        let message = match code {
            Code::Ok => one_message(body).filter(|message| !message.is_compressed)?.bytes,
            _ if body.is_empty() => Bytes::new(),
            _ => return None,
        };
        let mut stored = keys::Response::new(code.into(), message).content_type(GRPC);
        let kept = |(name, _): &(&HeaderName, _)| {
            ![&CONTENT_TYPE, &GRPC_STATUS, &ACCEPT_ENCODING, &ENCODING].contains(name)
        };
        let heads = headers::add(&mut stored, "", answer.headers().iter().filter(kept));
        let trailers = trailers.into_iter().flatten().filter(kept);
        (heads && headers::add(&mut stored, TRAILER, trailers)).then_some(stored)
    }

    fn replay<B>(&self, stored: &keys::Response) -> Option<Response<AnswerBody<B>>> {
        let (message, code) = (stored.bytes()?, Code::from(stored.status));
        let (mut head, mut trailers) = (HeaderMap::new(), HeaderMap::new());
        for (name, value) in &stored.metadata {
            let put = match name.strip_prefix(TRAILER) {
                Some(name) => headers::put(&mut trailers, name, value),
                None => headers::put(&mut head, name, value),
            };
            put.then_some(())?;
        }
        head.insert(CONTENT_TYPE, HeaderValue::from_static(GRPC));
        head.insert(REPLAYED, HeaderValue::from_static("true"));
        let status = HeaderValue::from(i32::from(code));
        let body = if code == Code::Ok {
            trailers.insert(GRPC_STATUS, status);
            AnswerBody::whole(frame(message)?, Some(trailers))
        } else {
            // An answer without messages is all head.
            head.extend(trailers);
            head.insert(GRPC_STATUS, status);
            AnswerBody::whole(Bytes::new(), None)
        };
        let mut answer = Response::new(body);
        *answer.headers_mut() = head;
        Some(answer)
    }

    fn refuse<B>(&self, problem: &Problem) -> Response<AnswerBody<B>> {
        let mut details = ErrorDetails::with_error_info(problem.reason(), DOMAIN, HashMap::new());
        let after = problem.retry_after();
        if after.is_some() {
            details.set_retry_info(after);
        }
        let status = Status::with_error_details(code_of(problem), problem.detail(), details);
        let (mut head, ()) = status.into_http::<()>().into_parts();
        if let Some(after) = after {
            let ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX).max(1);
            head.headers.insert(PUSHBACK, ms.into());
        }
        Response::from_parts(head, AnswerBody::whole(Bytes::new(), None))
    }
}

impl RequestBody<Body> for GrpcDialect {
    fn body(bytes: Bytes) -> Body {
        Body::new(Full::new(bytes))
    }
}

impl std::fmt::Debug for GrpcDialect {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("GrpcDialect").finish_non_exhaustive()
    }
}

/// What a code means, if the handler does not say more:
///
/// | code | verdict |
/// |---|---|
/// | `OK` | succeeded |
/// | `INVALID_ARGUMENT`, `NOT_FOUND`, `ALREADY_EXISTS`, `PERMISSION_DENIED`, `FAILED_PRECONDITION`, `OUT_OF_RANGE`, `UNIMPLEMENTED` | failed for good |
/// | `UNAUTHENTICATED`, `RESOURCE_EXHAUSTED` | not done: it was turned away |
/// | all others | unknown: a handler that hands on the `UNAVAILABLE` of a call that it made does not know |
#[must_use]
pub const fn verdict_of_code(code: Code) -> Verdict {
    match code {
        Code::Ok => Verdict::Succeeded,
        Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented => Verdict::FailedFinal,
        Code::Unauthenticated | Code::ResourceExhausted => Verdict::NotDone,
        Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::Internal
        | Code::Unavailable
        | Code::DataLoss => Verdict::Unknown,
    }
}

/// The code of an answer that is all there.
fn code<B>(answer: &Response<AnswerBody<B>>) -> Option<Code> {
    let trailers = answer.body().all().and_then(|(_, trailers)| trailers);
    let code = |headers: &HeaderMap| {
        headers.get(GRPC_STATUS).map(HeaderValue::as_bytes).map(Code::from_bytes)
    };
    trailers.and_then(code).or_else(|| code(answer.headers()))
}

struct Message {
    is_compressed: bool,
    bytes: Bytes,
}

/// The message of a body that is just one.
fn one_message(body: &Bytes) -> Option<Message> {
    let mut body = body.clone();
    if body.len() < FRAME_HEAD_BYTES {
        return None;
    }
    let (is_compressed, length) = (body.get_u8() != 0, body.get_u32());
    let is_one = u64::try_from(body.len()).ok()? == u64::from(length);
    is_one.then_some(Message { is_compressed, bytes: body })
}

fn frame(message: &Bytes) -> Option<Bytes> {
    let mut framed = BytesMut::with_capacity(FRAME_HEAD_BYTES + message.len());
    framed.put_u8(0);
    framed.put_u32(message.len().try_into().ok()?);
    framed.extend_from_slice(message);
    Some(framed.freeze())
}

const fn code_of(problem: &Problem) -> Code {
    match problem {
        Problem::KeyMissing | Problem::KeyInvalid(_) | Problem::BodyUnread => Code::InvalidArgument,
        Problem::BodyTooLarge(_) => Code::OutOfRange,
        Problem::NotUnary => Code::Unimplemented,
        Problem::InProgress(_) | Problem::TakenOver => Code::Aborted,
        Problem::Mismatch | Problem::Unknown | Problem::AnswerOmitted | Problem::Expired => {
            Code::FailedPrecondition
        }
        Problem::TimedOut | Problem::DeadlinePast => Code::DeadlineExceeded,
        Problem::Unreachable(_) | Problem::Full => Code::Unavailable,
        Problem::Misconfigured => Code::Internal,
    }
}
