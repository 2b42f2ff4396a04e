//! 40 clients call a provider that is down from 2 s to 6 s and then takes 8 requests per 100 ms. Four
//! ways to retry: after a fixed second, after ever longer pauses, after random ones, and as the fleet's
//! budget and breaker let them.
//!
//! All clients fail together, in the first moments of the outage, which is what makes a storm. A request
//! over the capacity fails. Nobody gives up.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use semel_proto::v1;
use semel_proto::v1::breakers_server::Breakers as _;
use serde::Serialize;
use tonic::Request;

use super::{DEPENDENCY, PATIENCE, Stage, acquire, question, span};
use crate::load::{Caller, TENANT, wire};
use crate::node::Services;
use crate::random::Random;
use crate::time::SimTime;
use crate::world::{World, play};

/// How many clients there are.
pub const CLIENTS: usize = 40;
/// What the provider takes per tick.
pub const CAPACITY_PER_TICK: u32 = 8;
/// The length of a tick.
pub const TICK: Duration = Duration::from_millis(100);
/// When the provider goes down, and when the clients call it.
pub const DOWN_AT: Duration = Duration::from_secs(2);
/// When it comes back.
pub const UP_AT: Duration = Duration::from_secs(6);
/// The longest that a run may take.
const END: Duration = Duration::from_secs(600);

/// How long one call to the provider takes.
const CALL: Duration = Duration::from_millis(10);
/// The base of all pauses.
const BASE: Duration = Duration::from_secs(1);
/// The longest pause.
const CAP: Duration = Duration::from_secs(20);
/// Nodes of the cluster.
const NODES: usize = 3;

/// A way to retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// After one second.
    Fixed,
    /// After 1 s, 2 s, 4 s, up to 20 s.
    Exponential,
    /// After anything up to that.
    ExponentialJitter,
    /// As the fleet's budget, breaker and ramp let it.
    Semel,
}

impl Strategy {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Fixed, Self::Exponential, Self::ExponentialJitter, Self::Semel];
}

/// What came of one strategy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Played {
    /// The strategy.
    pub name: Strategy,
    /// Attempts of all clients, the first ones included.
    pub attempts: u32,
    /// The most attempts in a tick after the provider came back.
    pub peak_after_recovery: u32,
    /// When the last client was served, in seconds from the beginning.
    pub all_served_s: f64,
    /// Attempts in each tick, from the beginning.
    #[serde(skip)]
    pub per_tick: Vec<u32>,
}

/// Plays one strategy.
///
/// # Errors
///
/// The cluster could not be made.
pub fn run(strategy: Strategy, seed: u64) -> io::Result<Played> {
    play(async |world| {
        let provider = Rc::new(Provider { time: world.time, ticks: RefCell::default() });
        let mut random = Random::new(seed);
        match strategy {
            Strategy::Semel => with_semel(&world, &provider, seed).await?,
            _ => {
                for _ in 0..CLIENTS {
                    let client = alone(Rc::clone(&provider), strategy, random.fork());
                    world.tasks.spawn(client);
                }
            }
        }
        // A client that is never served would keep the run for ever.
        drop(tokio::time::timeout(END, world.tasks.finished()).await);
        let ticks = provider.ticks.borrow();
        let per_tick: Vec<u32> = ticks.iter().map(|tick| tick.attempts).collect();
        let back = usize::try_from(UP_AT.as_millis() / TICK.as_millis()).unwrap_or(0);
        let last = ticks.iter().filter_map(|tick| tick.last_served_us).max().unwrap_or(u64::MAX);
        Ok(Played {
            name: strategy,
            attempts: per_tick.iter().sum(),
            peak_after_recovery: per_tick.iter().skip(back).copied().max().unwrap_or(0),
            all_served_s: Duration::from_micros(last).as_secs_f64(),
            per_tick,
        })
    })?
}

/// What the clients call.
struct Provider {
    time: SimTime,
    ticks: RefCell<Vec<Tick>>,
}

#[derive(Clone, Copy, Default)]
struct Tick {
    attempts: u32,
    served: u32,
    last_served_us: Option<u64>,
}

impl Provider {
    /// Calls it. Whether it answered well.
    async fn call(&self) -> bool {
        let now_us = self.time.now_us();
        let served = {
            let mut ticks = self.ticks.borrow_mut();
            let position = usize::try_from(u128::from(now_us) / TICK.as_micros()).unwrap_or(0);
            if ticks.len() <= position {
                ticks.resize(position + 1, Tick::default());
            }
            ticks.get_mut(position).is_some_and(|tick| {
                tick.attempts += 1;
                let down = (DOWN_AT..UP_AT).contains(&Duration::from_micros(now_us));
                let served = !down && tick.served < CAPACITY_PER_TICK;
                if served {
                    tick.served += 1;
                    tick.last_served_us = Some(now_us);
                }
                served
            })
        };
        tokio::time::sleep(CALL).await;
        served
    }
}

/// A client that retries by itself.
async fn alone(provider: Rc<Provider>, strategy: Strategy, mut random: Random) {
    provider.time.until(DOWN_AT).await;
    let mut step = BASE;
    while !provider.call().await {
        let pause = match strategy {
            Strategy::Fixed => BASE,
            Strategy::Exponential => step,
            _ => step.mul_f64(random.share()),
        };
        tokio::time::sleep(pause).await;
        step = (step * 2).min(CAP);
    }
}

async fn with_semel(world: &World, provider: &Rc<Provider>, seed: u64) -> io::Result<()> {
    let mut stage = Stage::new(world, NODES, seed)?;
    stage.set_retry_policy(retry_policy()).await?;
    stage.set_breaker_policy(breaker_policy()).await?;
    for number in 0..CLIENTS {
        let mut caller = stage.caller();
        let client = Client {
            node: number % NODES,
            reporter: caller.random.id(),
            request_id: caller.random.id(),
            provider: Rc::clone(provider),
            caller,
            seq: 0,
            generation: 0,
            attempts: 0,
        };
        world.tasks.spawn(client.work());
    }
    Ok(())
}

/// Up to 20 retries in any second, spread over another: the provider takes 80.
fn retry_policy() -> v1::RetryPolicy {
    let second = Some(wire(Duration::from_secs(1)));
    v1::RetryPolicy {
        floor_per_second: Some(20),
        window: second,
        attempts_max: 100,
        backoff_base: second,
        backoff_base_throttled: second,
        backoff_cap: second,
        ..Default::default()
    }
}

/// It probes about every 400 ms, and then lets traffic back within another half second.
fn breaker_policy() -> v1::BreakerPolicy {
    let cool_down = Some(wire(Duration::from_millis(400)));
    v1::BreakerPolicy {
        cool_down,
        cool_down_max: cool_down,
        probe_lease: Some(wire(Duration::from_secs(1))),
        ramp_step: Some(wire(Duration::from_millis(150))),
        ..Default::default()
    }
}

/// A client that asks the fleet.
struct Client {
    caller: Caller,
    node: usize,
    reporter: bytes::Bytes,
    request_id: bytes::Bytes,
    provider: Rc<Provider>,
    seq: u64,
    generation: u64,
    attempts: u32,
}

impl Client {
    async fn work(mut self) {
        self.provider.time.until(DOWN_AT).await;
        let mut permit = None;
        loop {
            self.attempts += 1;
            let served = self.provider.call().await;
            self.report(served, permit).await;
            if served {
                return;
            }
            permit = self.wait().await;
        }
    }

    /// Waits until another attempt may be made; with a permit, if it is a probe.
    async fn wait(&mut self) -> Option<v1::ProbePermit> {
        let mut deposits = (self.attempts == 1).then(|| v1::Deposits {
            reporter: self.reporter.clone(),
            seq: 1,
            requests: 1,
            ..Default::default()
        });
        loop {
            let asked = v1::AcquireRetryTokenRequest {
                deposits: deposits.take(),
                breaker_generation: self.generation,
                ..question(self.request_id.clone(), self.attempts)
            };
            let reply = acquire(&mut self.caller, self.node, asked).await;
            self.generation = self.generation.max(reply.breaker_generation);
            if reply.verdict() == v1::RetryVerdict::Granted {
                tokio::time::sleep(span(reply.delay).unwrap_or_default()).await;
                return None;
            }
            if reply.verdict() == v1::RetryVerdict::BreakerOpen
                && let Some(permit) = self.look().await
            {
                return Some(permit);
            }
            // Not all at the same moment.
            let pause = span(reply.retry_after).unwrap_or(TICK);
            tokio::time::sleep(pause.max(TICK) + self.caller.random.millis(0, 100)).await;
        }
    }

    async fn look(&mut self) -> Option<v1::ProbePermit> {
        let sent = v1::BreakerStateRequest {
            tenant: TENANT.to_owned(),
            dependency: DEPENDENCY.to_owned(),
            reporter: self.reporter.clone(),
            want_probe: true,
            probe_id: self.caller.random.id(),
        };
        let ask = move |services: Rc<Services>| {
            let sent = sent.clone();
            async move { services.breakers().breaker_state(Request::new(sent)).await }
        };
        let reply = self.caller.call(self.node, PATIENCE, ask).await.0.ok()?;
        self.hear(reply.breaker);
        reply.permit
    }

    async fn report(&mut self, served: bool, permit: Option<v1::ProbePermit>) {
        self.seq += 1;
        let counts = match (&permit, served) {
            (Some(_), _) => v1::OutcomeCounts::default(),
            (None, true) => v1::OutcomeCounts { succeeded: 1, ..Default::default() },
            (None, false) => v1::OutcomeCounts { failed: 1, ..Default::default() },
        };
        let outcome = if served { v1::ProbeOutcome::Succeeded } else { v1::ProbeOutcome::Failed };
        let probe = |permit: v1::ProbePermit| v1::ProbeResult {
            permit: permit.id,
            outcome: outcome.into(),
        };
        let sent = v1::ReportOutcomesRequest {
            tenant: TENANT.to_owned(),
            reporter: self.reporter.clone(),
            seq: self.seq,
            node: bytes::Bytes::new(),
            outcomes: vec![v1::OutcomeReport {
                dependency: DEPENDENCY.to_owned(),
                generation: self.generation,
                counts: Some(counts),
                probes: permit.into_iter().map(probe).collect(),
            }],
        };
        let ask = move |services: Rc<Services>| {
            let sent = sent.clone();
            async move { services.breakers().report_outcomes(Request::new(sent)).await }
        };
        if let Ok(reply) = self.caller.call(self.node, PATIENCE, ask).await.0 {
            self.hear(reply.breakers.into_iter().next());
        }
    }

    fn hear(&mut self, heard: Option<v1::BreakerSnapshot>) {
        self.generation = self.generation.max(heard.map_or(0, |heard| heard.generation));
    }
}
