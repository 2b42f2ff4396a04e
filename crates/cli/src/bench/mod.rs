//! `semel bench`: what a node can do, beside what the same machine can do at all.
//!
//! The reference is a stock tonic service that does nothing, in a process of its own just like the
//! node. Both are loaded by the same client, in turns within one run, since a machine's speed drifts.
//!
//! # Layout
//!
//! - `callers`: what one caller sends and expects, a file for each kind of load
//! - `layers`: what the client's layers cost a call that succeeds at once, where nothing is sent
//! - `lease`: what a token costs that is spent in the client's memory, where nothing is sent
//! - `crew`: many callers at work for a while, and what came of it
//! - `noop`: the reference
//! - `server`: servers as child processes
//! - `preload`: keys that are there before the measurement begins
//! - `report`: the figures, for people and for scripts

mod callers;
mod crew;
mod layers;
mod lease;
mod noop;
mod preload;
mod report;
mod server;

use std::time::Duration;

use clap::{Args, ValueEnum, value_parser};
use tonic::transport::Channel;

pub(crate) use self::noop::NoopServerArgs;

use self::callers::{
    Acquire, BreakerState, Claim, ClaimComplete, GrantSum, HotKey, HotKeySum, Replay, ReportBoth,
    Scene, Spread,
};
use self::crew::{Caller, Crew, Measured};
use self::noop::Noop;
use self::report::Report;
use self::server::ServerProcess;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::stop::{StopSignals, multi_thread_runtime};
use crate::stopwatch::Stopwatch;
use crate::target::connect;

/// In how many turns each side is measured. Odd, so that the median is one of them.
const TURNS: u32 = 5;

/// Keys that `replay` reads unless told otherwise.
const REPLAY_KEYS: u64 = 20_000;

const EXAMPLES: &str = "\
Examples:
  semel bench claim
  semel bench hot-key --connections 64 --seconds 10 --json
  semel bench claim --keys 5000000          with so many keys in the store beforehand
  semel bench acquire --budgets 1000 --root
  semel bench replay --target http://127.0.0.1:7450

Client and server share the machine. Compare only figures of one run: ratio_to_noop is what lasts.";

/// The arguments of `semel bench`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchArgs {
    /// What to measure.
    name: Name,

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

    /// A node that runs already [default: one of its own, with an empty store].
    #[arg(long, value_name = "URL")]
    target: Option<String>,
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
        let target = &servers.target;
        let scene = Scene::new(self.keys_beforehand())?;
        if self.keys_beforehand() > 0 {
            preload::run(target, &scene, output).await?;
        }
        let reference = Crew::new(self.seats(servers.reference.url(), Noop::new).await?);
        let mut bench = Bench { args: self, reference, output };
        match self.name {
            Name::Noop => bench.run(self.seats(target, Noop::new).await?).await,
            Name::Claim => bench.run(self.callers(target, &scene, Claim::new).await?).await,
            Name::ClaimComplete => {
                bench.run(self.callers(target, &scene, ClaimComplete::new).await?).await
            }
            Name::Replay => bench.run(self.callers(target, &scene, Replay::new).await?).await,
            Name::Acquire => bench.acquire(self.spread(target, &scene, Acquire::new).await?).await,
            Name::BreakerState => {
                bench.run(self.spread(target, &scene, BreakerState::new).await?).await
            }
            Name::Report => bench.run(self.spread(target, &scene, ReportBoth::new).await?).await,
            Name::Lease | Name::Layers => {
                Err(Failure::broken("what stays in the client is measured without a reference"))
            }
            Name::HotKey => {
                // The warm-up has a key of its own, so that the measured one is new when it begins.
                let warm = self.callers(target, &Scene::new(0)?, HotKey::new).await?;
                bench.hot_key(warm, self.callers(target, &scene, HotKey::new).await?).await
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

    async fn callers<C>(
        &self,
        target: &str,
        scene: &Scene,
        new: impl Fn(Channel, &Scene, u16) -> C,
    ) -> Result<Vec<C>, Failure> {
        self.seats(target, |channel, seat| new(channel, scene, seat)).await
    }

    async fn spread<C>(
        &self,
        target: &str,
        scene: &Scene,
        new: impl Fn(Channel, Spread) -> C,
    ) -> Result<Vec<C>, Failure> {
        let spread = |seat| Spread::new(scene, seat, self.budgets, self.root);
        self.seats(target, |channel, seat| new(channel, spread(seat))).await
    }

    /// One caller for each call in flight, spread evenly over the connections.
    async fn seats<C>(
        &self,
        target: &str,
        new: impl Fn(Channel, u16) -> C,
    ) -> Result<Vec<C>, Failure> {
        let mut channels = Vec::new();
        for _ in 0..self.connections {
            channels.push(connect(target).await?);
        }
        let seats = (0..self.concurrency).zip(channels.into_iter().cycle());
        Ok(seats.map(|(seat, channel)| new(channel, seat)).collect())
    }
}

/// The servers of one run.
struct Servers {
    reference: ServerProcess,
    node: Option<ServerProcess>,
    target: String,
}

impl Servers {
    async fn start(args: &BenchArgs) -> Result<Self, Failure> {
        let reference = ServerProcess::noop().await?;
        let (node, target) = match (args.name, &args.target) {
            (Name::Noop, _) => (None, reference.url().to_owned()),
            (_, Some(target)) => (None, target.clone()),
            (_, None) => {
                let node = ServerProcess::node().await?;
                let target = node.url().to_owned();
                (Some(node), target)
            }
        };
        Ok(Self { reference, node, target })
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
    async fn run<C: Caller>(&mut self, callers: Vec<C>) -> Result<Report, Failure> {
        let mut subject = Crew::new(callers);
        self.warm_up(&mut subject).await?;
        self.take_turns(&mut subject).await
    }

    async fn hot_key(
        &mut self,
        warm: Vec<HotKey>,
        measured: Vec<HotKey>,
    ) -> Result<Report, Failure> {
        self.warm_up(&mut Crew::new(warm)).await?;
        let mut subject = Crew::new(measured);
        let report = self.take_turns(&mut subject).await?;
        Ok(report.with_hot_key(HotKeySum::of(subject.callers())))
    }

    async fn acquire(&mut self, callers: Vec<Acquire>) -> Result<Report, Failure> {
        let watch = Stopwatch::start();
        let mut subject = Crew::new(callers);
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
