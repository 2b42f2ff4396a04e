//! HTTP, as the IETF draft of the `Idempotency-Key` header has it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LOCATION, CONTENT_TYPE, ETAG, LINK, LOCATION,
    RETRY_AFTER,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use serde_json::{Value, json};

use super::answer::AnswerBody;
use super::dialect::{Dialect, RequestBody};
use super::headers::{self, CONTENT_TYPE_MAX_BYTES};
use super::key::{self, Notation};
use super::problem::Problem;
use super::verdict::Verdict;
use crate::fingerprint::{Fingerprint, Intent};
use crate::keys;

/// Says that an answer is a stored one.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

type Classify = Arc<dyn Fn(StatusCode, &HeaderMap) -> Verdict + Send + Sync>;

/// How the layer speaks HTTP.
#[derive(Clone)]
#[must_use]
pub struct HttpDialect {
    methods: Vec<Method>,
    notation: Notation,
    replayed: HeaderName,
    documentation: Option<String>,
    told_apart_by: Vec<HeaderName>,
    left_out: Vec<String>,
    exact_bodies: bool,
    stored: Vec<HeaderName>,
    classify: Classify,
}

impl Default for HttpDialect {
    fn default() -> Self {
        Self {
            methods: vec![Method::POST, Method::PATCH],
            notation: Notation::Quoted,
            replayed: REPLAYED,
            documentation: None,
            told_apart_by: Vec::new(),
            left_out: Vec::new(),
            exact_bodies: false,
            stored: vec![
                CONTENT_ENCODING,
                CONTENT_LANGUAGE,
                CONTENT_LOCATION,
                ETAG,
                LINK,
                LOCATION,
            ],
            classify: Arc::new(|status, _| verdict_of_status(status)),
        }
    }
}

impl HttpDialect {
    /// The methods whose requests have keys. Default: POST and PATCH.
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.methods = methods.into_iter().collect();
        self
    }

    /// Takes keys without quotes too, as many clients send them: visible ASCII without quotes, commas,
    /// semicolons and backslashes.
    pub const fn bare_keys(mut self) -> Self {
        self.notation = Notation::QuotedOrBare;
        self
    }

    /// The header of a replayed answer, whose value is `true`. Default: `Idempotency-Replayed`; Stripe's is
    /// `Idempotent-Replayed`.
    pub fn replayed_header(mut self, name: HeaderName) -> Self {
        self.replayed = name;
        self
    }

    /// Where keys are explained to callers: the `type` of problems, and a `Link` that describes them.
    pub fn documentation(mut self, url: &str) -> Self {
        self.documentation = Some(url.to_owned());
        self
    }

    /// Requests that differ in this header are not the same, whatever their key: name what changes their
    /// meaning, such as an API's version.
    pub fn told_apart_by(mut self, header: HeaderName) -> Self {
        self.told_apart_by.push(header);
        self
    }

    /// Two bodies of JSON that differ only in what this JSON pointer names, such as `/trace/id`, are the same.
    pub fn leaving_out(mut self, pointer: &str) -> Self {
        self.left_out.push(pointer.to_owned());
        self
    }

    /// Compares JSON byte for byte too, rather than by its meaning.
    pub const fn exact_bodies(mut self) -> Self {
        self.exact_bodies = true;
        self
    }

    /// A header that is stored and replayed with an answer, beside its content type. Default: those that
    /// describe the content (encoding, language, location), `ETag`, `Link` and `Location`.
    pub fn stored_header(mut self, name: HeaderName) -> Self {
        self.stored.push(name);
        self
    }

    /// What an answer means that has no [`Verdict`] among its extensions. Default: [`verdict_of_status`].
    pub fn classify(
        mut self,
        classify: impl Fn(StatusCode, &HeaderMap) -> Verdict + Send + Sync + 'static,
    ) -> Self {
        self.classify = Arc::new(classify);
        self
    }

    fn describe(&self, problem: &Problem, status: StatusCode) -> Value {
        let mut told = json!({
            "title": title(problem),
            "status": status.as_u16(),
            "detail": problem.detail(),
            "reason": problem.reason(),
        });
        if let (Some(url), Value::Object(members)) = (&self.documentation, &mut told) {
            members.insert("type".to_owned(), url.clone().into());
        }
        told
    }
}

impl Dialect for HttpDialect {
    fn has_keys(&self, request: &Parts) -> bool {
        self.methods.contains(&request.method)
    }

    fn key(&self, headers: &HeaderMap) -> Result<Option<String>, Problem> {
        key::read(headers, self.notation)
    }

    fn fingerprint(
        &self,
        operation: &str,
        request: &Parts,
        body: &Bytes,
    ) -> Result<Fingerprint, Problem> {
        let target = target(request, &self.told_apart_by);
        let intent = Intent::new(operation, &target);
        if is_json(&request.headers) && !self.exact_bodies {
            let left_out: Vec<&str> = self.left_out.iter().map(String::as_str).collect();
            let canonical = serde_json::from_slice::<Value>(body)
                .ok()
                .and_then(|value| intent.json_without(&value, &left_out).ok());
            if let Some(fingerprint) = canonical {
                return Ok(fingerprint);
            }
        }
        Ok(intent.bytes(body))
    }

    fn prepare(&self, _request: &mut Parts) {}

    fn verdict<B>(&self, answer: &Response<AnswerBody<B>>) -> Verdict {
        (self.classify)(answer.status(), answer.headers())
    }

    fn store<B>(&self, answer: &Response<AnswerBody<B>>) -> Option<keys::Response> {
        let (body, _) = answer.body().all()?;
        let mut stored = keys::Response::new(answer.status().as_u16().into(), body.clone());
        if let Some(kind) = answer.headers().get(CONTENT_TYPE) {
            let kind = kind.to_str().ok().filter(|kind| kind.len() <= CONTENT_TYPE_MAX_BYTES)?;
            stored = stored.content_type(kind);
        }
        let chosen = answer.headers().iter().filter(|(name, _)| self.stored.contains(name));
        headers::add(&mut stored, "", chosen).then_some(stored)
    }

    fn replay<B>(&self, stored: &keys::Response) -> Option<Response<AnswerBody<B>>> {
        let mut answer = Response::new(AnswerBody::whole(stored.bytes()?.clone(), None));
        *answer.status_mut() = StatusCode::from_u16(stored.status.try_into().ok()?).ok()?;
        let headers = answer.headers_mut();
        if !stored.content_type.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_str(&stored.content_type).ok()?);
        }
        for (name, value) in &stored.metadata {
            headers::put(headers, name, value).then_some(())?;
        }
        headers.insert(self.replayed.clone(), HeaderValue::from_static("true"));
        Some(answer)
    }

    fn refuse<B>(&self, problem: &Problem) -> Response<AnswerBody<B>> {
        let status = status(problem);
        let body = self.describe(problem, status).to_string();
        let mut answer = Response::new(AnswerBody::whole(body.into(), None));
        *answer.status_mut() = status;
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(after) = problem.retry_after() {
            headers.insert(RETRY_AFTER, whole_seconds(after).into());
        }
        let link = self.documentation.as_ref().map(|url| format!("<{url}>; rel=\"describedby\""));
        if let Some(link) = link.and_then(|link| HeaderValue::try_from(link).ok()) {
            headers.insert(LINK, link);
        }
        answer
    }
}

impl<B: From<Bytes>> RequestBody<B> for HttpDialect {
    fn body(bytes: Bytes) -> B {
        B::from(bytes)
    }
}

impl std::fmt::Debug for HttpDialect {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("HttpDialect")
            .field("methods", &self.methods)
            .field("notation", &self.notation)
            .field("stored", &self.stored)
            .finish_non_exhaustive()
    }
}

/// What a status means, if the handler does not say more:
///
/// | status | verdict |
/// |---|---|
/// | 2xx, 3xx | succeeded |
/// | 401, 425, 429 | not done: it was turned away |
/// | 408 | unknown: it is what a timeout inside of the layer answers |
/// | other 4xx | failed for good |
/// | 5xx, 503 among them | unknown: something failed after the handler began |
#[must_use]
pub fn verdict_of_status(status: StatusCode) -> Verdict {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS => {
            Verdict::NotDone
        }
        StatusCode::REQUEST_TIMEOUT => Verdict::Unknown,
        _ if status.is_success() || status.is_redirection() => Verdict::Succeeded,
        _ if status.is_client_error() => Verdict::FailedFinal,
        _ => Verdict::Unknown,
    }
}

/// The name of a route as an operation: `POST` and `/charges/{id}/refund` make `POST:/charges/:id/refund`.
/// What no operation's name may have in it becomes `-`.
#[must_use]
pub fn operation_of_route(method: &Method, template: &str) -> String {
    let letter = |letter: char| match letter {
        '{' => Some(':'),
        '}' => None,
        letter if letter.is_ascii_alphanumeric() || "._:/-".contains(letter) => Some(letter),
        _ => Some('-'),
    };
    format!("{method}:{}", template.chars().filter_map(letter).collect::<String>())
}

/// The method, the path with its query, and headers, each on a line of its own: none of them can hold the end
/// of one.
fn target(request: &Parts, told_apart_by: &[HeaderName]) -> String {
    let path = request.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut target = format!("{} {path}", request.method);
    for name in told_apart_by {
        for value in request.headers.get_all(name) {
            target = format!("{target}\n{name}: {}", value.as_bytes().escape_ascii());
        }
    }
    target
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || essence.ends_with("+json")
}

const fn status(problem: &Problem) -> StatusCode {
    match problem {
        Problem::KeyMissing | Problem::KeyInvalid(_) | Problem::BodyUnread | Problem::NotUnary => {
            StatusCode::BAD_REQUEST
        }
        Problem::BodyTooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
        Problem::Mismatch => StatusCode::UNPROCESSABLE_ENTITY,
        Problem::InProgress(_) | Problem::TakenOver | Problem::Unknown => StatusCode::CONFLICT,
        Problem::TimedOut | Problem::DeadlinePast => StatusCode::GATEWAY_TIMEOUT,
        Problem::AnswerOmitted | Problem::Expired => StatusCode::GONE,
        Problem::Unreachable(_) | Problem::Full => StatusCode::SERVICE_UNAVAILABLE,
        Problem::Misconfigured => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

const fn title(problem: &Problem) -> &'static str {
    match problem {
        Problem::KeyMissing => "Idempotency-Key is missing",
        Problem::KeyInvalid(_) => "Idempotency-Key is malformed",
        Problem::BodyTooLarge(_) => "The request is too large",
        Problem::BodyUnread => "The request is incomplete",
        Problem::NotUnary => "The request is a stream",
        Problem::Mismatch => "Idempotency-Key is already used",
        Problem::InProgress(_) | Problem::TakenOver => {
            "A request is outstanding for this Idempotency-Key"
        }
        Problem::Unknown | Problem::TimedOut => "The outcome of this Idempotency-Key is not known",
        Problem::DeadlinePast => "No time is left for the request",
        Problem::AnswerOmitted => "The answer is not stored",
        Problem::Expired => "Idempotency-Key has expired",
        Problem::Unreachable(_) => "Idempotency-Key can not be looked up",
        Problem::Full => "Too many requests",
        Problem::Misconfigured => "The service is misconfigured",
    }
}

/// As `Retry-After` has it: never sooner than asked for, and not at once.
fn whole_seconds(after: Duration) -> u64 {
    after.as_secs().saturating_add(u64::from(after.subsec_nanos() > 0)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_no_more_than_is_known() {
        for (verdict, statuses) in [
            (Verdict::Succeeded, &[200, 201, 204, 303][..]),
            (Verdict::FailedFinal, &[400, 402, 403, 404, 409, 422]),
            (Verdict::NotDone, &[401, 425, 429]),
            (Verdict::Unknown, &[408, 500, 502, 503, 504]),
        ] {
            for status in statuses {
                let status = StatusCode::from_u16(*status).unwrap();
                assert_eq!(verdict_of_status(status), verdict, "{status}");
            }
        }
    }

    #[test]
    fn a_route_is_an_operation() {
        let name = operation_of_route(&Method::POST, "/charges/{id}/refund");
        assert_eq!(name, "POST:/charges/:id/refund");
        assert_eq!(operation_of_route(&Method::PATCH, "/a b/{*rest}"), "PATCH:/a-b/:-rest");
    }

    fn print(body: &'static str, change: impl FnOnce(&mut Parts)) -> Fingerprint {
        let (mut parts, ()) = http::Request::post("/charges?dry=1")
            .header(CONTENT_TYPE, "application/json; charset=utf-8")
            .header("x-version", "1")
            .body(())
            .unwrap()
            .into_parts();
        change(&mut parts);
        let dialect = HttpDialect::default()
            .told_apart_by(HeaderName::from_static("x-version"))
            .leaving_out("/trace");
        dialect.fingerprint("charge", &parts, &Bytes::from_static(body.as_bytes())).unwrap()
    }

    #[test]
    fn requests_are_the_same_if_they_mean_the_same() {
        let first = print(r#"{"a": 1, "b": 2, "trace": "x"}"#, |_| {});
        assert_eq!(first, print(r#"{"b":2.0,"trace":"y","a":1}"#, |_| {}));
        let others = [
            print(r#"{"a": 2, "b": 2}"#, |_| {}),
            print(r#"{"a": 1, "b": 2}"#, |parts| parts.method = Method::PATCH),
            print(r#"{"a": 1, "b": 2}"#, |parts| parts.uri = "/charges".parse().unwrap()),
            print(r#"{"a": 1, "b": 2}"#, |parts| {
                parts.headers.insert("x-version", HeaderValue::from_static("2"));
            }),
            print(r#"{"a": 1, "b": 2}"#, |parts| {
                parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
            }),
        ];
        for other in others {
            assert_ne!(first, other);
        }
        // What is no JSON after all is compared byte for byte.
        assert_eq!(print("{broken", |_| {}), print("{broken", |_| {}));
        assert_ne!(print("{broken", |_| {}), print("{broken ", |_| {}));
    }

    #[test]
    fn retry_after_is_never_too_soon() {
        for (ms, seconds) in [(0, 1), (1, 1), (1_000, 1), (1_001, 2), (29_999, 30)] {
            assert_eq!(whole_seconds(Duration::from_millis(ms)), seconds);
        }
    }
}
