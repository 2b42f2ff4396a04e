//! What the tests share: a node over a store in memory, its client, and the pieces below.

#![allow(dead_code, unused_imports, reason = "each test program uses its own part of this")]

mod caller;
mod observed;
mod refused;
mod requests;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use semel_server::{Node, NodeOptions};
use semel_store::{Clock, ManualClock, SystemClock};
use tokio::sync::oneshot;
use tonic::transport::{Channel, Endpoint};

pub(crate) use caller::{Caller, RetriesCaller};
pub(crate) use observed::Observed;
pub(crate) use refused::{Refused, status_of};
pub(crate) use requests::*;

/// What no test needs, however slow the machine: who waits longer, waits for ever.
const PATIENCE: Duration = Duration::from_secs(30);

/// Noon of a day on which nothing happened: where manual clocks start.
pub(crate) const NOON_US: u64 = 1_800_000_000_000_000;

/// A node, its store, and a client with a connection of its own.
pub(crate) struct TestNode {
    node: Node,
    pub(crate) store: Observed,
    pub(crate) keys: Caller,
    pub(crate) retries: RetriesCaller,
}

impl TestNode {
    /// A node on the machine's clock over an empty store.
    pub(crate) async fn start() -> Self {
        Self::with(|_| {}).await
    }

    /// The same, with other options.
    pub(crate) async fn with(change: impl FnOnce(&mut NodeOptions)) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        Self::over(Observed::new(Arc::clone(&clock)), clock, change).await
    }

    /// A node whose clock, which is the store's too, is moved by the test.
    pub(crate) async fn manual(change: impl FnOnce(&mut NodeOptions)) -> (Self, ManualClock) {
        let clock = ManualClock::new(NOON_US);
        let shared: Arc<dyn Clock> = Arc::new(clock.clone());
        let node = Self::over(Observed::new(Arc::clone(&shared)), shared, change).await;
        (node, clock)
    }

    /// A node over a store that is there already.
    pub(crate) async fn over(
        store: Observed,
        clock: Arc<dyn Clock>,
        change: impl FnOnce(&mut NodeOptions),
    ) -> Self {
        let mut options = NodeOptions {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            serving_threads: 2,
            ..NodeOptions::default()
        };
        change(&mut options);
        // A node's name is made of its seed: no two nodes of a test may share one.
        static SEED: AtomicU64 = AtomicU64::new(7);
        let seed = SEED.fetch_add(1, Ordering::Relaxed);
        let node = Node::start(Arc::new(store.clone()), clock, seed, options).expect("starts");
        let channel = channel(node.local_addr()).await;
        let (keys, retries) = (Caller::on(channel.clone()), RetriesCaller::on(channel));
        Self { node, store, keys, retries }
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.node.local_addr()
    }

    /// Ends the node, and waits for that without holding up the test's own calls.
    pub(crate) async fn shutdown(self) {
        let (ended, end) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .spawn(move || {
                self.node.shutdown();
                let _ = ended.send(());
            })
            .expect("a thread");
        within(end).await.expect("the node ended");
        thread.join().expect("shutdown does not panic");
    }
}

/// A connection to a node.
pub(crate) async fn channel(address: SocketAddr) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
    within(endpoint.connect()).await.expect("a node listens")
}

/// Waits for `future`, but not for ever.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("what the test waits for happens")
}

/// A call with a deadline.
pub(crate) fn timed<T>(message: T, timeout: Duration) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.set_timeout(timeout);
    request
}

/// What was left of the deadline, as a reply or a refusal says it.
pub(crate) fn remaining_ms(metadata: &tonic::metadata::MetadataMap) -> Option<u64> {
    let text = metadata.get("semel-remaining-ms")?.to_str().expect("text");
    Some(text.parse().expect("a number"))
}

/// Microseconds since the Unix epoch, by the machine's clock.
pub(crate) fn machine_us() -> u64 {
    SystemClock.now_us()
}

/// The microseconds of a wire time.
pub(crate) fn time_us(time: Option<prost_types::Timestamp>) -> u64 {
    let time = time.expect("a time");
    u64::try_from(time.seconds).expect("since 1970") * 1_000_000
        + u64::try_from(time.nanos).expect("not negative") / 1_000
}

/// A wire duration.
pub(crate) fn duration(wire: Option<prost_types::Duration>) -> Duration {
    Duration::try_from(wire.expect("a duration")).expect("not negative")
}
