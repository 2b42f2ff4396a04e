//! A call with its times, and what may be concluded from its answer.

use std::future::Future;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use semel_proto::v1::breakers_client::BreakersClient;
use semel_proto::v1::keys_client::KeysClient;
use semel_proto::v1::retries_client::RetriesClient;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};

use crate::support::ask::reason;

/// How much later than its deadline a call is given up by the test itself.
const GRACE: Duration = Duration::from_millis(250);

/// Microseconds since this test process first asked: the one clock of all clients.
#[allow(clippy::disallowed_methods, reason = "a test of real time reads a real clock")]
pub(crate) fn now_us() -> u64 {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    let since = BEGIN.get_or_init(Instant::now).elapsed();
    u64::try_from(since.as_micros()).unwrap()
}

pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap()
}

/// A duration of the contract, in microseconds.
pub(crate) fn proto_us(duration: Option<prost_types::Duration>) -> u64 {
    duration.map_or(0, |it| micros(it.try_into().unwrap()))
}

/// The services of one node, on one connection that is made anew when it breaks.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) keys: KeysClient<Channel>,
    pub(crate) retries: RetriesClient<Channel>,
    pub(crate) breakers: BreakersClient<Channel>,
}

impl Client {
    /// A client of whoever listens at `url` by then.
    pub(crate) fn at(url: &str) -> Self {
        let endpoint = Endpoint::from_shared(url.to_owned()).unwrap();
        let channel = endpoint.connect_timeout(Duration::from_secs(1)).connect_lazy();
        Self {
            keys: KeysClient::new(channel.clone()),
            retries: RetriesClient::new(channel.clone()),
            breakers: BreakersClient::new(channel),
        }
    }
}

/// An answer, and when it was asked for and came.
#[derive(Debug)]
pub(crate) struct Timed<R> {
    pub(crate) began_us: u64,
    pub(crate) ended_us: u64,
    pub(crate) result: Result<R, Status>,
}

impl<R> Timed<R> {
    /// When the answer came, if it told anything.
    pub(crate) fn told_us(&self) -> Option<u64> {
        match &self.result {
            Err(status) if is_unknown(status) => None,
            _ => Some(self.ended_us),
        }
    }
}

/// A request that has so long.
pub(crate) fn within<T>(deadline: Duration, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(deadline);
    request
}

/// Makes a call, and gives it up if it outlives its deadline.
pub(crate) async fn timed<R>(
    deadline: Duration,
    call: impl Future<Output = Result<Response<R>, Status>>,
) -> Timed<R> {
    let began_us = now_us();
    let answer = tokio::time::timeout(deadline + GRACE, call).await;
    let result = match answer {
        Ok(result) => result.map(Response::into_inner),
        Err(_) => Err(Status::deadline_exceeded("given up by the test")),
    };
    Timed { began_us, ended_us: now_us(), result }
}

/// Whether an error leaves open if the call was, or will yet be, carried out.
pub(crate) fn is_unknown(status: &Status) -> bool {
    match status.code() {
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => true,
        // Of the transport; the service's own have a reason.
        Code::Unknown | Code::Internal => reason(status).is_empty(),
        Code::ResourceExhausted => {
            matches!(reason(status).as_str(), "OVERLOADED" | "WAITERS_FULL" | "")
        }
        _ => false,
    }
}
