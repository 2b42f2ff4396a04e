//! `semel serve`: a node, until it is told to stop.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use clap::Args;
use semel_server::{Node, StartError};
use serde::Serialize;
use tokio::sync::oneshot;

use crate::config::{AllSettings, Given, Loaded, Settings};
use crate::engine::{Engine, Opened};
use crate::entropy::random;
use crate::exit::Exit;
use crate::failure::{Failure, whole};
use crate::invocation::Invocation;
use crate::logging;
use crate::output::{FAINT, GOOD, Output, Page, Reply};
use crate::stop::{StopSignals, current_thread_runtime, parent_gone};
use crate::stopwatch::Stopwatch;
use crate::target::DEFAULT_TARGET;

const EXAMPLES: &str = "\
Examples:
  semel serve
  semel serve --listen 127.0.0.1:8000 --data /var/lib/semel --retention 72h
  semel serve --config /etc/semel/semel.toml
  SEMEL_STORE=postgres://semel@db.internal/semel semel serve
  SEMEL_LOG=debug semel serve --log-format json

SIGTERM or Ctrl-C ends it once the calls in flight are answered; a second one ends it at once.
With --json it prints one line as soon as it listens: {\"listening\":\"127.0.0.1:7450\",...}";

/// The arguments of `semel serve`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    given: Given<AllSettings>,

    /// End when the standard input, a pipe, is closed.
    #[arg(long, hide = true)]
    with_parent: bool,
}

impl ServeArgs {
    /// Serves until a signal says to stop.
    pub(crate) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        let Loaded { settings, config } = self.given.load()?;
        settings.refuse_strangers()?;
        logging::start(&settings.log, settings.log_format)?;
        let runtime = current_thread_runtime()?;
        let mut running = runtime.block_on(Running::start(settings))?;
        running.listening.config = config.map(|path| path.display().to_string());
        output.reply(&running.listening)?;
        runtime.block_on(self.until_stopped(running))
    }

    /// Waits for the first signal and stops in order; a second signal leaves at once. A node that closes by
    /// itself ends the process as well, with a failure: whoever supervises it can start it again.
    async fn until_stopped(&self, running: Running) -> Result<Exit, Failure> {
        let mut signals = StopSignals::listen()?;
        let closing = running.node.closing();
        let parent_gone = self.with_parent.then(parent_gone).transpose()?;
        let parent_gone = async {
            match parent_gone {
                Some(parent_gone) => parent_gone.await,
                None => std::future::pending().await,
            }
        };
        let why = tokio::select! {
            signal = signals.next() => Some(signal),
            () = parent_gone => Some("the end of its parent"),
            () = closing.cancelled() => None,
        };
        let stopping = why.unwrap_or("a failure of its own");
        tracing::info!("stopping on {stopping}; a signal from now on stops at once");
        let stopped = running.stop()?;
        tokio::select! {
            _ = stopped => match why {
                Some(_) => Ok(Exit::Done),
                None => Err(Failure::broken("the node closed by itself: its log says why")),
            },
            signal = signals.next() => {
                Err(Failure::broken(format!("stopped at once by {signal}: calls were cut off")))
            }
        }
    }
}

/// A node and its store.
struct Running {
    node: Node,
    store: Opened,
    listening: Listening,
}

impl Running {
    async fn start(mut settings: Settings) -> Result<Self, Failure> {
        let engine = settings.engine()?;
        let (data, stored) = match &engine {
            Engine::Embedded(_) => (Some(engine.name()), None),
            Engine::Postgres(_) | Engine::Fdb(_) => (None, Some(engine.name())),
        };
        let watch = Stopwatch::start();
        let store = engine.open().await?;
        let opened_ms = watch.elapsed_ms();
        let seed = u64::from_le_bytes(random()?);
        let node = store.serve(seed, settings.node).map_err(|error| not_started(&error))?;
        let listening = Listening {
            data,
            store: stored,
            opened_ms: Some(opened_ms),
            ..Listening::at(node.local_addr())
        };
        Ok(Self { node, store, listening })
    }

    /// Stops both on a thread of its own, and says when that is done.
    fn stop(self) -> Result<oneshot::Receiver<()>, Failure> {
        let (done, stopped) = oneshot::channel();
        let stop = move || {
            self.node.shutdown();
            self.store.close();
            // With all that its engine runs in the background: the process ends after this.
            drop(self.store);
            // Nobody listens any more if a second signal came.
            let _ = done.send(());
        };
        std::thread::Builder::new()
            .name("semel-stop".to_owned())
            .spawn(stop)
            .map(|_| stopped)
            .map_err(|error| Failure::broken(format!("stopping in order failed: {error}")))
    }
}

fn not_started(error: &StartError) -> Failure {
    let message = whole(error);
    match error {
        StartError::Options(_) => Failure::usage(message),
        StartError::Listen { .. } => Failure::broken(message)
            .advise("if another node runs there, stop it, or choose another address with --listen"),
        _ => Failure::broken(message),
    }
}

/// What a server says as soon as it listens.
#[derive(Debug, Serialize)]
pub(crate) struct Listening {
    listening: SocketAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    /// The store, if it is not a directory of this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    opened_ms: Option<u64>,
    /// The file that the settings are from.
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<String>,
    pid: u32,
}

impl Listening {
    /// A server at this address, without a store.
    pub(crate) fn at(listening: SocketAddr) -> Self {
        let pid = std::process::id();
        Self { listening, data: None, store: None, opened_ms: None, config: None, pid }
    }

    /// A claim that works as it is printed.
    fn first_claim(&self) -> Invocation {
        let mut target = self.listening;
        if target.ip().is_unspecified() {
            target.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
        }
        let target = format!("http://{target}");
        let claim = Invocation::new(["keys", "claim"])
            .operand("payments.charge")
            .operand("order-8812")
            .option("--tenant", "acme")
            .option("--payload", "charge 42.00 EUR");
        if target == DEFAULT_TARGET { claim } else { claim.option("--target", &target) }
    }
}

impl Reply for Listening {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        page.title(GOOD, "semel", "is ready")?;
        page.field("listens on", format!("{} (gRPC, not encrypted)", self.listening))?;
        if let (Some(data), Some(opened_ms)) = (&self.data, self.opened_ms) {
            page.field("data in", format!("{data} (opened in {opened_ms} ms)"))?;
        }
        page.field_if("stored in", self.store.as_ref())?;
        page.field_if("settings from", self.config.as_ref())?;
        page.next("Try, in another terminal:", &self.first_claim())?;
        page.line(format!("\n{FAINT}Ctrl-C stops it.{FAINT:#}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_claim_reaches_the_node_that_printed_it() {
        let command =
            |address: &str| Listening::at(address.parse().unwrap()).first_claim().to_string();
        assert!(!command("127.0.0.1:7450").contains("--target"));
        assert!(command("127.0.0.1:8000").ends_with("--target http://127.0.0.1:8000"));
        assert!(command("0.0.0.0:8000").ends_with("--target http://127.0.0.1:8000"));
    }
}
