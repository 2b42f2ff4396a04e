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
use tower::{Service, ServiceExt};

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

type Answer = Result<Response<Body>, Status>;

impl Service<Request<Body>> for StickyChannel {
    type Response = Response<Body>;
    type Error = Status;
    type Future = BoxFuture<'static, Answer>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        // Which node it is, is decided with the call.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let patience = self.patience;
        match self.route.clone() {
            Route::One(transport) => Box::pin(async move {
                let End { answer, .. } = send(transport, request, patience).await;
                answer
            }),
            Route::Pool(pool) => Box::pin(async move {
                let place = pool.current.load(Ordering::Relaxed);
                let node = pool.nodes.get(place);
                let node = node.ok_or_else(|| Status::internal("there is no such node"))?;
                pool.authorize(request.headers_mut());
                let End { answer, is_lost } = send(node.transport.clone(), request, patience).await;
                pool.told(place, is_lost);
                answer
            }),
        }
    }
}

/// What became of a call.
struct End {
    answer: Answer,
    /// The node is not worth asking.
    is_lost: bool,
}

async fn send(transport: Transport, request: Request<Body>, patience: Duration) -> End {
    let since = Stopwatch::start();
    match timeout(patience, transport.oneshot(request)).await {
        Ok(Ok(answer)) => {
            let is_lost = is_unavailable(answer.headers());
            End { answer: Ok(answer), is_lost }
        }
        Ok(Err(error)) => {
            // A node that was given little time is not held to be lost.
            let is_lost = since.elapsed() >= patience / 2 || !is_timeout(&error);
            End { answer: Err(Status::from_error(error.into())), is_lost }
        }
        Err(_) => {
            let text = format!("the node said nothing for {patience:?}");
            End { answer: Err(Status::deadline_exceeded(text)), is_lost: true }
        }
    }
}

/// Whether the time was up that the request itself had.
fn is_timeout(error: &(dyn Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| Error::source(*error))
        .any(<dyn Error>::is::<TimeoutExpired>)
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::time::sleep;

    use super::*;

    /// How a node treats a call.
    #[derive(Clone, Copy)]
    enum Mood {
        Well,
        Stopping,
        Silent,
        Slow(Duration),
    }

    #[derive(Default)]
    struct Seen {
        by_node: [u32; 2],
        tokens: Vec<String>,
    }

    /// A client of two nodes, and what they saw.
    fn client(moods: [Mood; 2]) -> (Client, Arc<Mutex<Seen>>) {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let nodes = moods.into_iter().enumerate().map(|(place, mood)| {
            let seen = Arc::clone(&seen);
            let answer = move |request: Request<Body>| {
                let mut seen = seen.lock().unwrap();
                seen.by_node[place] += 1;
                let token = request.headers().get("authorization");
                seen.tokens.extend(token.map(|token| token.to_str().unwrap().to_owned()));
                async move {
                    let answer = Response::new(Body::empty());
                    match mood {
                        Mood::Well => Ok(answer),
                        Mood::Stopping => Ok(Status::unavailable("it stops").into_http()),
                        Mood::Silent => std::future::pending().await,
                        Mood::Slow(wait) => {
                            sleep(wait).await;
                            Ok(answer)
                        }
                    }
                }
            };
            Node::new(Transport::new(tower::service_fn(answer)))
        });
        let builder = Client::builder("acme", [""; 0]).seed([1; 32]).bearer_token("secret");
        let client = builder.over(nodes.collect()).unwrap();
        client.pool.current.store(0, Ordering::Relaxed);
        (client, seen)
    }

    async fn calls(client: &Client, count: u32) {
        for _ in 0..count {
            let _ = client.sticky_channel().oneshot(Request::new(Body::empty())).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_stays_at_a_node_that_is_well_and_shows_the_token() {
        let (client, seen) = client([Mood::Well, Mood::Well]);
        calls(&client, 9).await;
        let seen = seen.lock().unwrap();
        assert_eq!(seen.by_node, [9, 0]);
        assert_eq!(seen.tokens, ["Bearer secret"; 9]);
    }

    #[tokio::test(start_paused = true)]
    async fn it_leaves_a_node_that_stops_or_is_silent_for_good() {
        for mood in [Mood::Stopping, Mood::Silent] {
            let (client, seen) = client([mood, Mood::Well]);
            calls(&client, 5).await;
            sleep(Duration::from_secs(60)).await;
            calls(&client, 4).await;
            assert_eq!(seen.lock().unwrap().by_node, [1, 8]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn of_calls_that_fail_side_by_side_only_the_first_chooses() {
        let (client, seen) = client([Mood::Silent, Mood::Well]);
        tokio::join!(calls(&client, 1), calls(&client, 1), calls(&client, 1));
        calls(&client, 2).await;
        assert_eq!(seen.lock().unwrap().by_node, [3, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_comes_late_is_an_answer() {
        let (slow, seen) = client([Mood::Slow(PATIENCE * 9 / 10), Mood::Well]);
        calls(&slow, 3).await;
        assert_eq!(seen.lock().unwrap().by_node, [3, 0]);
    }

    #[tokio::test]
    async fn who_gave_a_node_little_time_says_nothing_of_it() {
        // Accepts connections by its backlog, and says nothing.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", silent.local_addr().unwrap());
        let client = Client::connect("acme", [address.clone(), address]).unwrap();
        let place = client.pool.current.load(Ordering::Relaxed);
        let mut request = Request::new(Body::empty());
        request.headers_mut().insert("grpc-timeout", "20m".parse().unwrap());
        let answer = client.sticky_channel().oneshot(request).await;
        assert_eq!(answer.unwrap_err().code(), Code::Cancelled);
        assert_eq!(client.pool.current.load(Ordering::Relaxed), place);
    }
}
