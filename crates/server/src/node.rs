//! The threads of a node, its listener, its start and its end.
//!
//! One control thread accepts connections, hands them out in turn and sweeps. Each serving thread has
//! a runtime of its own and keeps its connections for life: a call is read, decided and answered
//! without changing threads, and its reply shares a write with its neighbours'.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use semel_store::{Clock, Store};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tonic_health::server::HealthReporter;

use crate::batcher::Batcher;
use crate::connection::Connection;
use crate::core::Core;
use crate::keys::KeyTransition;
use crate::nodes::Load;
use crate::options::{NodeOptions, OptionsError};
use crate::services::Services;

/// Connections that a serving thread may have waiting to be taken over.
const HANDOVER_MAX: usize = 64;
/// Calls that one connection may have under way.
const STREAMS_PER_CONNECTION_MAX: u32 = 1_024;
/// A connection that does not answer a ping for this long is gone.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// How often an idle connection is pinged.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(60);
/// The pause after an accept failed: the usual reason, too many open files, passes.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A running node. Dropping it without [`Node::shutdown`] closes it as well, but waits for nothing.
#[derive(Debug)]
pub struct Node {
    local_addr: SocketAddr,
    closing: CancellationToken,
    threads: Vec<JoinHandle<()>>,
}

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An option is out of its bounds.
    #[error("option {0}")]
    Options(#[from] OptionsError),
    /// The address can't be listened on.
    #[error("can't listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// A thread or its runtime could not be made.
    #[error("can't start a serving thread: {0}")]
    Thread(io::Error),
    /// The reflection service could not be made of the contract.
    #[error("can't serve reflection: {0}")]
    Reflection(String),
}

impl Node {
    /// Starts to serve `store` and returns when connections are accepted. `seed` feeds the jitter of
    /// hints; it protects nothing.
    ///
    /// # Errors
    ///
    /// [`StartError`]; whatever had been started is then told to end.
    pub fn start<S: Store>(
        store: Arc<S>,
        clock: Arc<dyn Clock>,
        seed: u64,
        options: NodeOptions,
    ) -> Result<Self, StartError> {
        options.check()?;
        let address = options.listen;
        let (listener, local_addr) =
            listen(address).map_err(|source| StartError::Listen { address, source })?;
        let advertised = options.advertised_address.unwrap_or_else(|| local_addr.to_string());
        let options = NodeOptions { advertised_address: Some(advertised), ..options };
        let core = Core::new(store, clock, seed, options)?;
        let (reporter, health) = tonic_health::server::health_reporter();
        let closing = core.closing.clone();
        let serving = Serving { core };
        let mut node = Self { local_addr, closing, threads: Vec::new() };
        let mut handovers = Vec::new();
        for index in 0..serving.core.options.serving_threads {
            let (handover, connections) = mpsc::channel(HANDOVER_MAX);
            handovers.push(handover);
            let lane = serving.core.lane(index);
            let batcher = Arc::clone(&lane.batcher);
            let services = Services::new(lane, health.clone())
                .map_err(|error| StartError::Reflection(error.to_string()))?;
            let serving = serving.clone();
            node.spawn(format!("semel-serve-{index}"), move || {
                serving.serve(services, batcher, connections)
            })?;
        }
        node.spawn("semel-control".to_owned(), move || {
            serving.control(listener, handovers, reporter)
        })?;
        Ok(node)
    }

    /// Where the node listens.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Cancelled when the node closes: since it was told to, or since it can't go on.
    #[must_use]
    pub fn closing(&self) -> CancellationToken {
        self.closing.clone()
    }

    /// Ends the node: new connections are refused, waiters are sent away with SHUTTING_DOWN, and
    /// calls in flight finish, for as long as the grace of its options lasts. Blocks until all
    /// threads have ended.
    pub fn shutdown(mut self) {
        self.closing.cancel();
        for thread in std::mem::take(&mut self.threads) {
            if thread.join().is_err() {
                tracing::error!("a thread of the node had panicked");
            }
        }
    }

    fn spawn<F>(
        &mut self,
        name: String,
        make: impl FnOnce() -> F + Send + 'static,
    ) -> Result<(), StartError>
    where
        F: Future<Output = ()>,
    {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(StartError::Thread)?;
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(move || runtime.block_on(make()))
            .map_err(StartError::Thread)?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

fn listen(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let local_addr = listener.local_addr()?;
    Ok((listener, local_addr))
}

/// A connection on its way to the thread that will serve it.
type Handover = (TcpStream, OwnedSemaphorePermit);

/// A node's core on its threads.
struct Serving<S> {
    core: Core<S>,
}

impl<S> Clone for Serving<S> {
    fn clone(&self) -> Self {
        Self { core: self.core.clone() }
    }
}

impl<S: Store> Serving<S> {
    /// One serving thread: its connections, and the batches of their calls.
    async fn serve(
        self,
        services: Services<S>,
        batcher: Arc<Batcher<KeyTransition>>,
        connections: mpsc::Receiver<Handover>,
    ) {
        let server = Server::builder()
            .max_concurrent_streams(STREAMS_PER_CONNECTION_MAX)
            .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
            .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT));
        let server = server.serve_with_incoming_shutdown(
            services,
            ReceiverStream::new(connections).map(|handover| take_over(handover, &self.core.load)),
            self.core.closing.cancelled(),
        );
        let drained = CancellationToken::new();
        let serving = async {
            if let Err(error) = server.await {
                tracing::error!(%error, "a serving thread ended with an error");
            }
            drained.cancel();
        };
        let work = async {
            tokio::join!(serving, batcher.drive(&*self.core.store, &drained));
        };
        // The grace bounds the store's work as well: a store that hangs must not keep the node.
        let overdue = async {
            self.core.closing.cancelled().await;
            tokio::time::sleep(self.core.options.grace).await;
        };
        tokio::select! {
            () = work => {}
            () = overdue => tracing::warn!("calls were still in flight when the grace ended"),
        }
    }

    /// The control thread: accepts, hands out, sweeps, and says how the node is.
    async fn control(
        self,
        listener: TcpListener,
        handovers: Vec<mpsc::Sender<Handover>>,
        reporter: HealthReporter,
    ) {
        let sweeping = async {
            let report = async |healthy: bool| set_health(&reporter, healthy).await;
            report(true).await;
            self.core.sweep(report).await;
            withdraw_health(reporter.clone()).await;
        };
        tokio::join!(sweeping, self.core.keep(), self.accept(listener, handovers));
    }

    /// Accepts until the node closes. Serving threads take turns, so that a few connections are
    /// spread evenly.
    async fn accept(&self, listener: TcpListener, handovers: Vec<mpsc::Sender<Handover>>) {
        let listener = match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => {
                tracing::error!(%error, "can't accept connections");
                self.core.closing.cancel();
                return;
            }
        };
        let places = Arc::new(Semaphore::new(self.core.options.connections_max));
        for handover in handovers.iter().cycle() {
            let accepted = async {
                let place = Arc::clone(&places).acquire_owned().await.map_err(io::Error::other)?;
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok::<_, io::Error>((stream.into_std()?, place))
            };
            let accepted = tokio::select! {
                () = self.core.closing.cancelled() => return,
                accepted = accepted => accepted,
            };
            match accepted {
                Ok(accepted) => {
                    if handover.send(accepted).await.is_err() {
                        if !self.core.closing.is_cancelled() {
                            // Half a node would look healthy: better none, and health says so.
                            tracing::error!("a serving thread is gone: the node closes");
                            self.core.closing.cancel();
                        }
                        return;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Makes an accepted connection one of the current thread's.
fn take_over((stream, place): Handover, load: &Arc<Load>) -> io::Result<Connection> {
    let stream = tokio::net::TcpStream::from_std(stream)?;
    Ok(Connection::new(stream, place, load.connection()))
}

/// The names under which clients ask for the node's health.
const HEALTH_NAMES: [&str; 5] =
    ["", "semel.v1.Keys", "semel.v1.Retries", "semel.v1.Breakers", "semel.v1.Admin"];

async fn set_health(reporter: &HealthReporter, healthy: bool) {
    use tonic_health::ServingStatus;
    let status = if healthy { ServingStatus::Serving } else { ServingStatus::NotServing };
    for name in HEALTH_NAMES {
        reporter.set_service_status(name, status).await;
    }
}

/// Says for the last time how the node is, and ends the streams of those who watch it: they would
/// keep their connections open for the whole grace.
async fn withdraw_health(mut reporter: HealthReporter) {
    set_health(&reporter, false).await;
    for name in HEALTH_NAMES {
        reporter.clear_service_status(name).await;
    }
}
