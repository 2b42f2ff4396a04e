//! What a status of gRPC says.

use std::error::Error;
use std::time::Duration;

use http::HeaderMap;
use tonic::metadata::MetadataMap;
use tonic::{Code, ConnectError, Status};
use tonic_types::StatusExt;

use super::{Failure, FailureKind, failure_of_http};

/// When to send a call again, or not to, in the trailers of its answer: gRFC A6.
pub(crate) const PUSHBACK: &str = "grpc-retry-pushback-ms";

/// Tells what the head of an answer of gRPC says. `None`: no failure, or none that can be seen yet: a
/// status that comes after messages is in the trailers, and nobody may send a call again whose messages were
/// already handed on.
#[must_use]
pub fn failure_of_grpc(status: http::StatusCode, headers: &HeaderMap) -> Option<Failure> {
    match Status::from_header_map(headers) {
        Some(status) => failure_of_status(&status),
        // A proxy that does not speak gRPC.
        None => failure_of_http(status, headers),
    }
}

/// Tells what a status says. `None`: it is OK.
#[must_use]
pub fn failure_of_status(status: &Status) -> Option<Failure> {
    let delay = status.get_details_retry_info().and_then(|info| info.retry_delay);
    let kind = match status.code() {
        Code::Ok => return None,
        Code::Unavailable if is_unconnected(status) => FailureKind::NotSent,
        Code::ResourceExhausted => FailureKind::Throttled,
        Code::Unavailable if delay.is_some() => FailureKind::Throttled,
        Code::Unavailable | Code::DeadlineExceeded => FailureKind::UnknownOutcome,
        Code::Internal | Code::Unknown | Code::DataLoss => FailureKind::ServerError,
        Code::Aborted => FailureKind::InProgress,
        Code::Cancelled => FailureKind::Cancelled,
        Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::Unauthenticated => FailureKind::Rejected,
    };
    let failure = Failure::of(kind).with_delay(delay);
    Some(match pushback(status.metadata()) {
        None => failure,
        // A delay is no word on the work: the kind stays.
        Some(Pushback::After(asked)) => failure.with_delay(delay.max(Some(asked))),
        Some(Pushback::Never) => failure.forbidding_retries(),
    })
}

enum Pushback {
    After(Duration),
    Never,
}

/// What is no number of milliseconds, or is said twice, means "never", as a negative number does.
fn pushback(metadata: &MetadataMap) -> Option<Pushback> {
    let mut values = metadata.get_all(PUSHBACK).iter();
    let text = values.next()?.to_str().ok().filter(|_| values.next().is_none());
    let ms = text.and_then(|text| text.parse().ok());
    Some(ms.map_or(Pushback::Never, |ms| Pushback::After(Duration::from_millis(ms))))
}

/// Whether the same request would be refused for ever.
pub(crate) const fn is_final(code: Code) -> bool {
    matches!(
        code,
        Code::InvalidArgument
            | Code::FailedPrecondition
            | Code::NotFound
            | Code::OutOfRange
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::Unimplemented
    )
}

/// Whether the status was made here, for want of a connection.
fn is_unconnected(status: &Status) -> bool {
    let mut source = status.source();
    while let Some(error) = source {
        if error.is::<ConnectError>() {
            return true;
        }
        source = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use tonic_types::ErrorDetails;

    use super::*;

    fn of(code: Code) -> Option<FailureKind> {
        failure_of_status(&Status::new(code, "no")).map(|failure| failure.kind)
    }

    #[test]
    fn a_code_says_whether_the_work_was_done() {
        use FailureKind::{
            Cancelled, InProgress, Rejected, ServerError, Throttled, UnknownOutcome,
        };
        let table: [(FailureKind, &[Code]); 6] = [
            (Throttled, &[Code::ResourceExhausted]),
            (UnknownOutcome, &[Code::DeadlineExceeded, Code::Unavailable]),
            (ServerError, &[Code::Internal, Code::Unknown, Code::DataLoss]),
            (InProgress, &[Code::Aborted]),
            (Cancelled, &[Code::Cancelled]),
            (
                Rejected,
                &[
                    Code::InvalidArgument,
                    Code::Unauthenticated,
                    Code::PermissionDenied,
                    Code::NotFound,
                    Code::FailedPrecondition,
                    Code::AlreadyExists,
                    Code::OutOfRange,
                    Code::Unimplemented,
                ],
            ),
        ];
        for (kind, codes) in table {
            for code in codes {
                assert_eq!(of(*code), Some(kind), "{code:?}");
            }
        }
        assert_eq!(of(Code::Ok), None);
    }

    #[test]
    fn a_status_with_retry_info_was_turned_away_for_that_long() {
        let wait = Duration::from_secs(3);
        let details = ErrorDetails::with_retry_info(Some(wait));
        let status = Status::with_error_details(Code::Unavailable, "later", details);
        let expected = Failure::of(FailureKind::Throttled).with_delay(Some(wait));
        assert_eq!(failure_of_status(&status), Some(expected));
        let head = status.into_http::<()>();
        assert_eq!(failure_of_grpc(StatusCode::OK, head.headers()), Some(expected));
    }

    #[test]
    fn a_server_says_when_a_call_may_be_sent_again_and_that_it_may_not() {
        let pushed = |texts: &[&'static str], retry_info| {
            let details = ErrorDetails::with_retry_info(retry_info);
            let mut status = Status::with_error_details(Code::Aborted, "later", details);
            for text in texts {
                status.metadata_mut().append(PUSHBACK, text.parse().unwrap());
            }
            let failure = failure_of_status(&status).unwrap();
            let head = status.into_http::<()>();
            assert_eq!(failure_of_grpc(StatusCode::OK, head.headers()), Some(failure));
            assert_eq!(failure.kind, FailureKind::InProgress);
            (failure.server_delay, failure.forbids_retries)
        };
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!(pushed(&[], None), (None, false));
        assert_eq!(pushed(&["0"], None), (ms(0), false));
        assert_eq!(pushed(&["1500"], None), (ms(1_500), false));
        assert_eq!(pushed(&["1500"], ms(2_000)), (ms(2_000), false), "the longer one");
        assert_eq!(pushed(&["1500"], ms(1_000)), (ms(1_500), false));
        for never in [&["-1"][..], &["soon"], &[""], &["1.5"], &["10", "20"]] {
            assert!(pushed(never, None).1, "{never:?}");
        }
        let unavailable = |text: &'static str| {
            let mut status = Status::unavailable("later");
            status.metadata_mut().insert(PUSHBACK, text.parse().unwrap());
            failure_of_status(&status).unwrap().kind
        };
        assert_eq!(unavailable("5"), FailureKind::UnknownOutcome, "it may have been carried out");
    }

    #[test]
    fn an_unconnected_channel_sent_nothing() {
        let error = ConnectError("refused".into());
        let status = Status::from_error(Box::new(error));
        assert_eq!(status.code(), Code::Unavailable);
        assert_eq!(failure_of_status(&status), Some(Failure::of(FailureKind::NotSent)));
    }

    #[test]
    fn the_head_of_an_answer_is_enough_when_it_has_a_status() {
        assert_eq!(failure_of_grpc(StatusCode::OK, &HeaderMap::new()), None);
        let proxy = failure_of_grpc(StatusCode::BAD_GATEWAY, &HeaderMap::new());
        assert_eq!(proxy, Some(Failure::of(FailureKind::UnknownOutcome)));
    }
}
