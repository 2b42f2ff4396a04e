//! 1,000 requests a second over three nodes, and a minute in which every one of them fails: what the
//! budget lets through, in every window of its own length.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use semel_proto::v1;
use serde::Serialize;

use super::{Stage, acquire, question, span};
use crate::load::Caller;
use crate::world::play;

/// Nodes of the cluster.
const NODES: usize = 3;
/// Callers, and what each sends in a second.
const CALLERS: usize = 100;
const PER_CALLER: u64 = 10;
/// When the dependency goes down, when it comes back, and when the run ends.
const DOWN_AT: Duration = Duration::from_secs(10);
const UP_AT: Duration = Duration::from_secs(70);
const END: Duration = Duration::from_secs(85);
/// The window of the default policy, its ratio in thousandths, and its floor over the window.
const WINDOW: Duration = Duration::from_secs(10);
const RATIO_PER_MILLE: u64 = 100;
const FLOOR_PER_WINDOW: u64 = 100;

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
    /// Attempts a second: without a budget, three for each, this would be three times the load.
    pub attempts_per_second: f64,
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
    play(async |world| {
        let seen = Rc::new(RefCell::new(Seen::default()));
        let mut stage = Stage::new(&world, NODES, seed)?;
        for _ in 0..CALLERS {
            world.tasks.spawn(calls(stage.caller(), Rc::clone(&seen)));
        }
        world.time.until(END).await;
        world.tasks.abort();
        let mut seen = seen.take();
        seen.retries.sort_unstable();
        Ok(judge(&seen))
    })?
}

/// One caller: ten requests a second, and a question for each that failed.
async fn calls(mut caller: Caller, seen: Rc<RefCell<Seen>>) {
    let reporter = caller.random.id();
    let node = caller.number % NODES;
    let interval = 1_000 / PER_CALLER;
    tokio::time::sleep(caller.random.millis(0, interval)).await;
    let mut requests = 0;
    for seq in 1.. {
        seen.borrow_mut().first.push(caller.world.time.now_us());
        requests += 1;
        let next = tokio::time::sleep(Duration::from_millis(interval));
        let now = Duration::from_micros(caller.world.time.now_us());
        if (DOWN_AT..UP_AT).contains(&now) {
            let deposits = v1::Deposits {
                reporter: reporter.clone(),
                seq,
                requests: std::mem::take(&mut requests),
                ..Default::default()
            };
            let mut asked = question(caller.random.id(), 1);
            asked.deposits = Some(deposits);
            retry(&mut caller, node, asked, &seen).await;
        }
        next.await;
    }
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

fn judge(seen: &Seen) -> Outage {
    let within = |moments: &[u64], from_us: u64, to_us: u64| {
        let from = moments.partition_point(|at_us| *at_us <= from_us);
        let to = moments.partition_point(|at_us| *at_us <= to_us);
        u64::try_from(to.saturating_sub(from)).unwrap_or(u64::MAX)
    };
    let window_us = u64::try_from(WINDOW.as_micros()).unwrap_or(u64::MAX);
    let mut outage = Outage {
        first_per_second: PER_CALLER * u64::try_from(CALLERS).unwrap_or(0),
        first_attempts: within(&seen.first, micros(DOWN_AT), micros(UP_AT)),
        retries: u64::try_from(seen.retries.len()).unwrap_or(u64::MAX),
        worst_amplification: 1.0,
        over_bound: 0,
        attempts_per_second: 0.0,
    };
    // The worst windows end with a retry.
    for end_us in &seen.retries {
        let begin_us = end_us.saturating_sub(window_us);
        let first = within(&seen.first, begin_us, *end_us);
        let retries = within(&seen.retries, begin_us, *end_us);
        let allowed = first * RATIO_PER_MILLE / 1_000 + FLOOR_PER_WINDOW;
        outage.over_bound = outage.over_bound.max(retries.saturating_sub(allowed));
        let amplification = ratio(first + retries, first);
        outage.worst_amplification = outage.worst_amplification.max(amplification);
    }
    let attempts = outage.first_attempts + outage.retries;
    outage.attempts_per_second = ratio(attempts, (UP_AT - DOWN_AT).as_secs());
    outage
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// A share of two counts, both far below where a float loses whole numbers.
#[allow(clippy::cast_precision_loss, reason = "counts of one run are small")]
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
