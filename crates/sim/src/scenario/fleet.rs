//! One budget of 100 nodes and 10,000 clients, all of whom want more than there is: how much of what may
//! be granted is granted, how evenly, and how soon again after a third of the nodes vanished.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use semel_proto::v1;
use serde::Serialize;

use super::total_outage::ratio;
use super::{Stage, question};
use crate::load::Caller;
use crate::node::Services;
use crate::world::{World, play};
use semel_proto::v1::retries_server::Retries as _;
use tonic::Request;

/// First attempts of each client in a second.
const FIRST_PER_SECOND: u64 = 5;
/// The policy: the defaults, named.
const RATIO_PER_MILLE: u64 = 100;
const FLOOR_PER_SECOND: u64 = 10;
const WINDOW: Duration = Duration::from_secs(10);
const LEASE: Duration = Duration::from_secs(1);
/// How long a client does without a retry: it would use a quarter more than there is.
const CONTENT_MS: u64 = 1_600;
/// How long a client waits before it asks again.
const ASK_AGAIN_MS: u64 = 200;
/// How long an answer is waited for: a node that vanished gives none.
const ANSWER_WITHIN: Duration = Duration::from_millis(300);
/// When measuring begins, when a third of the nodes vanishes, and when it ends.
const WARM: Duration = Duration::from_secs(12);
const VANISH: Duration = Duration::from_secs(72);
const END: Duration = Duration::from_secs(78);
/// What is measured is measured in steps of this length.
const STEP: Duration = Duration::from_millis(100);
/// What counts as converged: this share of what may be granted, in thousandths, over a second.
const CONVERGED_PER_MILLE: u64 = 970;

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fleet {
    /// Nodes of the cluster.
    pub nodes: usize,
    /// Clients.
    pub clients: usize,
    /// The granted share of what may be granted, under demand.
    pub utilisation: f64,
    /// Retries granted over the published bound, in the worst window: 0.
    pub granted_over_bound: u64,
    /// What the luckiest client got, against the unluckiest.
    pub fairness_ratio: f64,
    /// How long after the loss of a third of the nodes as much is granted again as may be.
    pub reconverged_s: f64,
}

/// What happened, step by step.
#[derive(Default)]
struct Seen {
    first: Vec<u64>,
    granted: Vec<u64>,
    /// What each client got until the nodes vanished.
    by_client: Vec<u64>,
}

/// Plays it.
///
/// # Errors
///
/// The cluster could not be made.
pub fn run(nodes: usize, clients: usize, seed: u64) -> io::Result<Fleet> {
    play(async |world| {
        let seen = Rc::new(RefCell::new(Seen::default()));
        seen.borrow_mut().by_client.resize(clients, 0);
        let mut stage = Stage::new(&world, nodes, seed)?;
        for _ in 0..clients {
            world.tasks.spawn(want(stage.caller(), Rc::clone(&seen)));
        }
        world.time.until(VANISH).await;
        stage.cluster.nodes.iter().take(nodes / 3).for_each(|node| node.crash());
        world.time.until(END).await;
        world.tasks.abort();
        Ok(judge(&seen.take(), nodes))
    })?
}

/// One client: it wants a retry, asks until it gets one, is content for a while, and wants another.
async fn want(mut caller: Caller, seen: Rc<RefCell<Seen>>) {
    let (reporter, number) = (caller.random.id(), caller.number);
    let mut node = number;
    let mut reported_us = caller.world.time.now_us();
    let mut seq = 0;
    loop {
        tokio::time::sleep(caller.random.millis(CONTENT_MS - 100, CONTENT_MS + 100)).await;
        let request_id = caller.random.id();
        loop {
            while !caller.cluster.node(node).is_some_and(|node| node.is_up()) {
                node = caller.any_node();
            }
            seq += 1;
            let requests = first_attempts(&caller.world, &mut reported_us, &seen);
            let mut asked = question(request_id.clone(), 1);
            asked.deposits = Some(v1::Deposits {
                reporter: reporter.clone(),
                seq,
                requests,
                ..Default::default()
            });
            let ask = move |services: Rc<Services>| {
                let sent = asked.clone();
                async move { services.retries().acquire_retry_token(Request::new(sent)).await }
            };
            let reply = caller.call(node, ANSWER_WITHIN, ask).await.0.unwrap_or_default();
            if reply.verdict() == v1::RetryVerdict::Granted {
                note_grant(&caller.world, number, &seen);
                break;
            }
            tokio::time::sleep(caller.random.millis(ASK_AGAIN_MS / 2, ASK_AGAIN_MS * 3 / 2)).await;
        }
    }
}

/// The first attempts since the last report. They come evenly, and none is forgotten.
fn first_attempts(world: &World, reported_us: &mut u64, seen: &RefCell<Seen>) -> u64 {
    let each_us = 1_000_000 / FIRST_PER_SECOND;
    let count = world.time.now_us().saturating_sub(*reported_us) / each_us;
    *reported_us += count * each_us;
    add(&mut seen.borrow_mut().first, world, count);
    count
}

fn note_grant(world: &World, number: usize, seen: &RefCell<Seen>) {
    let mut seen = seen.borrow_mut();
    add(&mut seen.granted, world, 1);
    let now = Duration::from_micros(world.time.now_us());
    if (WARM..VANISH).contains(&now)
        && let Some(granted) = seen.by_client.get_mut(number)
    {
        *granted += 1;
    }
}

fn add(steps: &mut Vec<u64>, world: &World, count: u64) {
    let now = Duration::from_micros(world.time.now_us());
    let at = step_of(now);
    if steps.len() <= at {
        steps.resize(at + 1, 0);
    }
    if let Some(step) = steps.get_mut(at) {
        *step += count;
    }
}

fn step_of(at: Duration) -> usize {
    usize::try_from(at.as_millis() / STEP.as_millis()).unwrap_or(usize::MAX)
}

fn judge(seen: &Seen, nodes: usize) -> Fleet {
    let (warm, vanish, end) = (step_of(WARM), step_of(VANISH), step_of(END));
    let sum =
        |steps: &[u64], from: usize, to: usize| -> u64 { steps.iter().take(to).skip(from).sum() };
    // In thousandths, of what happens from one step to another.
    let may_milli = |from: usize, to: usize| {
        let steps = u64::try_from(to - from).unwrap_or(u64::MAX);
        let step_ms = u64::try_from(STEP.as_millis()).unwrap_or(u64::MAX);
        sum(&seen.first, from, to) * RATIO_PER_MILLE + FLOOR_PER_SECOND * steps * step_ms
    };
    let most = seen.by_client.iter().copied().max().unwrap_or(0);
    let least = seen.by_client.iter().copied().min().unwrap_or(0);
    let second = step_of(Duration::from_secs(1));
    let converged = (vanish..end.saturating_sub(second)).find(|from| {
        let granted = sum(&seen.granted, *from, from + second) * 1_000;
        granted * 1_000 >= may_milli(*from, from + second) * CONVERGED_PER_MILLE
    });
    let took = converged.unwrap_or(end).saturating_sub(vanish);
    let took = STEP * u32::try_from(took).unwrap_or(u32::MAX);
    Fleet {
        nodes,
        clients: seen.by_client.len(),
        utilisation: ratio(sum(&seen.granted, warm, vanish) * 1_000, may_milli(warm, vanish)),
        granted_over_bound: over_bound(seen, end),
        fairness_ratio: ratio(most, least.max(1)),
        reconverged_s: took.as_secs_f64(),
    }
}

/// By how much the worst of all windows is over the published bound.
fn over_bound(seen: &Seen, end: usize) -> u64 {
    let lookback = step_of(WINDOW + LEASE);
    let up_to = |steps: &[u64]| -> Vec<u64> {
        let mut sum = 0;
        let sums = (0..end).map(|at| {
            sum += steps.get(at).copied().unwrap_or(0);
            sum
        });
        std::iter::once(0).chain(sums).collect()
    };
    let (first, granted) = (up_to(&seen.first), up_to(&seen.granted));
    let between = |sums: &[u64], from: usize, to: usize| {
        let at = |at: usize| sums.get(at).copied().unwrap_or(0);
        at(to) - at(from)
    };
    let step_ms = u64::try_from(STEP.as_millis()).unwrap_or(u64::MAX);
    let mut worst = 0;
    for from in 0..end {
        for to in from + 1..=end {
            let paying = between(&first, from.saturating_sub(lookback), to);
            let steps = u64::try_from(to - from + lookback).unwrap_or(u64::MAX);
            let may_milli = paying * RATIO_PER_MILLE + FLOOR_PER_SECOND * steps * step_ms;
            let milli = between(&granted, from, to) * 1_000;
            worst = worst.max(milli.saturating_sub(may_milli).div_ceil(1_000));
        }
    }
    worst
}
