//! Runtimes, and the events that end them.

use std::future::Future;
use std::os::fd::AsFd;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal as on};

use crate::failure::Failure;

/// A runtime on this thread.
pub(crate) fn current_thread_runtime() -> Result<Runtime, Failure> {
    built(Builder::new_current_thread().enable_all().build())
}

/// A runtime of two workers: what both sides of the benchmark run on.
pub(crate) fn multi_thread_runtime() -> Result<Runtime, Failure> {
    built(Builder::new_multi_thread().worker_threads(2).enable_all().build())
}

fn built(runtime: std::io::Result<Runtime>) -> Result<Runtime, Failure> {
    runtime.map_err(|error| Failure::broken(format!("starting a runtime failed: {error}")))
}

/// Signals that ask the process to stop.
pub(crate) struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl StopSignals {
    /// Begins to listen; from here on these signals no longer end the process by themselves.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let listen = |kind| {
            on(kind).map_err(|error| Failure::broken(format!("listening for signals: {error}")))
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// The name of the next one.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}

/// Ends when the standard input is closed: a child whose input is a pipe outlives its parent by
/// nothing, however the parent ended.
pub(crate) fn parent_gone() -> Result<impl Future<Output = ()> + Send, Failure> {
    let pipe = std::io::stdin().as_fd().try_clone_to_owned().and_then(Receiver::from_owned_fd);
    let mut pipe = pipe.map_err(|error| {
        Failure::usage(format!("the standard input must be a pipe that the parent holds: {error}"))
    })?;
    Ok(async move {
        let mut ignored = [0; 64];
        while pipe.read(&mut ignored).await.is_ok_and(|count| count > 0) {}
    })
}
