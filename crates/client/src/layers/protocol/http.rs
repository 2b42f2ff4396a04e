//! HTTP.

use http::{HeaderMap, HeaderName, Method, Request, Response};

use super::{Criticality, RequestPolicy};
use crate::failure::{Classify, Failure, failure_of_http};

/// The header that makes any request repeatable.
pub const IDEMPOTENCY_KEY_HEADER: HeaderName = HeaderName::from_static("idempotency-key");

/// An extension of a request: says whether doing it twice does no harm, whatever its method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeatable(pub bool);

/// An extension of a request: its body can be read only once, so no copy of it is ever sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendOnce;

/// HTTP: a request may be repeated if its extension [`Repeatable`] says so, if it has an `Idempotency-Key`, or
/// if its method is idempotent. The service that it is sent to has to keep to that.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Http;

impl<B: Clone> RequestPolicy<Request<B>> for Http {
    fn is_repeatable(&self, request: &Request<B>) -> bool {
        is_keyed(request).unwrap_or_else(|| is_idempotent(request.method()))
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
}

impl<B> Classify<Response<B>> for Http {
    fn answer(&self, answer: &Response<B>) -> Option<Failure> {
        failure_of_http(answer.status(), answer.headers())
    }

    fn reply_headers<'a>(&self, answer: &'a Response<B>) -> Option<&'a HeaderMap> {
        Some(answer.headers())
    }
}

/// Whether it may be repeated by what it says itself; `None`: it says nothing.
pub(super) fn is_keyed<B>(request: &Request<B>) -> Option<bool> {
    let said = request.extensions().get().map(|Repeatable(said)| *said);
    said.or_else(|| request.headers().contains_key(IDEMPOTENCY_KEY_HEADER).then_some(true))
}

pub(super) fn copy<B: Clone>(request: &Request<B>) -> Option<Request<B>> {
    request.extensions().get::<SendOnce>().is_none().then(|| request.clone())
}

fn is_idempotent(method: &Method) -> bool {
    method.is_safe() || matches!(*method, Method::PUT | Method::DELETE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(method: Method) -> Request<()> {
        let mut request = Request::new(());
        *request.method_mut() = method;
        request
    }

    #[test]
    fn methods_keys_and_extensions_say_what_may_be_repeated() {
        let repeats = |request: &Request<()>| Http.is_repeatable(request);
        for method in [Method::GET, Method::HEAD, Method::OPTIONS, Method::PUT, Method::DELETE] {
            assert!(repeats(&of(method)));
        }
        let mut post = of(Method::POST);
        assert!(!repeats(&post));
        assert!(!repeats(&of(Method::PATCH)));
        post.headers_mut().insert(IDEMPOTENCY_KEY_HEADER, "intent-1".parse().unwrap());
        assert!(repeats(&post));
        post.extensions_mut().insert(Repeatable(false));
        assert!(!repeats(&post), "who sends it has the last word");
    }

    #[test]
    fn what_can_be_read_once_has_no_copy() {
        let mut request = of(Method::GET);
        assert!(Http.copy(&request).is_some());
        request.extensions_mut().insert(SendOnce);
        assert!(Http.copy(&request).is_none());
    }
}
