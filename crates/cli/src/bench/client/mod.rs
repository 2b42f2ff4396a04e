//! Who loads the servers: connections, and how a call is sent over one of them.
//!
//! What is sent and what must come back is the callers' matter.

mod lean;
mod stock;

use std::num::NonZero;
use std::thread::available_parallelism;

use clap::ValueEnum;
use prost::Message;
use tokio::runtime::Handle;
use tonic::Status;
use tonic::client::Grpc;
use tonic::transport::Channel;

use crate::failure::Failure;
use crate::target::connect;

/// The kind of client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Client {
    /// A stock tonic client: about half of what is measured is its own work
    Stock,
    /// One written for throughput, with a thread for each core: shows the server's own limit
    Lean,
}

impl Client {
    /// As it is typed.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Stock => "stock",
            Self::Lean => "lean",
        }
    }
}

/// The connections of one side.
pub(crate) struct Connections {
    open: Vec<Connection>,
    /// They drive the connections, and end with them.
    _threads: Vec<lean::Thread>,
}

impl Connections {
    /// Opens so many, spread evenly over the servers.
    pub(crate) async fn open(
        client: Client,
        targets: &[String],
        count: u16,
    ) -> Result<Self, Failure> {
        let targets = targets.iter().cycle().take(count.into());
        let mut open = Vec::new();
        let mut threads = Vec::new();
        match client {
            Client::Stock => {
                for target in targets {
                    let stub = Stub::Stock(Grpc::new(connect(target).await?));
                    open.push(Connection { runtime: Handle::current(), stub });
                }
            }
            Client::Lean => {
                let cores = available_parallelism().map_or(1, NonZero::get);
                for _ in 0..cores.min(count.into()) {
                    threads.push(lean::Thread::start()?);
                }
                for (number, target) in targets.enumerate() {
                    let place = number % threads.len();
                    let Some(thread) = threads.get_mut(place) else { continue };
                    let stub = Stub::Lean(thread.connect(target).await?);
                    open.push(Connection { runtime: thread.runtime().clone(), stub });
                }
            }
        }
        Ok(Self { open, _threads: threads })
    }

    /// One that nobody answers.
    #[cfg(test)]
    pub(crate) fn never(runtime: Handle) -> Self {
        let channel = tonic::transport::Endpoint::from_static("http://127.0.0.1:1").connect_lazy();
        let stub = Stub::Stock(Grpc::new(channel));
        Self { open: vec![Connection { runtime, stub }], _threads: Vec::new() }
    }

    /// One after the other, without end.
    pub(crate) fn in_turn(&self) -> impl Iterator<Item = Connection> {
        self.open.iter().cycle().cloned()
    }
}

/// One caller's end of a connection, which it shares with others.
#[derive(Clone)]
pub(crate) struct Connection {
    /// What drives the connection. Calls are cheapest from there.
    pub(crate) runtime: Handle,
    /// How to call.
    pub(crate) stub: Stub,
}

/// Sends calls over a connection.
#[derive(Clone)]
pub(crate) enum Stub {
    /// As tonic's generator writes it.
    Stock(Grpc<Channel>),
    /// Without a framework.
    Lean(lean::Stub),
}

impl Stub {
    /// One call of the method at `path`. The error says in a line why there is no answer.
    pub(crate) async fn unary<Q, A>(&mut self, path: &'static str, request: Q) -> Result<A, String>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let answer = match self {
            Self::Stock(grpc) => stock::unary(grpc, path, request).await,
            Self::Lean(stub) => stub.unary(path, &request).await,
        };
        answer.map_err(|status| refused(&status))
    }
}

/// What was wrong, in a line.
fn refused(status: &Status) -> String {
    format!("{:?}: {}", status.code(), status.message())
}
