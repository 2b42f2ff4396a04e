//! What the layers have to know of requests and answers.
//!
//! | protocol | requests | answers |
//! |---|---|---|
//! | [`Http`] | `http::Request<B>` | `http::Response<_>`: status, `Retry-After` |
//! | [`Grpc`] | the same, as tonic sends it | the status in the head of the answer, or in its [trailers](super::grpc) |
//! | [`Calls`] | any value | told by functions |

mod calls;
mod criticality;
mod grpc;
mod http;

use std::time::Duration;

use ::http::HeaderMap;

pub use self::calls::Calls;
pub use self::criticality::{CRITICALITY_HEADER, Criticality, CriticalityScoped};
pub use self::grpc::Grpc;
pub use self::http::{Http, IDEMPOTENCY_KEY_HEADER, Repeatable, SendOnce};
use crate::deadline::wire::write_http;
use crate::failure::Classify;

/// What a layer may do with a request.
pub trait RequestPolicy<R> {
    /// Whether doing it twice does no harm: it has an idempotency key, or is idempotent by nature.
    fn is_repeatable(&self, request: &R) -> bool;

    /// A copy to be sent again. `None`: it can be sent only once.
    fn copy(&self, request: &R) -> Option<R>;

    /// How much it matters. `None`: it does not say; as much as [what it is made for](Criticality::current).
    fn criticality(&self, request: &R) -> Option<Criticality> {
        let _ = request;
        None
    }

    /// Its headers. `None`: it has none, and carries neither deadline nor root nor how much it matters.
    fn headers<'a>(&self, request: &'a mut R) -> Option<&'a mut HeaderMap> {
        let _ = request;
        None
    }

    /// Writes what is left of the deadline.
    fn write_deadline(&self, headers: &mut HeaderMap, left: Duration) {
        write_http(headers, left);
    }
}

/// All that the layers have to know.
pub trait Protocol<R, T>: RequestPolicy<R> + Classify<T> + Clone + Send + Sync + 'static {}

impl<R, T, P> Protocol<R, T> for P where
    P: RequestPolicy<R> + Classify<T> + Clone + Send + Sync + 'static
{
}
