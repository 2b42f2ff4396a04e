//! What a token costs that was leased ahead and is spent in the client's memory.
//!
//! There is no call to compare it with, hence no no-op. Tokens are spent in rounds, by one thread and by
//! two at once; between rounds the client fetches the next ones, which is not measured. The node's policy
//! gives a floor of a million tokens a second, so that it is the client that is measured.

use std::io;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use semel_client::tokens::{Budget, RetryTokenSettings, RetryTokens};
use semel_proto::v1::retries_client::RetriesClient;
use semel_proto::v1::{GetBudgetRequest, RetryPolicy, SetRetryPolicyRequest};
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::interval;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

use super::callers::{Scene, TENANT};
use super::report::{grouped, rounded};
use super::server::ServerProcess;
use super::{BenchArgs, TURNS};
use crate::entropy::random;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{BAD, GOOD, Output, Page, Reply};
use crate::stop::{StopSignals, multi_thread_runtime};
use crate::stopwatch::Stopwatch;
use crate::target::connect;
use crate::values::to_wire;

/// Tokens of one round.
const ROUND: u32 = 10_000;
/// Rounds of one turn. All turns together spend less than the budget gives at once, however short they
/// are: so `--seconds` has no say here.
const ROUNDS: u32 = 5;
/// Tokens that the client is told to hold: a round, whatever was spent of the lease before.
const AT_HAND: u32 = 20_000;
/// The floor of the budget, per second: the most that a policy may give.
const FLOOR: u32 = 1_000_000;
const LEASE: Duration = Duration::from_secs(1);
const WINDOW: Duration = Duration::from_secs(1);
/// How long the client may take to fetch the tokens of a round.
const PATIENCE: Duration = Duration::from_secs(30);

/// Measures, and says what came of it.
pub(super) fn run(args: &BenchArgs, output: &mut Output) -> Result<Exit, Failure> {
    let report = multi_thread_runtime()?.block_on(with_node(args, output))?;
    output.progress("")?;
    output.reply(&report)?;
    Ok(if report.is_clean() { Exit::Done } else { Exit::No })
}

async fn with_node(args: &BenchArgs, output: &mut Output) -> Result<LeaseReport, Failure> {
    let mut node = match args.targets.first() {
        Some(_) => None,
        None => Some(ServerProcess::node().await?),
    };
    let own = node.as_ref().map(ServerProcess::url);
    let target = args.targets.first().map(String::as_str).or(own).unwrap_or_default().to_owned();
    let outcome = async {
        let mut signals = StopSignals::listen()?;
        tokio::select! {
            report = measure(&target, output) => report,
            signal = signals.next() => Err(Failure::broken(format!("stopped by {signal}"))),
        }
    };
    let report = Box::pin(outcome).await;
    if let Some(node) = &mut node {
        node.stop().await;
    }
    report
}

async fn measure(target: &str, output: &mut Output) -> Result<LeaseReport, Failure> {
    let dependency: Arc<str> = Scene::new(0)?.key(0).into();
    let channel = connect(target).await?;
    let mut retries = RetriesClient::new(channel.clone());
    set_policy(&mut retries, &dependency).await?;
    let mut settings = RetryTokenSettings::default();
    settings.at_hand = AT_HAND;
    let tokens = RetryTokens::new(channel, random()?, settings);
    let closing = CancellationToken::new();
    let mut client = JoinSet::new();
    let (driven, closed) = (tokens.clone(), closing.clone());
    client.spawn(async move { driven.run(closed.cancelled()).await });
    let mut bench = Bench { tokens, dependency, report: LeaseReport::default() };
    let watch = Stopwatch::start();
    let measured = bench.take_turns(output).await;
    closing.cancel();
    client.join_all().await;
    measured?;
    let granted = granted(&mut retries, &bench.dependency).await?;
    bench.report.close(granted, watch.elapsed());
    Ok(bench.report)
}

/// How many tokens the node says it granted.
async fn granted(retries: &mut RetriesClient<Channel>, dependency: &str) -> Result<u64, Failure> {
    let (tenant, dependency) = (TENANT.to_owned(), dependency.to_owned());
    let reply = retries.get_budget(GetBudgetRequest { tenant, dependency }).await?.into_inner();
    Ok(reply.node.map_or(0, |node| node.granted))
}

async fn set_policy(retries: &mut RetriesClient<Channel>, dependency: &str) -> Result<(), Failure> {
    let policy = RetryPolicy {
        floor_per_second: Some(FLOOR),
        window: Some(to_wire(WINDOW)),
        lease: Some(to_wire(LEASE)),
        ..RetryPolicy::default()
    };
    let request = SetRetryPolicyRequest {
        tenant: TENANT.to_owned(),
        dependency: dependency.to_owned(),
        policy: Some(policy),
        expected_version: None,
        actor: "semel bench".to_owned(),
    };
    retries.set_retry_policy(request).await?;
    Ok(())
}

struct Bench {
    tokens: RetryTokens,
    dependency: Arc<str>,
    report: LeaseReport,
}

impl Bench {
    async fn take_turns(&mut self, output: &mut Output) -> Result<(), Failure> {
        let budget = self.tokens.budget(TENANT, &self.dependency);
        let budget = budget.map_err(|error| Failure::broken(error.to_string()))?;
        for turn in 1..=TURNS {
            output.progress(&format!("turn {turn} of {TURNS}"))?;
            for threads in [1, 2] {
                let mut side = Side::default();
                for _ in 0..ROUNDS {
                    self.supplied(&budget).await?;
                    side.add(self.round(threads).await?);
                }
                self.report.add(threads, &side);
            }
        }
        Ok(())
    }

    /// Waits until there are tokens for a round. First attempts keep the client interested.
    async fn supplied(&self, budget: &Budget) -> Result<(), Failure> {
        let (watch, mut beat) = (Stopwatch::start(), interval(Duration::from_millis(1)));
        while budget.in_hand() < ROUND {
            if watch.elapsed() > PATIENCE {
                let text = format!("only {} tokens came in {PATIENCE:?}", budget.in_hand());
                return Err(Failure::broken(text));
            }
            budget.first_attempt();
            beat.tick().await;
        }
        Ok(())
    }

    /// Lets each thread spend its part of a round.
    async fn round(&self, threads: u32) -> Result<Side, Failure> {
        let start = Arc::new(Barrier::new(usize::try_from(threads).unwrap_or(1)));
        let mut spenders = JoinSet::new();
        for _ in 0..threads {
            let (tokens, dependency) = (self.tokens.clone(), Arc::clone(&self.dependency));
            let start = Arc::clone(&start);
            spenders.spawn_blocking(move || {
                start.wait();
                spend(&tokens, &dependency, ROUND / threads)
            });
        }
        let mut side = Side::default();
        while let Some(spent) = spenders.join_next().await {
            side.add(spent.map_err(|error| Failure::broken(format!("a thread ended: {error}")))?);
        }
        Ok(side)
    }
}

/// Looks the budget up and spends a token, so often.
fn spend(tokens: &RetryTokens, dependency: &str, count: u32) -> Side {
    let mut spent = 0;
    let watch = Stopwatch::start();
    for _ in 0..count {
        let budget = tokens.budget(TENANT, dependency);
        spent += u64::from(budget.is_ok_and(|budget| budget.try_spend().is_ok()));
    }
    let took = watch.elapsed();
    Side { spent, denied: u64::from(count) - spent, took }
}

/// What threads did, each for itself.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    spent: u64,
    denied: u64,
    took: Duration,
}

impl Side {
    const fn add(&mut self, other: Self) {
        self.spent += other.spent;
        self.denied += other.denied;
        self.took = self.took.saturating_add(other.took);
    }

    /// How long a thread took for each of its tokens.
    fn ns_per_token(&self) -> f64 {
        self.took.as_secs_f64() * 1e9 / (self.spent + self.denied).max(1) as f64
    }
}

/// What a run came to.
#[derive(Debug, Default, Serialize)]
struct LeaseReport {
    name: &'static str,
    /// The medians of the turns, look-up of the budget included.
    ns_per_token: f64,
    ns_per_token_two_threads: f64,
    ns_of_turns: Vec<f64>,
    ns_of_turns_two_threads: Vec<f64>,
    spent: u64,
    denied: u64,
    /// What the node says it granted, of which the rest came back or was left.
    granted: u64,
    /// The most that may have been spent in this time, whatever came back and was granted again.
    bound: u64,
    seconds: f64,
}

impl LeaseReport {
    fn add(&mut self, threads: u32, side: &Side) {
        let ns = rounded(side.ns_per_token(), 10.0);
        let turns =
            if threads == 1 { &mut self.ns_of_turns } else { &mut self.ns_of_turns_two_threads };
        turns.push(ns);
        self.spent += side.spent;
        self.denied += side.denied;
    }

    fn close(&mut self, granted: u64, elapsed: Duration) {
        self.name = "lease";
        self.ns_per_token = median(&self.ns_of_turns);
        self.ns_per_token_two_threads = median(&self.ns_of_turns_two_threads);
        self.seconds = rounded(elapsed.as_secs_f64(), 1_000.0);
        let bound = elapsed.saturating_add(WINDOW).saturating_add(LEASE).as_millis();
        let bound_ms = u64::try_from(bound).unwrap_or(u64::MAX);
        self.granted = granted;
        self.bound = bound_ms.saturating_mul(u64::from(FLOOR) / 1_000);
    }

    fn is_clean(&self) -> bool {
        self.denied == 0 && self.spent <= self.granted.min(self.bound)
    }
}

pub(super) fn median(turns: &[f64]) -> f64 {
    let mut turns = turns.to_vec();
    turns.sort_by(f64::total_cmp);
    turns.get(turns.len() / 2).copied().unwrap_or_default()
}

impl Reply for LeaseReport {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        let style = if self.is_clean() { GOOD } else { BAD };
        let meaning = format!("{:.0} ns for each token, its look-up included", self.ns_per_token);
        page.title(style, self.name, &meaning)?;
        page.field("two threads", format!("{:.0} ns in each", self.ns_per_token_two_threads))?;
        let spent = grouped(self.spent as f64);
        page.field("spent", format!("{spent} in {:.1} s", self.seconds))?;
        page.field("denied", self.denied)?;
        let (granted, bound) = (grouped(self.granted as f64), grouped(self.bound as f64));
        page.field("granted", format!("{granted}; the bound is {bound}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denied_token_or_one_too_many_spoils_the_run() {
        let report = |spent, denied, granted| {
            let mut report = LeaseReport::default();
            report.add(1, &Side { spent, denied, took: Duration::from_micros(5) });
            report.close(granted, Duration::from_secs(1));
            report
        };
        assert!((report(100, 0, 100).ns_per_token - 50.0).abs() < f64::EPSILON);
        assert!(report(100, 0, 100).is_clean());
        assert!(!report(99, 1, 100).is_clean());
        assert!(!report(101, 0, 100).is_clean(), "more than was granted");
        assert!(report(3_000_000, 0, u64::MAX).is_clean());
        assert!(!report(3_000_001, 0, u64::MAX).is_clean(), "more than the bound");
    }
}
