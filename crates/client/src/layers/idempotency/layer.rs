//! The layer, and what can be chosen.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::request::Parts;
use tokio_util::task::TaskTracker;
use tower::Layer;

use super::grpc::GrpcDialect;
use super::http::HttpDialect;
use super::service::IdempotencyService;
use super::tasks::Tasks;
use crate::connection::Client;
use crate::keys::{Claiming, OnOwnerLost, claim_options};
use crate::metrics::Metrics;

const TIME_LIMIT: Duration = Duration::from_secs(60);
const CLAIM_TIME: Duration = Duration::from_secs(5);
/// What a node keeps of a body unless it is told otherwise.
const BODY_MAX_BYTES: usize = 1024 * 1024;

/// What is read off a request.
pub(super) type Of<T> = Arc<dyn Fn(&Parts) -> T + Send + Sync>;

/// Handles a request with an idempotency key once: see the [module](super). Cheap to clone.
#[derive(Clone)]
#[must_use = "a layer does nothing until it is put around a service"]
pub struct IdempotencyLayer<D> {
    pub(super) dialect: D,
    pub(super) client: Client,
    pub(super) operation: Of<Option<String>>,
    pub(super) tenant: Option<Of<String>>,
    pub(super) caller: Option<Of<String>>,
    pub(super) first_sent: Option<Of<Option<SystemTime>>>,
    pub(super) key_optional: bool,
    pub(super) claiming: Claiming,
    pub(super) time_limit: Duration,
    pub(super) claim_time: Duration,
    pub(super) request_max_bytes: usize,
    pub(super) answer_max_bytes: usize,
    pub(super) unkeyed_without_semel: bool,
    pub(super) tasks: Option<Tasks>,
    pub(super) metrics: Metrics,
}

impl IdempotencyLayer<HttpDialect> {
    /// For a service of HTTP. `operation` names what a request wants done, or says with `None` that it is none
    /// of the layer's business; [`operation_of_route`](super::operation_of_route) makes a name of a route.
    pub fn http(
        client: Client,
        operation: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self::new(HttpDialect::default(), client, Arc::new(operation))
    }
}

impl IdempotencyLayer<GrpcDialect> {
    /// For a server of tonic. `operation` names what a call wants done, or says with `None` that it is none of
    /// the layer's business: name unary methods only, by the path of the URI. A call with a key that is no single
    /// message is refused; an answer of more than one is never replayed.
    ///
    /// The message of an answer is stored as it is encoded, so a recovery worker settles a key with
    /// `Response::new(0, message.encode_to_vec())`. Calls with a key are answered uncompressed; a caller who
    /// compresses has to do it in the same way on every attempt.
    pub fn grpc(
        client: Client,
        operation: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self::new(GrpcDialect::default(), client, Arc::new(operation))
    }
}

impl<D> IdempotencyLayer<D> {
    fn new(dialect: D, client: Client, operation: Of<Option<String>>) -> Self {
        Self {
            dialect,
            client,
            operation,
            tenant: None,
            caller: None,
            first_sent: None,
            key_optional: false,
            claiming: Claiming { on_owner_lost: OnOwnerLost::Block, ..Claiming::default() },
            time_limit: TIME_LIMIT,
            claim_time: CLAIM_TIME,
            request_max_bytes: BODY_MAX_BYTES,
            answer_max_bytes: BODY_MAX_BYTES,
            unkeyed_without_semel: false,
            tasks: None,
            metrics: Metrics::global(),
        }
    }

    claim_options!(claiming: lease, retention, wait);

    /// Speaks the dialect otherwise than by default.
    pub fn dialect(mut self, change: impl FnOnce(D) -> D) -> Self {
        self.dialect = change(self.dialect);
        self
    }

    /// The tenant of a request. Default: the client's. Take it from what was authenticated.
    pub fn tenant_by(mut self, tenant: impl Fn(&Parts) -> String + Send + Sync + 'static) -> Self {
        self.tenant = Some(Arc::new(tenant));
        self
    }

    /// Who asks: equal keys of two callers are two keys then. Take it from what was authenticated, in a layer
    /// outside of this one. Default: all callers are one, and whoever knows a key and its request gets the
    /// answer.
    ///
    /// Semel sees a digest of it, in front of the key, which has 222 bytes at the most then.
    pub fn caller_by(mut self, caller: impl Fn(&Parts) -> String + Send + Sync + 'static) -> Self {
        self.caller = Some(Arc::new(caller));
        self
    }

    /// When the intent was made, if the request tells: [`Once::first_sent`](crate::once::Once::first_sent). With
    /// it, a key that is older than Semel's memory is refused rather than handled a second time.
    pub fn first_sent_by(
        mut self,
        first_sent: impl Fn(&Parts) -> Option<SystemTime> + Send + Sync + 'static,
    ) -> Self {
        self.first_sent = Some(Arc::new(first_sent));
        self
    }

    /// Lets requests without a key through to the handler, as if the layer were not there. Default: they are
    /// refused.
    pub const fn key_optional(mut self) -> Self {
        self.key_optional = true;
        self
    }

    /// How long a request may take in all, unless its own [deadline](super#deadlines) is earlier. A handler that
    /// is not over by then is dropped, and its outcome is unknown. Default: a minute.
    pub const fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// How long Semel may take to answer, beside [`wait`](Self::wait), before it counts as out of reach.
    /// Default: 5 s.
    pub const fn claim_time(mut self, time: Duration) -> Self {
        self.claim_time = time;
        self
    }

    /// What happens to a key if the process is lost midway, or the handler does not know what became of its
    /// work. Default: [`OnOwnerLost::Block`]; its requests are refused until the key is settled, by a
    /// [recovery worker](crate::recovery) or an operator.
    ///
    /// Any other policy is a promise about the handler:
    /// - [`OnOwnerLost::Reconcile`]: it looks at [`Held::disposition`](crate::once::Held::disposition), and if
    ///   that says so, looks whether the work was done before it acts
    /// - [`OnOwnerLost::TakeOver`]: its work is safe to begin again
    pub const fn on_owner_lost(mut self, policy: OnOwnerLost) -> Self {
        self.claiming.on_owner_lost = policy;
        self
    }

    /// The longest body of a request, in bytes: all of it is read before the handler runs. Default: 1 MiB.
    pub const fn request_max_bytes(mut self, most: usize) -> Self {
        self.request_max_bytes = most;
        self
    }

    /// The longest answer that is stored, in bytes: as much is read before any of it is handed on. One that is
    /// longer goes to whoever waits for it, and later attempts are told that it was not stored. Default:
    /// 1 MiB, as at the nodes. The status of gRPC comes after the message, so beyond this the outcome of a call is
    /// unknown.
    pub const fn answer_max_bytes(mut self, most: usize) -> Self {
        self.answer_max_bytes = most;
        self
    }

    /// Handles requests as if they had no key while Semel is out of reach, rather than refuse them: each
    /// attempt may do the work again then, also beside one that has the claim. Default: they are refused.
    pub const fn unkeyed_without_semel(mut self) -> Self {
        self.unkeyed_without_semel = true;
        self
    }

    /// Handles requests in tasks of this tracker, at most so many at once, so that whoever hangs up does not
    /// drop the handler midway: its answer is stored, and the next attempt gets it. What is more is refused.
    ///
    /// The request's own [deadline](super#deadlines) then bounds what its caller waits for, the claim too, but not
    /// the handler: the [time limit](Self::time_limit) does, and is its current deadline.
    ///
    /// When the server has stopped, close the tracker and wait for it.
    pub fn to_the_end(mut self, tracker: TaskTracker, at_most: usize) -> Self {
        self.tasks = Some(Tasks::new(tracker, at_most));
        self
    }

    /// Measures with these instruments. Default: those of the application's meter provider.
    pub fn measured(mut self, metrics: Metrics) -> Self {
        self.metrics = metrics;
        self
    }
}

impl<S, D: Clone> Layer<S> for IdempotencyLayer<D> {
    type Service = IdempotencyService<S, D>;

    fn layer(&self, inner: S) -> Self::Service {
        IdempotencyService::new(inner, Arc::new(self.clone()))
    }
}

impl<D: std::fmt::Debug> std::fmt::Debug for IdempotencyLayer<D> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("IdempotencyLayer")
            .field("dialect", &self.dialect)
            .field("client", &self.client)
            .field("on_owner_lost", &self.claiming.on_owner_lost)
            .finish_non_exhaustive()
    }
}
