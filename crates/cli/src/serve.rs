//! `semel serve`: a node with a store on this machine, until it is told to stop.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use bytesize::ByteSize;
use clap::Args;
use semel_server::{KeyOptions, Node, NodeOptions, StartError};
use serde::Serialize;
use tokio::sync::oneshot;

use crate::engine::{Engine, Opened, StoreAddress};
use crate::entropy::random;
use crate::exit::Exit;
use crate::failure::{Failure, whole};
use crate::invocation::Invocation;
use crate::logging::{self, LogFormat};
use crate::output::{FAINT, GOOD, Output, Page, Reply};
use crate::stop::{StopSignals, current_thread_runtime, parent_gone};
use crate::stopwatch::Stopwatch;
use crate::target::DEFAULT_TARGET;
use crate::values::{parse_duration, parse_size};

const EXAMPLES: &str = "\
Examples:
  semel serve
  semel serve --listen 127.0.0.1:8000 --data /var/lib/semel --retention 72h
  SEMEL_LOG=debug semel serve --log-format json

SIGTERM or Ctrl-C ends it once the calls in flight are answered; a second one ends it at once.
With --json it prints one line as soon as it listens: {\"listening\":\"127.0.0.1:7450\",...}";

/// The arguments of `semel serve`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    /// Where to listen for gRPC; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", env = "SEMEL_LISTEN", default_value = "127.0.0.1:7450")]
    listen: SocketAddr,

    /// Where the data is kept if this machine keeps it; made if it is missing.
    #[arg(long, value_name = "DIRECTORY", env = "SEMEL_DATA", default_value = "./semel-data")]
    data: PathBuf,

    /// Another store than --data: postgres://USER@HOST/DATABASE, which many nodes share. A password
    /// belongs in the environment, where no list of processes shows it.
    #[arg(long, value_name = "URL", env = "SEMEL_STORE", hide_env_values = true)]
    store: Option<StoreAddress>,

    /// Listen beyond this machine although there is no TLS and no authentication yet: whoever can
    /// reach the address may do anything.
    #[arg(long)]
    insecure: bool,

    /// Serving threads [default: one for each core].
    #[arg(long, value_name = "N")]
    workers: Option<usize>,

    /// Connections at the most; more wait to be accepted.
    #[arg(long, value_name = "N", default_value_t = NodeOptions::default().connections_max)]
    connections: usize,

    /// How long a stop waits for calls in flight.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    grace: Duration,

    /// How the log is written; SEMEL_LOG says what is in it [default filter: info].
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,

    /// End when the standard input, a pipe, is closed.
    #[arg(long, hide = true)]
    with_parent: bool,

    #[command(flatten)]
    keys: KeysPolicyArgs,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Keys")]
struct KeysPolicyArgs {
    /// How long answers are kept at the least: 1 min to 30 d. Raising it counts from now on: what
    /// was removed under a shorter one is not known any more.
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = parse_duration)]
    retention: Duration,

    /// Refuse claims that do not say when their intent was made (first_sent).
    #[arg(long)]
    require_first_sent: bool,

    /// How far the clocks of callers and of this machine may be apart.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_duration)]
    allowed_skew: Duration,

    /// Let operators read the bodies of stored answers.
    #[arg(long)]
    grant_bodies: bool,

    /// The longest body that is stored; of a longer one only the digest is.
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = parse_size)]
    body_limit: ByteSize,

    /// Memory for answers that are asked for often.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_size)]
    replay_cache: ByteSize,

    /// Callers that may wait for one key.
    #[arg(long, value_name = "N", default_value_t = KeyOptions::default().waiters_per_key_max)]
    waiters_per_key: usize,

    /// Callers that may wait for keys of one tenant.
    #[arg(long, value_name = "N", default_value_t = KeyOptions::default().waiters_per_tenant_max)]
    waiters_per_tenant: usize,

    /// Callers that may wait at all.
    #[arg(long, value_name = "N", default_value_t = KeyOptions::default().waiters_max)]
    waiters: usize,
}

impl KeysPolicyArgs {
    fn options(&self) -> KeyOptions {
        KeyOptions {
            retention: self.retention,
            allowed_skew: self.allowed_skew,
            require_first_sent: self.require_first_sent,
            body_limit_bytes: usize::try_from(self.body_limit.as_u64()).unwrap_or(usize::MAX),
            grant_bodies: self.grant_bodies,
            replay_cache_bytes: self.replay_cache.as_u64(),
            waiters_per_key_max: self.waiters_per_key,
            waiters_per_tenant_max: self.waiters_per_tenant,
            waiters_max: self.waiters,
            ..KeyOptions::default()
        }
    }
}

impl ServeArgs {
    /// Serves until a signal says to stop.
    pub(crate) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        self.refuse_strangers()?;
        logging::start(self.log_format)?;
        let runtime = current_thread_runtime()?;
        let running = runtime.block_on(Running::start(&self))?;
        output.reply(&running.listening)?;
        runtime.block_on(self.until_stopped(running))
    }

    fn refuse_strangers(&self) -> Result<(), Failure> {
        if self.insecure || self.listen.ip().is_loopback() {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "{} can be reached from other machines, and there is no TLS and no authentication yet: \
             whoever reaches it could claim, complete and erase any key",
            self.listen
        ))
        .advise("listen on 127.0.0.1, or say --insecure if only trusted machines can reach it"))
    }

    fn options(&self) -> NodeOptions {
        let defaults = NodeOptions::default();
        NodeOptions {
            listen: self.listen,
            serving_threads: self.workers.unwrap_or(defaults.serving_threads),
            connections_max: self.connections,
            grace: self.grace,
            keys: self.keys.options(),
            ..defaults
        }
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
    async fn start(args: &ServeArgs) -> Result<Self, Failure> {
        let engine = match &args.store {
            Some(address) => Engine::parse(address)?,
            None => Engine::Embedded(args.data.clone()),
        };
        let data = engine.name();
        let watch = Stopwatch::start();
        let store = engine.open().await?;
        let opened_ms = watch.elapsed_ms();
        let seed = u64::from_le_bytes(random()?);
        let node = store.serve(seed, args.options()).map_err(|error| not_started(&error))?;
        let listening = Listening {
            data: Some(data),
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
    #[serde(skip_serializing_if = "Option::is_none")]
    opened_ms: Option<u64>,
    pid: u32,
}

impl Listening {
    /// A server at this address, without a store.
    pub(crate) fn at(listening: SocketAddr) -> Self {
        Self { listening, data: None, opened_ms: None, pid: std::process::id() }
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
        page.next("Try, in another terminal:", &self.first_claim())?;
        page.line(format!("\n{FAINT}Ctrl-C stops it.{FAINT:#}"))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        serve: ServeArgs,
    }

    fn parse(words: &[&str]) -> ServeArgs {
        Line::parse_from([&["serve"], words].concat()).serve
    }

    #[test]
    fn without_a_flag_it_is_the_default_node() {
        let (ours, defaults) = (parse(&[]).options(), NodeOptions::default());
        assert_eq!(format!("{ours:?}"), format!("{defaults:?}"));
        assert_eq!(DEFAULT_TARGET, format!("http://{}", ours.listen));
    }

    #[test]
    fn only_this_machine_is_served_unless_told_otherwise() {
        for loopback in ["127.0.0.1:0", "127.8.8.8:1", "[::1]:0"] {
            assert!(parse(&["--listen", loopback]).refuse_strangers().is_ok(), "{loopback}");
        }
        for open in ["0.0.0.0:0", "[::]:0", "192.0.2.1:7450"] {
            let refusal = parse(&["--listen", open]).refuse_strangers().unwrap_err();
            assert_eq!(refusal.exit, Exit::Usage, "{open}");
            assert!(parse(&["--listen", open, "--insecure"]).refuse_strangers().is_ok());
        }
    }

    #[test]
    fn the_first_claim_reaches_the_node_that_printed_it() {
        let command =
            |address: &str| Listening::at(address.parse().unwrap()).first_claim().to_string();
        assert!(!command("127.0.0.1:7450").contains("--target"));
        assert!(command("127.0.0.1:8000").ends_with("--target http://127.0.0.1:8000"));
        assert!(command("0.0.0.0:8000").ends_with("--target http://127.0.0.1:8000"));
    }
}
