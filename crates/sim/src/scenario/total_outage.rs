//! 1,000 requests a second over three nodes, and a minute in which every one of them fails: what the
//! budget lets through, in every window of its own length.

use std::cell::RefCell;
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use semel_proto::v1;
use semel_proto::v1::retries_server::Retries as _;
use serde::Serialize;
use tonic::Request;

use super::{DEPENDENCY, PATIENCE, Stage, acquire, question, span};
use crate::load::{Caller, TENANT};
use crate::node::Services;
use crate::world::play;

/// Nodes of the cluster.
const NODES: usize = 3;
/// Callers, and what each sends in a second.
const CALLERS: usize = 100;
const PER_CALLER: u64 = 10;
/// How long the outage lasts, and how long the run goes on after it.
const OUTAGE: Duration = Duration::from_secs(60);
const AFTER: Duration = Duration::from_secs(15);
/// How long all is well before it, in the run that begins so: as long as deposits are good.
const LEAD_IN: Duration = WINDOW;
/// The default policy: its window, what the published bound looks back for, its ratio in thousandths, and
/// its floor.
const WINDOW: Duration = Duration::from_secs(10);
const LOOKBACK: Duration = Duration::from_secs(11);
const RATIO_PER_MILLE: u64 = 100;
const FLOOR_PER_SECOND: u64 = 10;

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Outage {
    /// First attempts in a second.
    pub first_per_second: u64,
    /// First attempts during the outage.
    pub first_attempts: u64,
    /// Retries that were sent, all in all.
    pub retries: u64,
    /// The most attempts for one first attempt, over any window of 10 s.
    pub worst_amplification: f64,
    /// How many attempts were over 1.1 times the first attempts plus the floor, in the worst window of
    /// 10 s.
    pub over_bound: u64,
    /// Attempts a second during the outage: without a budget, at three for each request, this would be
    /// three times the load.
    pub attempts_per_second: f64,
    /// The worst amplification, should the outage come after a time in which all was well: what was
    /// deposited then is spent first. The published bound allows it: deposits pay for retries of a later
    /// window.
    pub worst_amplification_after_lead_in: f64,
    /// How many retries were over the published bound then, in the worst window of 10 s: 0.
    pub over_published_bound: u64,
}

/// When attempts were made, in microseconds.
#[derive(Default)]
struct Seen {
    first: Vec<u64>,
    retries: Vec<u64>,
}

/// Plays it.
///
/// # Errors
///
/// The cluster could not be made.
pub fn run(seed: u64) -> io::Result<Outage> {
    let (seen, down_at) = (observe(seed, Duration::ZERO, OUTAGE)?, Duration::ZERO);
    let first_attempts = seen.first_within(down_at, down_at + OUTAGE);
    let retries = u64::try_from(seen.retries.len()).unwrap_or(u64::MAX);
    let (worst_amplification, over_bound) = seen.worst(Duration::ZERO);
    let led_in = observe(seed, LEAD_IN, WINDOW)?;
    let (worst_amplification_after_lead_in, over_published_bound) = led_in.worst(LOOKBACK);
    Ok(Outage {
        first_per_second: PER_CALLER * u64::try_from(CALLERS).unwrap_or(0),
        first_attempts,
        retries,
        worst_amplification,
        over_bound,
        attempts_per_second: ratio(first_attempts + retries, OUTAGE.as_secs()),
        worst_amplification_after_lead_in,
        over_published_bound,
    })
}

/// What happens in an outage from `down_at` on, for so long, and after it.
fn observe(seed: u64, down_at: Duration, outage: Duration) -> io::Result<Seen> {
    play(async |world| {
        let seen = Rc::new(RefCell::new(Seen::default()));
        let mut stage = Stage::new(&world, NODES, seed)?;
        let down = down_at..down_at + outage;
        for _ in 0..CALLERS {
            world.tasks.spawn(calls(stage.caller(), down.clone(), Rc::clone(&seen)));
        }
        world.time.until(down_at + outage + AFTER).await;
        world.tasks.abort();
        let mut seen = seen.take();
        seen.retries.sort_unstable();
        Ok(seen)
    })?
}

/// One caller: ten requests a second, each of which is deposited as soon as it was made, and a question
/// for each that failed.
async fn calls(mut caller: Caller, down: Range<Duration>, seen: Rc<RefCell<Seen>>) {
    let reporter = caller.random.id();
    let node = caller.number % NODES;
    let interval = Duration::from_millis(1_000 / PER_CALLER);
    tokio::time::sleep(interval.mul_f64(caller.random.share())).await;
    for seq in 1.. {
        let next = tokio::time::sleep(interval);
        seen.borrow_mut().first.push(caller.world.time.now_us());
        let deposits =
            v1::Deposits { reporter: reporter.clone(), seq, requests: 1, ..Default::default() };
        let now = Duration::from_micros(caller.world.time.now_us());
        if down.contains(&now) {
            let mut asked = question(caller.random.id(), 1);
            asked.deposits = Some(deposits);
            let mut retrying = Caller {
                random: caller.random.fork(),
                world: caller.world.clone(),
                cluster: caller.cluster.clone(),
                number: caller.number,
            };
            let seen = Rc::clone(&seen);
            // The next request does not wait for this one.
            caller.world.tasks.spawn(async move { retry(&mut retrying, node, asked, &seen).await });
        } else {
            report(&mut caller, node, deposits).await;
        }
        next.await;
    }
}

async fn report(caller: &mut Caller, node: usize, deposits: v1::Deposits) {
    let report = v1::RequestReport { dependency: DEPENDENCY.to_owned(), deposits: Some(deposits) };
    let sent = v1::ReportRequestsRequest { tenant: TENANT.to_owned(), reports: vec![report] };
    let ask = move |services: Rc<Services>| {
        let sent = sent.clone();
        async move { services.retries().report_requests(Request::new(sent)).await }
    };
    drop(caller.call(node, PATIENCE, ask).await);
}

/// Retries for as long as that is granted.
async fn retry(
    caller: &mut Caller,
    node: usize,
    mut asked: v1::AcquireRetryTokenRequest,
    seen: &Rc<RefCell<Seen>>,
) {
    loop {
        let reply = acquire(caller, node, asked.clone()).await;
        if reply.verdict() != v1::RetryVerdict::Granted {
            return;
        }
        tokio::time::sleep(span(reply.delay).unwrap_or_default()).await;
        let now_us = caller.world.time.now_us();
        seen.borrow_mut().retries.push(now_us);
        asked.deposits = None;
        asked.attempt += 1;
    }
}

impl Seen {
    fn first_within(&self, after: Duration, to: Duration) -> u64 {
        let first = self.first.iter().filter(|at| (micros(after)..micros(to)).contains(*at));
        u64::try_from(first.count()).unwrap_or(u64::MAX)
    }

    /// The worst window of 10 s: how many attempts there were for one first attempt, and by how many
    /// retries it was over what the first attempts of the window, and of `lookback` before, allow.
    fn worst(&self, lookback: Duration) -> (f64, u64) {
        let within = |moments: &[u64], from_us: u64, to_us: u64| {
            let from = moments.partition_point(|at_us| *at_us <= from_us);
            let to = moments.partition_point(|at_us| *at_us <= to_us);
            u64::try_from(to.saturating_sub(from)).unwrap_or(u64::MAX)
        };
        let floor = FLOOR_PER_SECOND * (WINDOW + lookback).as_secs();
        let (mut amplification, mut over) = (1.0_f64, 0);
        // The worst windows end with a retry.
        for end_us in &self.retries {
            let Some(begin_us) = end_us.checked_sub(micros(WINDOW)) else { continue };
            let first = within(&self.first, begin_us, *end_us);
            let retries = within(&self.retries, begin_us, *end_us);
            let paying = within(&self.first, begin_us.saturating_sub(micros(lookback)), *end_us);
            let allowed = paying * RATIO_PER_MILLE / 1_000 + floor;
            over = over.max(retries.saturating_sub(allowed));
            amplification = amplification.max(ratio(first + retries, first));
        }
        (amplification, over)
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// A share of two counts, both far below where a float loses whole numbers.
#[allow(clippy::cast_precision_loss, reason = "counts of one run are small")]
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
