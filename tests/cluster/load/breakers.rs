//! Clients of dependencies that are well and sick in turn: they report, and want to probe.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use rand::RngExt;
use semel_proto::v1::{
    BreakerCondition, BreakerPolicy, BreakerSnapshot, BreakerStateRequest, BreakerStateResponse,
    OutcomeCounts, OutcomeReport, ProbeOutcome, ProbeResult, ReportOutcomesRequest,
    SetBreakerPolicyRequest,
};
use tokio_util::sync::CancellationToken;

use super::{Caller, DEADLINE, detached, insist, refusal};
use crate::call::{Client, is_unknown, now_us, proto_us, timed, within};
use crate::checker::breakers::{Permit, Sight};
use crate::support::ask::TENANT;

pub(crate) const BREAKERS: [&str; 2] = ["left", "right"];
const PROBE_LEASE: Duration = Duration::from_millis(800);

/// Sets policies under which a breaker goes through all of its states in a second or two.
pub(crate) async fn set_policies(client: &Client) {
    let lasts = |ms: u64| Some(Duration::from_millis(ms).try_into().unwrap());
    for dependency in BREAKERS {
        let policy = BreakerPolicy {
            window: lasts(2_000),
            calls_min: 10,
            cool_down: lasts(300),
            cool_down_max: lasts(600),
            successes_to_close: 2,
            probe_lease: Some(PROBE_LEASE.try_into().unwrap()),
            ..BreakerPolicy::default()
        };
        let request = SetBreakerPolicyRequest {
            tenant: TENANT.to_owned(),
            dependency: dependency.to_owned(),
            policy: Some(policy),
            expected_version: None,
            actor: "load".to_owned(),
        };
        insist(async || client.breakers.clone().set_breaker_policy(request.clone()).await).await;
    }
}

/// A client of breakers.
#[derive(Debug)]
pub(crate) struct BreakerClient {
    caller: Caller,
    reporter: [u8; 16],
    seq: u64,
    /// Whether the dependencies are sick at the moment.
    sick: Arc<AtomicBool>,
}

impl BreakerClient {
    pub(crate) fn new(mut caller: Caller, sick: &Arc<AtomicBool>) -> Self {
        let reporter = caller.ids();
        Self { caller, reporter, seq: 0, sick: Arc::clone(sick) }
    }

    pub(crate) async fn work(mut self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let dependency = BREAKERS[self.caller.random.random_range(0..BREAKERS.len())];
            self.look(dependency).await;
            self.caller.pause(Duration::from_millis(80)).await;
        }
    }

    /// Asks where the breaker stands, and for a permit; asks again with the same ids without an answer.
    async fn look(&mut self, dependency: &'static str) {
        let mut node = self.caller.any_node();
        let request = BreakerStateRequest {
            tenant: TENANT.to_owned(),
            dependency: dependency.to_owned(),
            reporter: Bytes::copy_from_slice(&self.reporter),
            want_probe: true,
            probe_id: Bytes::copy_from_slice(&self.caller.ids()),
        };
        for _ in 0..3 {
            let mut breakers = self.caller.nodes[node].breakers.clone();
            let asking = breakers.breaker_state(within(DEADLINE, request.clone()));
            let timed = timed(DEADLINE, asking).await;
            self.caller.records.count(&timed);
            match timed.result {
                Ok(reply) => {
                    let span = (timed.began_us, timed.ended_us);
                    self.note(dependency, node, &request.probe_id, &reply, span);
                    return self.act(dependency, node, reply).await;
                }
                Err(status) if is_unknown(&status) => node = self.caller.next_node(node),
                Err(status) => {
                    let refused = refusal(&status, &request);
                    return self
                        .caller
                        .records
                        .breaker(dependency, |history| history.refused.push(refused));
                }
            }
        }
    }

    fn note(
        &self,
        dependency: &str,
        node: usize,
        asked: &Bytes,
        reply: &BreakerStateResponse,
        (began_us, ended_us): (u64, u64),
    ) {
        let permit = reply.permit.as_ref().map(|permit| Permit {
            id: detached(&permit.id),
            asked: asked.clone(),
            answered_us: ended_us,
            until_us: began_us + proto_us(permit.expires_in),
            reported_us: None,
        });
        let snapshot = reply.breaker.as_ref().filter(|_| !reply.degraded);
        let sight = snapshot.map(|snapshot| Sight {
            node: node.to_string(),
            generation: snapshot.generation,
            condition: snapshot.condition(),
            began_us,
            ended_us,
        });
        self.caller.records.breaker(dependency, |history| {
            history.permits.extend(permit);
            history.sights.extend(sight);
        });
    }

    /// Probes if it may, calls if the breaker is closed, and reports what came of it.
    async fn act(&mut self, dependency: &str, node: usize, reply: BreakerStateResponse) {
        let snapshot: BreakerSnapshot = reply.breaker.unwrap_or_default();
        let mut report = OutcomeReport {
            dependency: dependency.to_owned(),
            generation: snapshot.generation,
            ..OutcomeReport::default()
        };
        if let Some(permit) = reply.permit {
            let longest =
                if self.caller.once_in(4) { PROBE_LEASE.mul_f64(1.5) } else { PROBE_LEASE / 10 };
            self.caller.pause(longest).await;
            let outcome = match self.sick.load(Ordering::Relaxed) {
                _ if self.caller.once_in(10) => ProbeOutcome::Inconclusive,
                true => ProbeOutcome::Failed,
                false => ProbeOutcome::Succeeded,
            };
            let began_us = now_us();
            self.caller.records.breaker(dependency, |history| {
                let own = history.permits.iter_mut().rev().filter(|it| it.id == permit.id);
                own.for_each(|it| it.reported_us = Some(began_us));
            });
            report.probes.push(ProbeResult { permit: permit.id, outcome: outcome.into() });
        } else if snapshot.condition() == BreakerCondition::Closed {
            let calls = self.caller.random.random_range(1..=4);
            let sick = self.sick.load(Ordering::Relaxed);
            let (succeeded, failed) = if sick { (0, calls) } else { (calls, 0) };
            report.counts = Some(OutcomeCounts { succeeded, failed, slow: 0, ignored: 0 });
        } else {
            return;
        }
        self.report(node, report).await;
    }

    async fn report(&mut self, node: usize, report: OutcomeReport) {
        self.seq += 1;
        let dependency = report.dependency.clone();
        let request = ReportOutcomesRequest {
            tenant: TENANT.to_owned(),
            reporter: Bytes::copy_from_slice(&self.reporter),
            seq: self.seq,
            node: Bytes::new(),
            outcomes: vec![report],
        };
        let mut breakers = self.caller.nodes[node].breakers.clone();
        let timed = timed(DEADLINE, breakers.report_outcomes(within(DEADLINE, request))).await;
        self.caller.records.count(&timed);
        if let Err(status) = timed.result.as_ref()
            && !is_unknown(status)
        {
            let refused = refusal(status, &dependency);
            self.caller.records.breaker(&dependency, |history| history.refused.push(refused));
        }
    }
}
