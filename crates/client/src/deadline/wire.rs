//! How a deadline travels: as the time that is left when a request is sent.
//!
//! | protocol | header | value |
//! |---|---|---|
//! | gRPC | `grpc-timeout` | as gRPC has it: up to 8 digits and a unit |
//! | HTTP | `x-deadline-ms` | whole milliseconds, rounded down |
//!
//! Both are relative, so the clocks of caller and callee need not agree; the way itself is not counted.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::Deadline;

/// What is left of the operation's deadline, in milliseconds, in requests of HTTP.
pub const DEADLINE_HEADER: HeaderName = HeaderName::from_static("x-deadline-ms");

/// The same in gRPC.
pub const GRPC_TIMEOUT_HEADER: HeaderName = HeaderName::from_static("grpc-timeout");

/// The most digits of a `grpc-timeout`.
const DIGITS_MAX: u128 = 99_999_999;

/// The units of a `grpc-timeout`, each with its nanoseconds, finest first.
const UNITS: [(char, u128); 6] = [
    ('n', 1),
    ('u', 1_000),
    ('m', 1_000_000),
    ('S', 1_000_000_000),
    ('M', 60_000_000_000),
    ('H', 3_600_000_000_000),
];

/// Writes what is left into a request of HTTP, unless less is written there.
pub fn write_http(headers: &mut HeaderMap, left: Duration) {
    if http_left(headers).is_none_or(|written| left < written) {
        let ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        headers.insert(DEADLINE_HEADER, HeaderValue::from(ms));
    }
}

/// Writes what is left into a request of gRPC, unless less is written there.
pub fn write_grpc(headers: &mut HeaderMap, left: Duration) {
    if grpc_left(headers).is_none_or(|written| left < written)
        && let Ok(value) = HeaderValue::from_str(&grpc_timeout(left))
    {
        headers.insert(GRPC_TIMEOUT_HEADER, value);
    }
}

/// For servers: the deadline of a request that just arrived, the earlier if both headers are there. `None`
/// if there is neither, or none that can be read.
///
/// ```
/// use semel_client::{Deadline, deadline::wire};
///
/// # async fn handle(request: http::Request<()>) {}
/// # async fn serve(request: http::Request<()>) {
/// match wire::read(request.headers()) {
///     Some(deadline) => deadline.scope(handle(request)).await,
///     None => handle(request).await,
/// }
/// # }
/// ```
#[must_use]
pub fn read(headers: &HeaderMap) -> Option<Deadline> {
    [http_left(headers), grpc_left(headers)].into_iter().flatten().min().map(Deadline::within)
}

fn http_left(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(DEADLINE_HEADER)?.to_str().ok()?;
    text.parse().ok().map(Duration::from_millis)
}

fn grpc_left(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(GRPC_TIMEOUT_HEADER)?.to_str().ok()?;
    let unit = text.chars().last()?;
    let (_, ns) = UNITS.into_iter().find(|(letter, _)| *letter == unit)?;
    let count: u32 = text.strip_suffix(unit)?.parse().ok()?;
    let ns = ns * u128::from(count);
    u64::try_from(ns).ok().map(Duration::from_nanos).or(Some(Duration::MAX))
}

/// The finest unit that the digits allow: rounded down, so that no callee is given more than there is.
fn grpc_timeout(left: Duration) -> String {
    let ns = left.as_nanos();
    let fits = UNITS.into_iter().find(|(_, unit)| ns / unit <= DIGITS_MAX);
    let (letter, unit) = fits.unwrap_or(('H', 3_600_000_000_000));
    format!("{}{letter}", (ns / unit).min(DIGITS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_written_is_read_back_in_both_protocols() {
        let left = Duration::from_millis(12_345);
        for write in [write_http, write_grpc] {
            let mut headers = HeaderMap::new();
            write(&mut headers, left);
            assert_eq!(read(&headers).map(Deadline::left), Some(left));
        }
    }

    #[test]
    fn a_shorter_one_that_is_there_stays() {
        for write in [write_http, write_grpc] {
            let mut headers = HeaderMap::new();
            write(&mut headers, Duration::from_secs(1));
            let before = headers.clone();
            write(&mut headers, Duration::from_secs(2));
            assert_eq!(headers, before);
            write(&mut headers, Duration::from_millis(500));
            assert_ne!(headers, before);
        }
    }

    #[test]
    fn a_grpc_timeout_has_eight_digits_at_the_most_and_never_says_more_than_is_left() {
        let cases = [
            (Duration::ZERO, "0n"),
            (Duration::from_millis(50), "50000000n"),
            (Duration::from_millis(100), "100000u"),
            (Duration::from_secs(100), "100000m"),
            (Duration::from_nanos(99_999_999_999_999), "99999999u"),
            (Duration::from_secs(99_999_999), "99999999S"),
            (Duration::MAX, "99999999H"),
        ];
        for (left, expected) in cases {
            let text = grpc_timeout(left);
            assert!(text.len() <= 9, "{text}");
            if left < Duration::from_secs(60) {
                assert_eq!(text, expected);
            }
        }
    }

    #[test]
    fn nonsense_is_no_deadline() {
        for text in ["", "5", "x", "m", "-1m", "123456789012S", "1.5S"] {
            let mut headers = HeaderMap::new();
            headers.insert(GRPC_TIMEOUT_HEADER, HeaderValue::from_str(text).unwrap());
            assert_eq!(grpc_left(&headers), None, "{text}");
            headers.insert(DEADLINE_HEADER, HeaderValue::from_str("soon").unwrap());
            assert_eq!(http_left(&headers), None);
        }
    }
}
