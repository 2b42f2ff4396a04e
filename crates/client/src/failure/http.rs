//! What an answer of HTTP says.

use std::time::{Duration, SystemTime};

use http::header::{DATE, RETRY_AFTER};
use http::{HeaderMap, StatusCode};

use super::{Failure, FailureKind};

/// Tells what a status and its headers say. `None`: no failure.
///
/// A `Retry-After` that names a moment is measured from the answer's own `Date`; without one it can't be
/// used.
#[must_use]
pub fn failure_of_http(status: StatusCode, headers: &HeaderMap) -> Option<Failure> {
    let delay = retry_after(headers);
    kind(status, delay.is_some()).map(|kind| Failure::of(kind).with_delay(delay))
}

fn kind(status: StatusCode, is_asked_back: bool) -> Option<FailureKind> {
    Some(match status.as_u16() {
        ..400 => return None,
        425 | 429 => FailureKind::Throttled,
        503 if is_asked_back => FailureKind::Throttled,
        408 | 502..=504 => FailureKind::UnknownOutcome,
        409 => FailureKind::InProgress,
        499 => FailureKind::Cancelled,
        400..=499 | 501 | 505 => FailureKind::Rejected,
        _ => FailureKind::ServerError,
    })
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let moment = httpdate::parse_http_date(text).ok()?;
    let date: SystemTime = httpdate::parse_http_date(headers.get(DATE)?.to_str().ok()?).ok()?;
    Some(moment.duration_since(date).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn failure(status: u16, headers: &[(http::HeaderName, &str)]) -> Option<Failure> {
        let pairs = headers.iter().cloned();
        let map = pairs.map(|(name, value)| (name, HeaderValue::from_str(value).unwrap()));
        failure_of_http(StatusCode::from_u16(status).unwrap(), &map.collect())
    }

    #[test]
    fn a_status_says_whether_the_work_was_done() {
        use FailureKind::{
            Cancelled, InProgress, Rejected, ServerError, Throttled, UnknownOutcome,
        };
        let table: [(FailureKind, &[u16]); 6] = [
            (Throttled, &[425, 429]),
            (UnknownOutcome, &[408, 502, 503, 504]),
            (ServerError, &[500, 506, 507, 508, 520, 599]),
            (Rejected, &[400, 401, 403, 404, 405, 410, 412, 413, 422, 431, 501, 505]),
            (InProgress, &[409]),
            (Cancelled, &[499]),
        ];
        for (kind, statuses) in table {
            for status in statuses {
                assert_eq!(failure(*status, &[]), Some(Failure::of(kind)), "{status}");
            }
        }
        for status in [100, 200, 201, 204, 301, 304] {
            assert_eq!(failure(status, &[]), None, "{status}");
        }
    }

    #[test]
    fn a_service_that_says_when_to_come_back_has_turned_the_request_away() {
        let after = |text| failure(503, &[(RETRY_AFTER, text)]).unwrap();
        assert_eq!(after("7").kind, FailureKind::Throttled);
        assert_eq!(after("7").server_delay, Some(Duration::from_secs(7)));
        assert_eq!(after("soon"), Failure::of(FailureKind::UnknownOutcome));
    }

    #[test]
    fn a_moment_is_measured_from_the_answers_own_date() {
        let moment = "Sun, 06 Nov 1994 08:50:07 GMT";
        let dated = |date| failure(429, &[(RETRY_AFTER, moment), (DATE, date)]).unwrap();
        let seconds = dated("Sun, 06 Nov 1994 08:49:37 GMT").server_delay;
        assert_eq!(seconds, Some(Duration::from_secs(30)));
        let past = dated("Sun, 06 Nov 1994 09:00:00 GMT").server_delay;
        assert_eq!(past, Some(Duration::ZERO));
        assert_eq!(failure(429, &[(RETRY_AFTER, moment)]).unwrap().server_delay, None);
    }
}
