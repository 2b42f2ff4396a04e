//! One node at a time: for what is bound to the node that gave it, as leases and reports are.
//!
//! It stays at a node for as long as that is well. A node that can't be reached, that says nothing for long or
//! that is about to stop is left for another, for good: it is not gone back to until that one is lost, too. The
//! call that met it fails: its sender knows what may be sent again.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::timeout;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, Request, Response};
use tonic::transport::Channel;
use tonic::{Code, Status, TimeoutExpired};
use tower::{BoxError, Service, ServiceExt};

use super::call::Pool;
use super::client::Client;
use super::nodes::{Node, Transport, choose};
use crate::clock::Stopwatch;

/// How long the head of an answer is waited for unless said otherwise.
const PATIENCE: Duration = Duration::from_secs(1);

/// A channel that stays at one of a client's nodes while that is well, and goes on with another when it is
/// lost. Made by [`Client::sticky_channel`]; a [`Channel`] of tonic is one whose only node is never left.
/// Cheap to clone. A service for tonic's generated clients.
#[derive(Clone)]
pub struct StickyChannel {
    route: Route,
    patience: Duration,
}

#[derive(Clone)]
enum Route {
    One(Transport),
    Pool(Arc<Pool>),
}

impl Client {
    /// A channel to one node at a time, with this client's connections and bearer token. All of a client and its
    /// clones are at the same node: the first is drawn at random, so that a fleet spreads.
    #[must_use]
    pub fn sticky_channel(&self) -> StickyChannel {
        StickyChannel { route: Route::Pool(Arc::clone(&self.pool)), patience: PATIENCE }
    }
}

impl From<Channel> for StickyChannel {
    fn from(channel: Channel) -> Self {
        Self { route: Route::One(Transport::new(channel)), patience: PATIENCE }
    }
}

impl StickyChannel {
    /// Waits no longer than this for the head of an answer. A node that says nothing for so long is lost.
    pub(crate) const fn patient(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }
}

impl Pool {
    fn place(&self, node: &Node) -> Option<usize> {
        self.nodes.iter().position(|known| std::ptr::eq(known, node))
    }

    /// Tells what became of a call to the node at this place, and leaves it if it is lost. Whoever is first
    /// chooses the next for all.
    fn told(&self, place: usize, is_lost: bool) {
        let Some(node) = self.nodes.get(place) else { return };
        if !is_lost {
            return self.answered(node);
        }
        node.failed(None, self.dice.roll());
        let next = choose(&self.nodes, self.dice.roll());
        if let Some(next) = next.and_then(|(node, _)| self.place(node))
            && next != place
            && self
                .current
                .compare_exchange(place, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            tracing::info!(from = place, to = next, "a node is lost: another takes its place");
        }
    }
}

type Answer = Result<Response<Body>, BoxError>;

impl Service<Request<Body>> for StickyChannel {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Answer>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // Which node it is, is decided with the call.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let patience = self.patience;
        match self.route.clone() {
            Route::One(transport) => Box::pin(send(transport, request, patience)),
            Route::Pool(pool) => Box::pin(async move {
                let place = pool.current.load(Ordering::Relaxed);
                let node = pool.nodes.get(place).ok_or("there is no such node")?;
                pool.authorize(request.headers_mut());
                let since = Stopwatch::start();
                let answer = send(node.transport.clone(), request, patience).await;
                pool.told(place, is_lost(&answer, since.elapsed(), patience));
                answer
            }),
        }
    }
}

async fn send(transport: Transport, request: Request<Body>, patience: Duration) -> Answer {
    match timeout(patience, transport.oneshot(request)).await {
        Ok(answer) => answer.map_err(Into::into),
        Err(_) => {
            let text = format!("the node said nothing for {patience:?}");
            Err(Status::deadline_exceeded(text).into())
        }
    }
}

/// Whether the node is not worth asking. One that had little time to answer is not held to be lost.
fn is_lost(answer: &Answer, took: Duration, patience: Duration) -> bool {
    match answer {
        Ok(answer) => is_unavailable(answer.headers()),
        Err(error) => took >= patience / 2 || !is_timeout(&**error),
    }
}

fn is_timeout(error: &(dyn Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| Error::source(*error))
        .any(<dyn Error + 'static>::is::<TimeoutExpired>)
}

/// Whether it refused with its first word, since it is about to stop.
fn is_unavailable(headers: &HeaderMap) -> bool {
    Status::from_header_map(headers).is_some_and(|status| status.code() == Code::Unavailable)
}

impl std::fmt::Debug for StickyChannel {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("StickyChannel").finish_non_exhaustive()
    }
}
