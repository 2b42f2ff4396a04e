//! What an error says that stands in the place of an answer.

use std::error::Error;
use std::io::{self, ErrorKind};

use tonic::{ConnectError, Status, TimeoutExpired};

use super::{Failure, FailureKind, failure_of_status};
use crate::layers::Refused;

/// Tells what an error says, by the first in its chain of sources that is known: our own refusals and
/// timeouts, statuses of gRPC, and errors of hyper, hyper-util, h2, tonic, tokio and `std::io`. Clients
/// that are built on those (reqwest is one) have them among their sources.
///
/// What nobody knows has an unknown outcome: only a request that may be repeated is sent again.
#[must_use]
pub fn failure_of_error(error: &(dyn Error + 'static)) -> Failure {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(failure) = known(error) {
            return failure;
        }
        next = source(error);
    }
    Failure::of(FailureKind::UnknownOutcome)
}

/// `io::Error` leaves out the error that it wraps, and names that one's source.
pub(crate) fn source<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}

fn known(error: &(dyn Error + 'static)) -> Option<Failure> {
    if let Some(status) = error.downcast_ref::<Status>() {
        // An OK in an error's place says nothing.
        return failure_of_status(status).or(Some(Failure::of(FailureKind::UnknownOutcome)));
    }
    kind(error).map(Failure::of)
}

fn kind(error: &(dyn Error + 'static)) -> Option<FailureKind> {
    if let Some(refused) = error.downcast_ref::<Refused>() {
        return Some(match refused {
            Refused::TimedOut { .. } => FailureKind::UnknownOutcome,
            _ => FailureKind::NotSent,
        });
    }
    if error.is::<ConnectError>() {
        return Some(FailureKind::NotSent);
    }
    if error.is::<TimeoutExpired>() || error.is::<tokio::time::error::Elapsed>() {
        return Some(FailureKind::UnknownOutcome);
    }
    if let Some(error) = error.downcast_ref::<hyper_util::client::legacy::Error>() {
        return error.is_connect().then_some(FailureKind::NotSent);
    }
    if let Some(error) = error.downcast_ref::<hyper::Error>() {
        // hyper calls a request canceled that it never began to send. All else it met on a connection that stood,
        // whatever the system's own error inside says: on Linux a host that goes away later is unreachable, too.
        let unsent = error.is_canceled().then_some(FailureKind::NotSent);
        return unsent.or_else(|| refused_stream(error)).or(Some(FailureKind::UnknownOutcome));
    }
    if let Some(error) = error.downcast_ref::<h2::Error>() {
        return Some(kind_of_h2(error));
    }
    kind_of_io(error.downcast_ref::<io::Error>()?.kind())
}

fn refused_stream(error: &hyper::Error) -> Option<FailureKind> {
    error.source()?.downcast_ref().map(kind_of_h2)
}

/// A refused stream is the one reason with which a peer promises that it did nothing.
fn kind_of_h2(error: &h2::Error) -> FailureKind {
    let refused = error.reason() == Some(h2::Reason::REFUSED_STREAM);
    if refused && error.is_remote() { FailureKind::NotSent } else { FailureKind::UnknownOutcome }
}

fn kind_of_io(kind: ErrorKind) -> Option<FailureKind> {
    match kind {
        ErrorKind::ConnectionRefused | ErrorKind::AddrNotAvailable | ErrorKind::AddrInUse => {
            Some(FailureKind::NotSent)
        }
        // A connection that stood meets them too, once its peer is gone.
        ErrorKind::HostUnreachable
        | ErrorKind::NetworkUnreachable
        | ErrorKind::NetworkDown
        | ErrorKind::ConnectionReset
        | ErrorKind::ConnectionAborted
        | ErrorKind::BrokenPipe
        | ErrorKind::UnexpectedEof
        | ErrorKind::TimedOut => Some(FailureKind::UnknownOutcome),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use std::time::Duration;

    use super::*;

    #[derive(Debug)]
    struct Wrapped(Box<dyn Error + Send + Sync>);

    impl fmt::Display for Wrapped {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("the call failed")
        }
    }

    impl Error for Wrapped {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&*self.0)
        }
    }

    fn wrapped(error: impl Error + Send + Sync + 'static) -> FailureKind {
        failure_of_error(&Wrapped(Box::new(Wrapped(Box::new(error))))).kind
    }

    #[test]
    fn what_never_left_is_told_from_what_may_have_arrived() {
        assert_eq!(wrapped(io::Error::from(ErrorKind::ConnectionRefused)), FailureKind::NotSent);
        for kind in [
            ErrorKind::ConnectionReset,
            ErrorKind::BrokenPipe,
            ErrorKind::TimedOut,
            ErrorKind::HostUnreachable,
            ErrorKind::NetworkUnreachable,
        ] {
            assert_eq!(wrapped(io::Error::from(kind)), FailureKind::UnknownOutcome);
        }
        assert_eq!(wrapped(ConnectError("TLS failed".into())), FailureKind::NotSent);
        assert_eq!(wrapped(TimeoutExpired(())), FailureKind::UnknownOutcome);
        assert_eq!(wrapped(Status::not_found("gone")), FailureKind::Rejected);
        assert_eq!(wrapped(Status::ok("nothing")), FailureKind::UnknownOutcome);
    }

    #[test]
    fn an_error_inside_of_an_io_error_is_found() {
        let inner = io::Error::other(ConnectError("refused".into()));
        assert_eq!(wrapped(inner), FailureKind::NotSent);
    }

    #[test]
    fn our_own_refusals_sent_nothing_and_our_timeouts_may_have() {
        assert_eq!(wrapped(Refused::DeadlinePast), FailureKind::NotSent);
        let late = Refused::TimedOut { after: Duration::from_secs(1) };
        assert_eq!(wrapped(late), FailureKind::UnknownOutcome);
    }

    #[test]
    fn what_nobody_knows_has_an_unknown_outcome() {
        assert_eq!(wrapped(fmt::Error), FailureKind::UnknownOutcome);
    }

    /// A connection that stands, and whose peer goes away once a request was written.
    #[derive(Default)]
    struct Forsaken {
        is_written: bool,
    }

    impl hyper::rt::Read for Forsaken {
        fn poll_read(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            _: hyper::rt::ReadBufCursor<'_>,
        ) -> Poll<io::Result<()>> {
            if self.is_written {
                return Poll::Ready(Err(ErrorKind::HostUnreachable.into()));
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    }

    impl hyper::rt::Write for Forsaken {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.is_written = true;
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn a_host_that_can_not_be_reached_any_more_may_have_done_it() {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake::<_, String>(Forsaken::default()).await.unwrap();
        let request = http::Request::post("/").header("host", "stripe").body("charge".to_owned());
        let sending = sender.send_request(request.unwrap());
        let (answer, _) = tokio::join!(sending, connection);
        let error = answer.unwrap_err();
        let inside = source(&error).and_then(|inside| inside.downcast_ref::<io::Error>());
        assert_eq!(inside.map(io::Error::kind), Some(ErrorKind::HostUnreachable));
        assert_eq!(failure_of_error(&error).kind, FailureKind::UnknownOutcome);
    }

    #[tokio::test]
    async fn a_refused_connection_and_a_failed_look_up_of_hyper_sent_nothing() {
        use hyper_util::client::legacy::Client;
        use hyper_util::rt::TokioExecutor;
        let client = Client::builder(TokioExecutor::new()).build_http::<String>();
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        for uri in [format!("http://{free}/"), "http://nowhere.invalid/".to_owned()] {
            let error = client.get(uri.parse().unwrap()).await.unwrap_err();
            assert_eq!(failure_of_error(&error).kind, FailureKind::NotSent, "{error:?}");
        }
    }
}
