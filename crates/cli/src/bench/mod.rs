//! `semel bench`: what a node can do, beside what the same machine can do at all.
//!
//! The reference is a stock tonic service that does nothing, in a process of its own just like the
//! node. Both are loaded by the same kind of client, in turns within one run, since a machine's speed drifts.
//!
//! # Layout
//!
//! - `callers`: what one caller sends and expects, a file for each kind of load
//! - `layers`: what the client's layers cost a call that succeeds at once, where nothing is sent
//! - `lease`: what a token costs that is spent in the client's memory, where nothing is sent
//! - `client`: connections of either kind, and how a call is sent over them
//! - `crew`: many callers at work for a while, and what came of it
//! - `noop`: the reference
//! - `server`: servers as child processes
//! - `preload`: keys that are there before the measurement begins
//! - `report`: the figures, for people and for scripts

mod callers;
mod client;
mod crew;
mod layers;
mod lease;
mod noop;
mod preload;
mod report;
mod server;

use std::time::Duration;

use clap::{Args, ValueEnum, value_parser};

pub(crate) use self::noop::NoopServerArgs;

use self::callers::{
    Acquire, BreakerState, Claim, ClaimComplete, GrantSum, HotKey, HotKeySum, Replay, ReportBoth,
    Scene, Spread,
};
use self::client::{Client, Connections};
use self::crew::{Caller, Crew, Measured};
use self::noop::Noop;
use self::report::Report;
use self::server::ServerProcess;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::stop::{StopSignals, multi_thread_runtime};
use crate::stopwatch::Stopwatch;

/// In how many turns each side is measured. Odd, so that the median is one of them.
const TURNS: u32 = 5;

/// Keys that `replay` reads unless told otherwise.
const REPLAY_KEYS: u64 = 20_000;

const EXAMPLES: &str = "\
Examples:
  semel bench claim
  semel bench hot-key --connections 64 --seconds 10 --json
  semel bench claim --client lean --concurrency 256
  semel bench claim --keys 5000000          with so many keys in the store beforehand
  semel bench acquire --budgets 1000 --root
  semel bench replay --target http://127.0.0.1:7450
  semel bench claim --concurrency 256 --target http://127.0.0.1:7450 --target http://127.0.0.1:7460

Client and server share the machine. Compare only figures of one run, or at least of one kind of client:
ratio_to_noop is what lasts.";

/// The arguments of `semel bench`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchArgs {
    /// What to measure.
    name: Name,

    /// What loads both sides.
    #[arg(long, value_enum, default_value = "stock")]
    client: Client,

    /// Connections to the server.
    #[arg(long, value_name = "N", default_value_t = 8)]
    #[arg(value_parser = value_parser!(u16).range(1..))]
    connections: u16,

    /// Calls in flight at any moment.
    #[arg(long, value_name = "N", default_value_t = 64)]
    #[arg(value_parser = value_parser!(u16).range(1..))]
    concurrency: u16,

    /// How long to measure; the no-op is measured for as long again.
    #[arg(long, value_name = "S", default_value_t = 10)]
    #[arg(value_parser = value_parser!(u32).range(1..))]
    seconds: u32,

    /// How long to warm up each side before.
    #[arg(long, value_name = "S", default_value_t = 2)]
    warmup: u32,

    /// Completed keys to put into the store beforehand [default: 20000 for replay, else 0].
    #[arg(long, value_name = "N")]
    keys: Option<u64>,

    /// Over how many dependencies acquire, breaker-state and report spread their calls: each has a budget
    /// and a breaker.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = value_parser!(u32).range(1..=100_000))]
    budgets: u32,

    /// Each acquire belongs to a root request of its own.
    #[arg(long)]
    root: bool,

    /// A node that runs already; several times: nodes of one cluster, over which the connections are spread
    /// [default: one of its own, with an empty store].
    #[arg(long = "target", value_name = "URL")]
    targets: Vec<String>,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    /// The reference against itself: how much two measurements of the same thing differ
    Noop,
    /// Claims of new keys, each durable before its reply
    Claim,
    /// A claim and its completion with a 200-byte answer, counted as one
    ClaimComplete,
    /// Everybody claims one key: one gets it, the others get its answer
    HotKey,
    /// Answers of completed keys, at random
    Replay,
    /// Retry tokens, each asked for with first attempts that pay for half of it
    Acquire,
    /// Retry tokens leased ahead and spent in memory: nanoseconds for each, without a no-op; takes a
    /// second or two, whatever --seconds says
    Lease,
    /// The client's layers around a call that succeeds at once: nanoseconds for each, without a no-op and
    /// without a node; takes a second or two, whatever --seconds says
    Layers,
    /// States of breakers
    BreakerState,
    /// Reports of first attempts and of outcomes, in turn
    Report,
}

impl Name {
    /// As it is typed.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Noop => "noop",
            Self::Claim => "claim",
            Self::ClaimComplete => "claim-complete",
            Self::HotKey => "hot-key",
            Self::Replay => "replay",
            Self::Acquire => "acquire",
            Self::Lease => "lease",
            Self::Layers => "layers",
            Self::BreakerState => "breaker-state",
            Self::Report => "report",
        }
    }

    /// Whether its calls are spread over many dependencies.
    const fn is_spread(self) -> bool {
        matches!(self, Self::Acquire | Self::BreakerState | Self::Report)
    }
}

impl BenchArgs {
    /// Measures, and says what came of it. Any error makes the whole run a failure.
    pub(crate) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        if self.name == Name::Lease {
            return lease::run(&self, output);
        }
        if self.name == Name::Layers {
            return layers::run(output);
        }
        let report = multi_thread_runtime()?.block_on(self.with_servers(output))?;
        output.progress("")?;
        output.reply(&report)?;
        Ok(if report.is_clean() { Exit::Done } else { Exit::No })
    }

    async fn with_servers(&self, output: &mut Output) -> Result<Report, Failure> {
        let mut servers = Servers::start(self).await?;
        let outcome = async {
            let mut signals = StopSignals::listen()?;
            tokio::select! {
                report = self.measure(&servers, output) => report,
                signal = signals.next() => Err(Failure::broken(format!("stopped by {signal}"))),
            }
        };
        let report = Box::pin(outcome).await.map(|report| report.with_node(servers.node.as_ref()));
        servers.stop().await;
        report
    }

    async fn measure(&self, servers: &Servers, output: &mut Output) -> Result<Report, Failure> {
        let targets = servers.targets.as_slice();
        let scene = Scene::new(self.keys_beforehand())?;
        if let (Some(first), 1..) = (targets.first(), self.keys_beforehand()) {
            preload::run(first, &scene, output).await?;
        }
        let url = servers.reference.url().to_owned();
        let reference = self.crew(&[url], |_| Noop).await?;
        let spread = |seat| Spread::new(&scene, seat, self.budgets, self.root);
        let mut bench = Bench { args: self, reference, output };
        match self.name {
            Name::Noop => bench.run(self.crew(targets, |_| Noop).await?).await,
            Name::Claim => {
                bench.run(self.crew(targets, |seat| Claim::new(&scene, seat)).await?).await
            }
            Name::ClaimComplete => {
                bench.run(self.crew(targets, |seat| ClaimComplete::new(&scene, seat)).await?).await
            }
            Name::Replay => {
                bench.run(self.crew(targets, |seat| Replay::new(&scene, seat)).await?).await
            }
            Name::Acquire => {
                bench.acquire(self.crew(targets, |seat| Acquire::new(spread(seat))).await?).await
            }
            Name::BreakerState => {
                bench.run(self.crew(targets, |seat| BreakerState(spread(seat))).await?).await
            }
            Name::Report => {
                bench.run(self.crew(targets, |seat| ReportBoth::new(spread(seat))).await?).await
            }
            Name::Lease | Name::Layers => {
                Err(Failure::broken("what stays in the client is measured without a reference"))
            }
            Name::HotKey => {
                // The warm-up has a key of its own, so that the measured one is new when it begins.
                let other = Scene::new(0)?;
                let warm = self.crew(targets, |seat| HotKey::new(&other, seat)).await?;
                let measured = self.crew(targets, |seat| HotKey::new(&scene, seat)).await?;
                bench.hot_key(warm, measured).await
            }
        }
    }

    const fn keys_beforehand(&self) -> u64 {
        match (self.keys, self.name) {
            (_, Name::Noop) => 0,
            (Some(keys), _) => keys,
            (None, Name::Replay) => REPLAY_KEYS,
            (None, _) => 0,
        }
    }

    /// One caller for each call in flight.
    async fn crew<C: Caller>(
        &self,
        targets: &[String],
        caller: impl Fn(u16) -> C,
    ) -> Result<Crew<C>, Failure> {
        let connections = Connections::open(self.client, targets, self.connections).await?;
        Ok(Crew::new(connections, (0..self.concurrency).map(caller)))
    }
}

/// The servers of one run.
struct Servers {
    reference: ServerProcess,
    node: Option<ServerProcess>,
    targets: Vec<String>,
}

impl Servers {
    async fn start(args: &BenchArgs) -> Result<Self, Failure> {
        let reference = ServerProcess::noop().await?;
        let (node, targets) = match (args.name, args.targets.as_slice()) {
            (Name::Noop, _) => (None, vec![reference.url().to_owned()]),
            (_, []) => {
                let node = ServerProcess::node().await?;
                let target = node.url().to_owned();
                (Some(node), vec![target])
            }
            (_, targets) => (None, targets.to_vec()),
        };
        Ok(Self { reference, node, targets })
    }

    async fn stop(&mut self) {
        if let Some(node) = &mut self.node {
            node.stop().await;
        }
        self.reference.stop().await;
    }
}

/// One run: the reference, and whatever is measured beside it.
struct Bench<'a> {
    args: &'a BenchArgs,
    reference: Crew<Noop>,
    output: &'a mut Output,
}

impl Bench<'_> {
    async fn run<C: Caller>(&mut self, mut subject: Crew<C>) -> Result<Report, Failure> {
        self.warm_up(&mut subject).await?;
        self.take_turns(&mut subject).await
    }

    async fn hot_key(
        &mut self,
        mut warm: Crew<HotKey>,
        mut subject: Crew<HotKey>,
    ) -> Result<Report, Failure> {
        self.warm_up(&mut warm).await?;
        let report = self.take_turns(&mut subject).await?;
        Ok(report.with_hot_key(HotKeySum::of(subject.callers())))
    }

    async fn acquire(&mut self, mut subject: Crew<Acquire>) -> Result<Report, Failure> {
        let watch = Stopwatch::start();
        self.warm_up(&mut subject).await?;
        let report = self.take_turns(&mut subject).await?;
        let sum = GrantSum::of(subject.callers());
        let within = sum.is_within_bound(self.args.budgets, watch.elapsed().as_secs());
        Ok(report.with_grants(sum, within))
    }

    async fn warm_up<C: Caller>(&mut self, subject: &mut Crew<C>) -> Result<(), Failure> {
        self.output.progress("warming up")?;
        let length = Duration::from_secs(self.args.warmup.into());
        self.reference.work(length, &mut Measured::new()?).await?;
        subject.work(length, &mut Measured::new()?).await
    }

    async fn take_turns<C: Caller>(&mut self, subject: &mut Crew<C>) -> Result<Report, Failure> {
        let name = self.args.name.text();
        let length = Duration::from_secs(self.args.seconds.into()) / TURNS;
        let (mut noop, mut measured) = (Measured::new()?, Measured::new()?);
        for turn in 1..=TURNS {
            self.output.progress(&format!("turn {turn} of {TURNS}: noop"))?;
            self.reference.work(length, &mut noop).await?;
            let rate = noop.per_second();
            let text = format!("turn {turn} of {TURNS}: {name} (noop {rate:.0} per second)");
            self.output.progress(&text)?;
            subject.work(length, &mut measured).await?;
        }
        Ok(Report::new(self.args, &noop, &measured))
    }
}
