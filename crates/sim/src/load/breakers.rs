//! Callers of the Breakers service: they call a dependency that is down at times, as far as the breaker
//! lets them, report what came of it, some of them late, and probe when a probe is due.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use semel_proto::v1;
use semel_proto::v1::breakers_server::Breakers as _;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tonic::Request;

use super::{Caller, TENANT, micros};
use crate::node::Services;
use crate::oracle::Span;
use crate::oracle::breakers::{Breaker, Observer};
use crate::plant::Plant;

/// How often a call is sent before its caller gives up.
const SENDS_MAX: u32 = 4;
/// Changes of one stream that may wait to be taken note of.
const CHANGES_MAX: usize = 64;
/// What all callers of this load call.
pub(crate) const DEPENDENCY: &str = "mailer";
/// What the callers call: it is down at times.
#[derive(Debug, Default)]
pub(crate) struct Dependency {
    down: Cell<bool>,
    /// It goes down no more, and its callers pull themselves together.
    calm: Cell<bool>,
}

impl Dependency {
    /// Goes up and down until `end`, and is up from then on.
    pub(crate) async fn live(self: Rc<Self>, caller: Caller, end: Duration) {
        let Caller { world, mut random, .. } = caller;
        let end_us = u64::try_from(end.as_micros()).unwrap_or(u64::MAX);
        while world.time.now_us() < end_us {
            tokio::time::sleep(random.millis(300, 3_000)).await;
            self.down.set(!self.down.get() && world.time.now_us() < end_us);
            world.log.note(format_args!("{DEPENDENCY} is down: {}", self.down.get()));
        }
        self.down.set(false);
        self.calm.set(true);
    }
}

/// One caller of the Breakers service.
pub(crate) struct BreakersCaller {
    pub(crate) caller: Caller,
    pub(crate) oracle: Rc<RefCell<Breaker>>,
    pub(crate) dependency: Rc<Dependency>,
    pub(crate) plant: Option<Plant>,
    reporter: Bytes,
    seq: u64,
    /// What was heard of each node's id, by its number.
    nodes: BTreeMap<usize, Bytes>,
    /// The newest state that this caller heard of.
    known: v1::BreakerSnapshot,
    /// Outcomes not yet reported, and the generation under which they came about.
    outcomes: v1::OutcomeCounts,
    under: u64,
}

impl BreakersCaller {
    pub(crate) fn new(
        mut caller: Caller,
        oracle: Rc<RefCell<Breaker>>,
        dependency: Rc<Dependency>,
        plant: Option<Plant>,
    ) -> Self {
        let known = v1::BreakerSnapshot {
            condition: v1::BreakerCondition::Closed.into(),
            admitted_per_mille: 1_000,
            ..Default::default()
        };
        let (reporter, outcomes) = (caller.random.id(), v1::OutcomeCounts::default());
        Self {
            caller,
            oracle,
            dependency,
            plant,
            reporter,
            seq: 0,
            nodes: BTreeMap::new(),
            known,
            outcomes,
            under: 0,
        }
    }

    /// Works for ever.
    pub(crate) async fn work(mut self) {
        loop {
            self.turn().await;
            self.caller.pause(160).await;
        }
    }

    async fn turn(&mut self) {
        if self.known.condition() == v1::BreakerCondition::Closed {
            self.call_dependency();
        } else {
            self.probe().await;
        }
        if self.caller.random.happens(400) {
            let (outcomes, under) = (std::mem::take(&mut self.outcomes), self.under);
            if !self.dependency.calm.get() && self.caller.random.happens(150) {
                // Held back for so long that others see it as late.
                self.caller.pause(2_500).await;
            }
            self.report(outcomes, under, Vec::new()).await;
        }
        if self.caller.random.happens(150) {
            self.look(false).await;
        }
    }

    fn call_dependency(&mut self) {
        if self.under != self.known.generation {
            self.outcomes = v1::OutcomeCounts::default();
            self.under = self.known.generation;
        }
        let calls = self.caller.random.between(1, 6);
        let admitted = calls * u64::from(self.known.admitted_per_mille) / 1_000;
        for _ in 0..admitted {
            let fails = self.dependency.down.get() || self.caller.random.happens(20);
            if fails {
                self.outcomes.failed += 1;
            } else {
                self.outcomes.succeeded += 1;
            }
        }
        self.outcomes.ignored += u64::from(self.caller.random.happens(50));
    }

    /// Takes note of a state that a node told.
    fn heard(&mut self, node: usize, named: &str, heard: v1::BreakerSnapshot, span: Span) {
        let name = self.name_of(node);
        // Whichever process it was, if another has started since.
        if name == named {
            let by = Observer::Node(name);
            self.oracle.borrow_mut().observed(&by, &heard, span);
        }
        if heard.generation >= self.known.generation {
            self.known = heard;
        }
    }

    fn name_of(&self, node: usize) -> String {
        self.caller.cluster.node(node).map(|node| node.name()).unwrap_or_default()
    }

    async fn report(
        &mut self,
        counts: v1::OutcomeCounts,
        generation: u64,
        probes: Vec<v1::ProbeResult>,
    ) {
        self.seq += 1;
        let node = self.caller.any_node();
        // Nothing that would count twice is entrusted to a node whose id is not known.
        let id = self.nodes.get(&node).cloned();
        let counts = if id.is_some() { counts } else { v1::OutcomeCounts::default() };
        self.oracle.borrow_mut().reporting(generation, counts.failed);
        let named = self.name_of(node);
        let mut sent = v1::ReportOutcomesRequest {
            tenant: TENANT.to_owned(),
            reporter: self.reporter.clone(),
            seq: self.seq,
            node: id.unwrap_or_default(),
            outcomes: vec![v1::OutcomeReport {
                dependency: DEPENDENCY.to_owned(),
                generation,
                counts: Some(counts),
                probes,
            }],
        };
        let newest = self.oracle.borrow().newest();
        Plant::rejuvenate(self.plant, &mut sent, newest);
        let ask = move |services: Rc<Services>| {
            let sent = sent.clone();
            async move { services.breakers().report_outcomes(Request::new(sent)).await }
        };
        for _ in 0..SENDS_MAX {
            let patience = self.caller.random.millis(50, 800);
            let (answer, span) = self.caller.call(node, patience, ask.clone()).await;
            let who = self.caller.number;
            match answer {
                Ok(reply) => {
                    self.nodes.insert(node, reply.node);
                    let (counted, now) = (reply.counted, reply.breakers.into_iter().next());
                    let now = now.unwrap_or_default();
                    self.caller.world.log.note(format_args!(
                        "{who} reports {} of {generation} to {node}: {counted}, {:?} {}",
                        counts.failed,
                        now.condition(),
                        now.generation
                    ));
                    return self.heard(node, &named, now, span);
                }
                Err(reason) => {
                    self.caller.world.log.note(format_args!("{who} reports to {node}: {reason}"));
                }
            }
            self.caller.pause(200).await;
        }
        // It may be another process by now.
        self.nodes.remove(&node);
    }

    /// Asks for the state; with `want_probe`, for a permit.
    async fn look(&mut self, want_probe: bool) -> Option<v1::ProbePermit> {
        let probe_id = if want_probe { self.caller.random.id() } else { Bytes::new() };
        let sent = v1::BreakerStateRequest {
            tenant: TENANT.to_owned(),
            dependency: DEPENDENCY.to_owned(),
            reporter: self.reporter.clone(),
            want_probe,
            probe_id,
        };
        let ask = move |services: Rc<Services>| {
            let sent = sent.clone();
            async move { services.breakers().breaker_state(Request::new(sent)).await }
        };
        for _ in 0..2 {
            let node = self.caller.any_node();
            let (named, patience) = (self.name_of(node), self.caller.random.millis(50, 600));
            let (answer, span) = self.caller.call(node, patience, ask.clone()).await;
            let Ok(reply) = answer else { continue };
            let (who, heard) = (self.caller.number, reply.breaker.unwrap_or_default());
            self.caller.world.log.note(format_args!(
                "{who} looks at {node}: {:?} {}, permitted: {}",
                heard.condition(),
                heard.generation,
                reply.permit.is_some()
            ));
            self.heard(node, &named, heard, span);
            if let Some(permit) = &reply.permit {
                let (id, lease_us) = (permit.id.clone(), micros(permit.expires_in.as_ref()));
                self.oracle.borrow_mut().permitted(id, permit.generation, lease_us, span);
            }
            return reply.permit;
        }
        None
    }

    async fn probe(&mut self) {
        let Some(permit) = self.look(true).await else { return };
        // Some take longer than they may, and some are never heard of again.
        let calm = self.dependency.calm.get();
        self.caller.pause(if calm { 100 } else { 1_000 }).await;
        let outcome = match self.caller.random.between(0, 9) {
            _ if calm => v1::ProbeOutcome::Succeeded,
            0 => return,
            1 => v1::ProbeOutcome::Inconclusive,
            _ if self.dependency.down.get() => v1::ProbeOutcome::Failed,
            _ => v1::ProbeOutcome::Succeeded,
        };
        let now_us = self.caller.world.time.now_us();
        self.oracle.borrow_mut().reporting_probe(&permit.id, outcome, now_us);
        let result = v1::ProbeResult { permit: permit.id, outcome: outcome.into() };
        self.report(v1::OutcomeCounts::default(), permit.generation, vec![result]).await;
    }
}

/// Watches the breaker at one node after another, for ever. Its nodes are those of every `all`th number
/// from `own` on, since a node wakes several watchers in random order.
pub(crate) async fn watch(
    mut caller: Caller,
    oracle: Rc<RefCell<Breaker>>,
    (own, all): (usize, usize),
) {
    let nodes: Vec<usize> = (own..caller.cluster.nodes.len()).step_by(all).collect();
    for stream in 0.. {
        let node = caller.random.pick(&nodes).copied().unwrap_or(own);
        let (changes, heard) = mpsc::channel(CHANGES_MAX);
        let sent = v1::WatchBreakersRequest {
            tenant: TENANT.to_owned(),
            dependencies: vec![DEPENDENCY.to_owned()],
        };
        // The stream is a part of the node's process: it ends and stops with it.
        if let Some(node) = caller.cluster.node(node) {
            let ask = move |services: Rc<Services>| follow(services, sent, changes);
            node.serve(ask, None, drop);
        }
        let patience = caller.random.millis(500, 6_000);
        let hear = note_changes(&caller, &oracle, node, (caller.number, stream), heard);
        drop(tokio::time::timeout(patience, hear).await);
        caller.pause(100).await;
    }
}

async fn follow(
    services: Rc<Services>,
    request: v1::WatchBreakersRequest,
    changes: mpsc::Sender<v1::WatchBreakersResponse>,
) {
    let Ok(reply) = services.breakers().watch_breakers(Request::new(request)).await else { return };
    let mut stream = std::pin::pin!(reply.into_inner());
    while let Some(Ok(change)) = stream.next().await {
        if changes.send(change).await.is_err() {
            return;
        }
    }
}

async fn note_changes(
    caller: &Caller,
    oracle: &RefCell<Breaker>,
    node: usize,
    (number, stream): (usize, u64),
    mut heard: mpsc::Receiver<v1::WatchBreakersResponse>,
) {
    let by = Observer::Watch(stream * 100 + u64::try_from(number).unwrap_or_default());
    while let Some(change) = heard.recv().await {
        let now_us = caller.world.time.now_us();
        let snapshot = change.breaker.unwrap_or_default();
        caller.world.log.note(format_args!(
            "{number} watches {node}: {:?} {}",
            snapshot.condition(),
            snapshot.generation
        ));
        let span = Span { sent_us: now_us, answered_us: now_us };
        oracle.borrow_mut().observed(&by, &snapshot, span);
    }
}

/// Asks every node until it says that the breaker is closed, its dependency being well.
pub(crate) async fn expect_answers(caller: &mut Caller) {
    let sent = v1::BreakerStateRequest {
        tenant: TENANT.to_owned(),
        dependency: DEPENDENCY.to_owned(),
        ..Default::default()
    };
    let ask = move |services: Rc<Services>| {
        let sent = sent.clone();
        async move {
            let reply = services.breakers().breaker_state(Request::new(sent)).await?;
            let breaker = reply.get_ref().breaker.clone().unwrap_or_default();
            if reply.get_ref().degraded || breaker.condition() != v1::BreakerCondition::Closed {
                return Err(super::unavailable("it is not closed"));
            }
            Ok(reply)
        }
    };
    caller.expect_answers("a closed breaker", ask).await;
}
