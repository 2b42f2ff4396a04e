//! What the client's layers cost a call that succeeds at once.
//!
//! There is no call to compare it with, hence no no-op: the same service is called with all layers around it
//! and without any, in turns, by one thread and by two at once. No node is in reach, and none is asked:
//! what is measured is what every call pays, whatever the fleet does.

use std::convert::Infallible;
use std::io;
use std::sync::Barrier;
use std::time::Duration;

use http::{Request, Response};
use semel_client::Dice;
use semel_client::breakers::{BreakerSettings, Breakers};
use semel_client::layers::{HedgeSettings, Http, Retries, Stack};
use semel_client::tokens::{RetryTokenSettings, RetryTokens};
use serde::Serialize;
use tokio::runtime::Builder;
use tonic::transport::Endpoint;
use tower::{Layer, Service, ServiceExt, service_fn};

use super::TURNS;
use super::callers::TENANT;
use super::lease::median;
use super::report::{grouped, rounded};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{BAD, GOOD, Output, Page, Reply};
use crate::stopwatch::Stopwatch;

/// Calls of one thread in one round.
const ROUND: u32 = 100_000;
/// What the layers may cost.
const BOUND_NS: f64 = 5_000.0;
const DEPENDENCY: &str = "bench";
const DEADLINE: Duration = Duration::from_secs(10);
const ATTEMPT: Duration = Duration::from_secs(3);
/// Nobody listens there, and nobody is called.
const NOWHERE: &str = "http://127.0.0.1:1";

/// Measures, and says what came of it.
pub(super) fn run(output: &mut Output) -> Result<Exit, Failure> {
    let mut report = LayersReport::default();
    // The connection that is never made wants a runtime.
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::broken(format!("no runtime: {error}")))?;
    let stack = runtime.block_on(async { stack() })?;
    for turn in 1..=TURNS {
        output.progress(&format!("turn {turn} of {TURNS}"))?;
        for threads in [1, 2] {
            let bare = round(threads, || service_fn(answer))?;
            let layered = round(threads, || stack.layer(service_fn(answer)))?;
            report.add(threads, &bare, &layered);
        }
    }
    report.close();
    output.progress("")?;
    output.reply(&report)?;
    Ok(if report.is_clean() { Exit::Done } else { Exit::No })
}

async fn answer(_: Request<String>) -> Result<Response<()>, Infallible> {
    Ok(Response::new(()))
}

fn stack() -> Result<Stack<Http>, Failure> {
    let broken = |error: &dyn std::error::Error| Failure::broken(error.to_string());
    let dice = Dice::seeded(1);
    let node = Endpoint::from_static(NOWHERE).connect_lazy();
    let tokens = RetryTokens::new(node.clone(), [1; 16], RetryTokenSettings::default());
    let settings = BreakerSettings::default();
    let breakers = Breakers::new(node.clone(), TENANT, settings, dice.clone());
    let budget = tokens.budget(TENANT, DEPENDENCY).map_err(|error| broken(&error))?;
    let breaker = breakers.breaker(DEPENDENCY).map_err(|error| broken(&error))?;
    let retries = Retries::new(budget, dice).asking(node);
    let stack =
        Stack::new(Http::default(), retries, breaker).within(DEADLINE).attempt_within(ATTEMPT);
    Ok(stack.hedged(HedgeSettings::default()))
}

/// Lets each thread make its calls, each with a service of its own.
fn round<S>(threads: u32, service: impl Fn() -> S + Sync) -> Result<Side, Failure>
where
    S: Service<Request<String>, Response = Response<()>>,
{
    let start = Barrier::new(usize::try_from(threads).unwrap_or(1));
    let calls = || {
        // A service's timers want a runtime, too.
        let runtime = Builder::new_current_thread().enable_all().build().ok()?;
        start.wait();
        Some(runtime.block_on(call_often(service())))
    };
    let sides = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..threads).map(|_| scope.spawn(calls)).collect();
        let ends = callers.into_iter().map(|caller| caller.join().ok().flatten());
        ends.collect::<Option<Vec<Side>>>()
    });
    let sides = sides.ok_or_else(|| Failure::broken("a thread of the measurement ended"))?;
    Ok(sides.into_iter().fold(Side::default(), Side::plus))
}

async fn call_often<S>(mut service: S) -> Side
where
    S: Service<Request<String>, Response = Response<()>>,
{
    let mut failed = 0;
    let watch = Stopwatch::start();
    for _ in 0..ROUND {
        failed += u64::from(call(&mut service).await.is_none());
    }
    Side { calls: ROUND.into(), failed, took: watch.elapsed() }
}

async fn call<S>(service: &mut S) -> Option<()>
where
    S: Service<Request<String>, Response = Response<()>>,
{
    let request = Request::get("http://bench/").body(String::new()).ok()?;
    service.ready().await.ok()?.call(request).await.ok().map(Response::into_body)
}

/// What threads did, each for itself.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    calls: u64,
    failed: u64,
    took: Duration,
}

impl Side {
    const fn plus(self, other: Self) -> Self {
        Self {
            calls: self.calls + other.calls,
            failed: self.failed + other.failed,
            took: self.took.saturating_add(other.took),
        }
    }

    fn ns_per_call(&self) -> f64 {
        self.took.as_secs_f64() * 1e9 / self.calls.max(1) as f64
    }
}

/// What a run came to: the medians of the turns.
#[derive(Debug, Default, Serialize)]
struct LayersReport {
    name: &'static str,
    /// With the layers, less without them.
    overhead_ns: f64,
    overhead_ns_two_threads: f64,
    bound_ns: f64,
    bare_ns: f64,
    overhead_ns_of_turns: Vec<f64>,
    overhead_ns_of_turns_two_threads: Vec<f64>,
    bare_ns_of_turns: Vec<f64>,
    calls: u64,
    failed: u64,
}

impl LayersReport {
    fn add(&mut self, threads: u32, bare: &Side, layered: &Side) {
        let overhead_ns = rounded(layered.ns_per_call() - bare.ns_per_call(), 10.0);
        if threads == 1 {
            self.overhead_ns_of_turns.push(overhead_ns);
            self.bare_ns_of_turns.push(rounded(bare.ns_per_call(), 10.0));
        } else {
            self.overhead_ns_of_turns_two_threads.push(overhead_ns);
        }
        self.calls += layered.calls;
        self.failed += bare.failed + layered.failed;
    }

    fn close(&mut self) {
        self.name = "layers";
        self.bound_ns = BOUND_NS;
        self.overhead_ns = median(&self.overhead_ns_of_turns);
        self.overhead_ns_two_threads = median(&self.overhead_ns_of_turns_two_threads);
        self.bare_ns = median(&self.bare_ns_of_turns);
    }

    fn is_clean(&self) -> bool {
        self.failed == 0 && self.overhead_ns <= BOUND_NS
    }
}

impl Reply for LayersReport {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        let style = if self.is_clean() { GOOD } else { BAD };
        let meaning = format!("{:.0} ns for all layers around a call", self.overhead_ns);
        page.title(style, self.name, &meaning)?;
        page.field("two threads", format!("{:.0} ns in each", self.overhead_ns_two_threads))?;
        page.field("bare call", format!("{:.0} ns", self.bare_ns))?;
        page.field("bound", format!("{:.0} ns", self.bound_ns))?;
        page.field("calls", grouped(self.calls as f64))?;
        page.field("failed", self.failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_call_or_too_high_a_cost_spoils_the_run() {
        let report = |failed, layered_us: u64| {
            let side = |us| Side { calls: 10, failed: 0, took: Duration::from_micros(us) };
            let mut report = LayersReport::default();
            report.add(1, &side(10), &Side { failed, ..side(10 + layered_us) });
            report.close();
            report
        };
        assert!((report(0, 20).overhead_ns - 2_000.0).abs() < f64::EPSILON);
        assert!(report(0, 50).is_clean());
        assert!(!report(0, 51).is_clean(), "more than the bound");
        assert!(!report(1, 20).is_clean());
    }
}
