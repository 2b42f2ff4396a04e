//! Words for the tests of breakers: a fleet of nodes over one store, its clients, its messages.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_proto::v1;
use semel_proto::v1::breakers_client::BreakersClient;
use semel_server::NodeOptions;
use semel_store::{Clock, SystemClock};
use tokio_stream::StreamExt;
use tonic::transport::Channel;
use tonic::{IntoRequest, Streaming};

use crate::support::*;

pub(crate) use v1::{
    BreakerCondition as Condition, BreakerOverride as Force, ProbeOutcome as Probed,
};

/// A node's client.
#[derive(Clone)]
pub(crate) struct Breakers(pub(crate) BreakersClient<Channel>);

macro_rules! calls {
    ($($name:ident: $call:ident($request:ident) -> $reply:ident;)*) => {
        impl Breakers {
            $(pub(crate) async fn $name(
                &self,
                request: impl IntoRequest<v1::$request>,
            ) -> Result<v1::$reply, Refused> {
                match self.0.clone().$call(request).await {
                    Ok(response) => Ok(response.into_inner()),
                    Err(status) => Err(Refused::of(&status)),
                }
            })*
        }
    };
}

calls! {
    state: breaker_state(BreakerStateRequest) -> BreakerStateResponse;
    report: report_outcomes(ReportOutcomesRequest) -> ReportOutcomesResponse;
    force: override_breaker(OverrideBreakerRequest) -> OverrideBreakerResponse;
    set_policy: set_breaker_policy(SetBreakerPolicyRequest) -> SetBreakerPolicyResponse;
    get_policy: get_breaker_policy(GetBreakerPolicyRequest) -> GetBreakerPolicyResponse;
    list: list_breakers(ListBreakersRequest) -> ListBreakersResponse;
}

impl Breakers {
    pub(crate) async fn connect(node: &TestNode) -> Self {
        Self(BreakersClient::new(channel(node.address()).await))
    }

    pub(crate) async fn watch(&self, dependencies: &[&str]) -> Result<Changes, Refused> {
        let dependencies = dependencies.iter().map(|&name| name.to_owned()).collect();
        let request = v1::WatchBreakersRequest { tenant: TENANT.to_owned(), dependencies };
        match self.0.clone().watch_breakers(request).await {
            Ok(response) => Ok(Changes(response.into_inner())),
            Err(status) => Err(Refused::of(&status)),
        }
    }

    /// How the breaker stands now.
    pub(crate) async fn now(&self) -> v1::BreakerSnapshot {
        self.state(ask()).await.expect("answered").breaker.expect("a breaker")
    }

    /// Waits until the breaker stands so.
    pub(crate) async fn until(
        &self,
        stands: impl FnMut(&v1::BreakerSnapshot) -> bool,
    ) -> v1::BreakerSnapshot {
        self.watch(&[STRIPE]).await.expect("watches").until(stands).await
    }

    /// The permit, if there was one to give.
    pub(crate) async fn probe(&self, question: u8) -> Option<v1::ProbePermit> {
        self.state(ask_to_probe(question)).await.expect("answered").permit
    }

    /// Says what became of a probe.
    pub(crate) async fn probed(&self, seq: u64, permit: &v1::ProbePermit, outcome: Probed) {
        let result = v1::ProbeResult { permit: permit.id.clone(), outcome: outcome.into() };
        let mut report = report(99, seq, permit.generation, counts(0, 0));
        report.outcomes[0].probes = vec![result];
        self.report(report).await.expect("reported");
    }
}

/// A stream of changes.
pub(crate) struct Changes(pub(crate) Streaming<v1::WatchBreakersResponse>);

impl Changes {
    pub(crate) async fn next(&mut self) -> v1::WatchBreakersResponse {
        within(self.0.next()).await.expect("it goes on").expect("a change")
    }

    pub(crate) async fn until(
        &mut self,
        mut stands: impl FnMut(&v1::BreakerSnapshot) -> bool,
    ) -> v1::BreakerSnapshot {
        loop {
            let breaker = self.next().await.breaker.expect("a breaker");
            if stands(&breaker) {
                return breaker;
            }
        }
    }
}

/// Nodes over one store, and a client of each.
pub(crate) struct Fleet {
    pub(crate) nodes: Vec<TestNode>,
    pub(crate) clients: Vec<Breakers>,
}

impl Fleet {
    /// So many nodes; the breaker of [`STRIPE`] opens after four calls, and does all else fast.
    pub(crate) async fn start(nodes: usize) -> Self {
        Self::with(nodes, |_| {}, |_| {}).await
    }

    pub(crate) async fn with(
        count: usize,
        options: impl Fn(&mut NodeOptions),
        policy: impl FnOnce(&mut v1::BreakerPolicy),
    ) -> Self {
        let first = TestNode::with(&options).await;
        let client = Breakers::connect(&first).await;
        let mut fleet = Self { nodes: vec![first], clients: vec![client] };
        let mut fast = v1::BreakerPolicy {
            calls_min: 4,
            window: Some(milliseconds(60_000)),
            cool_down: Some(milliseconds(200)),
            cool_down_max: Some(milliseconds(400)),
            successes_to_close: 2,
            probe_lease: Some(milliseconds(60_000)),
            ramp_step: Some(milliseconds(0)),
            ..Default::default()
        };
        policy(&mut fast);
        fleet.clients[0].set_policy(policy_of(fast)).await.expect("set");
        for _ in 1..count {
            fleet.join(&options).await;
        }
        fleet
    }

    /// One more node.
    pub(crate) async fn join(&mut self, options: impl Fn(&mut NodeOptions)) {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let store = self.nodes[0].store.share(Arc::clone(&clock));
        let node = TestNode::over(store, clock, options).await;
        self.clients.push(Breakers::connect(&node).await);
        self.nodes.push(node);
    }

    /// Two reporters at the first node fail, until it is open for everybody.
    pub(crate) async fn open(&self) -> v1::BreakerSnapshot {
        let generation = self.clients[0].now().await.generation;
        for reporter in [1, 2] {
            let seq = generation + 1;
            let failed = report(reporter, seq, generation, counts(0, 4));
            assert!(self.clients[0].report(failed).await.expect("reported").counted);
        }
        let mut open = None;
        for client in &self.clients {
            let later = |breaker: &v1::BreakerSnapshot| breaker.generation > generation;
            open = Some(client.until(later).await);
        }
        let open = open.expect("a node");
        assert_eq!((open.condition(), open.generation), (Condition::Open, generation + 1));
        open
    }

    /// Opens it, and waits until a probe may find out, on every node.
    pub(crate) async fn open_and_cool_down(&self) {
        self.open().await;
        for client in &self.clients {
            client.until(|breaker| breaker.probe_due).await;
        }
    }

    /// Waits until the first node's breaker stands so; for what watchers are not told.
    pub(crate) async fn until_counts(
        &self,
        mut stands: impl FnMut(&v1::BreakerSnapshot) -> bool,
    ) -> v1::BreakerSnapshot {
        loop {
            let used = self.nodes[0].store.seen().ended;
            let breaker = self.clients[0].now().await;
            if stands(&breaker) {
                return breaker;
            }
            self.nodes[0].store.until(|seen| seen.ended > used).await;
        }
    }
}

pub(crate) const TENANT: &str = "acme";
pub(crate) const STRIPE: &str = "stripe";

pub(crate) fn ask() -> v1::BreakerStateRequest {
    v1::BreakerStateRequest {
        tenant: TENANT.to_owned(),
        dependency: STRIPE.to_owned(),
        ..Default::default()
    }
}

pub(crate) fn ask_as(reporter: u8) -> v1::BreakerStateRequest {
    v1::BreakerStateRequest { reporter: id(reporter), ..ask() }
}

pub(crate) fn ask_to_probe(question: u8) -> v1::BreakerStateRequest {
    v1::BreakerStateRequest { want_probe: true, probe_id: id(question), ..ask() }
}

pub(crate) fn counts(succeeded: u64, failed: u64) -> v1::OutcomeCounts {
    v1::OutcomeCounts { succeeded, failed, ..Default::default() }
}

pub(crate) fn report(
    reporter: u8,
    seq: u64,
    generation: u64,
    counts: v1::OutcomeCounts,
) -> v1::ReportOutcomesRequest {
    v1::ReportOutcomesRequest {
        tenant: TENANT.to_owned(),
        reporter: id(reporter),
        seq,
        node: Bytes::new(),
        outcomes: vec![v1::OutcomeReport {
            dependency: STRIPE.to_owned(),
            generation,
            counts: Some(counts),
            probes: Vec::new(),
        }],
    }
}

pub(crate) fn policy_of(policy: v1::BreakerPolicy) -> v1::SetBreakerPolicyRequest {
    v1::SetBreakerPolicyRequest {
        tenant: TENANT.to_owned(),
        dependency: STRIPE.to_owned(),
        policy: Some(policy),
        expected_version: None,
        actor: "ops".to_owned(),
    }
}

pub(crate) fn force(kind: Force, expires_in_ms: Option<u64>) -> v1::OverrideBreakerRequest {
    v1::OverrideBreakerRequest {
        tenant: TENANT.to_owned(),
        dependency: STRIPE.to_owned(),
        r#override: kind.into(),
        expires_in: expires_in_ms.map(milliseconds),
        actor: "ops".to_owned(),
        reason: "drill".to_owned(),
    }
}

pub(crate) fn id(byte: u8) -> Bytes {
    Bytes::from(vec![byte; 16])
}

/// The total of what is counted.
pub(crate) fn calls(breaker: &v1::BreakerSnapshot) -> u64 {
    breaker.counts.map_or(0, |counts| counts.succeeded + counts.failed)
}

pub(crate) fn left(wire: Option<prost_types::Duration>) -> Duration {
    duration(wire)
}
