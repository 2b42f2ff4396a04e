//! The calls of services: ask, report, watch. Those of operators have a file of their own.

use std::sync::Arc;

use futures::stream::{BoxStream, StreamExt};
use semel_domain::breaker::{
    Command, Grant, Outcome, Probe, ProbeOutcome, Record, State, isolated_for,
};
use semel_proto::v1;
use semel_store::Store;
use tonic::{Request, Response, Status, Streaming};

use super::operators::mixed_up;
use super::shared::Breakers;
use super::view::View;
use super::watching::{self, Changes};
use super::{parse, reply};
use crate::deadline::Deadline;
use crate::refusal::{Reason, Refusal};
use crate::wire::{self, wire_duration};

/// The Breakers service. Clones share the node's breakers.
pub(crate) struct BreakersService<S>(pub(crate) Arc<Breakers<S>>);

impl<S: Store> Breakers<S> {
    async fn state(
        &self,
        request: v1::BreakerStateRequest,
        deadline: Deadline,
    ) -> Result<v1::BreakerStateResponse, Refusal> {
        let of = wire::downstream(&request.tenant, &request.dependency)?;
        let (reporter, question) = parse::asker(&request)?;
        let view = self.view(&of)?;
        self.know(&view).await?;
        let permit = match question {
            Some(probe_id) => self.probe(&view, probe_id, deadline).await?,
            None => None,
        };
        let (record, now) = (view.record(), self.now());
        let isolated = reporter.and_then(|reporter| isolated_for(record.as_deref(), reporter, now));
        Ok(v1::BreakerStateResponse {
            breaker: Some(reply::breaker(&view.of, &view.snapshot(now))),
            isolated_for: isolated.map(wire_duration),
            permit: permit.as_ref().map(reply::permit),
            degraded: self.is_degraded(),
        })
    }

    /// The permit to probe, if there is one to give. The store is asked only if it may have one: in an
    /// outage, everybody asks.
    async fn probe(
        &self,
        view: &Arc<View>,
        probe_id: [u8; 16],
        deadline: Deadline,
    ) -> Result<Option<Grant>, Refusal> {
        // Without the store there is none, and nobody should queue to find that out.
        if !self.may_get(view, probe_id) {
            return Ok(None);
        }
        let _turn = view.asking.lock().await;
        if !self.may_get(view, probe_id) {
            return Ok(None);
        }
        let command = Command::Probe(Probe { permit: self.random_id(), probe_id });
        match self.decide(view, command, deadline).await {
            Ok(Outcome::Probe(ProbeOutcome::Granted(grant) | ProbeOutcome::Repeated(grant))) => {
                Ok(Some(grant))
            }
            Ok(Outcome::Probe(_)) => Ok(None),
            Ok(_) => Err(mixed_up()),
            // Whoever may not probe waits: the answer is in the reply, marked as degraded.
            Err(refusal) if refusal.reason == Reason::StoreUnavailable => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    /// Whether the store may have a permit for this question: a new one, or that which it got before. How
    /// long that is still good for, only the store's clock tells.
    fn may_get(&self, view: &View, probe_id: [u8; 16]) -> bool {
        let may_probe = || view.standing(self.now()).probe_due;
        !self.is_degraded()
            && (may_probe() || view.record().is_some_and(|record| is_given(&record, probe_id)))
    }
}

fn is_given(record: &Record, probe_id: [u8; 16]) -> bool {
    match &record.state {
        State::HalfOpen { permits, .. } => permits.iter().any(|permit| permit.probe_id == probe_id),
        _ => false,
    }
}

impl<S: Store> BreakersService<S> {
    fn deadline_of<T>(&self, request: &Request<T>) -> Deadline {
        Deadline::of_call(request.metadata(), &*self.0.clock)
    }

    fn answer<T>(
        &self,
        deadline: Deadline,
        result: Result<T, Refusal>,
    ) -> Result<Response<T>, Status> {
        deadline.answer(result, &*self.0.clock)
    }
}

#[tonic::async_trait]
impl<S: Store> v1::breakers_server::Breakers for BreakersService<S> {
    type StreamOutcomesStream = BoxStream<'static, Result<v1::ReportOutcomesResponse, Status>>;
    type WatchBreakersStream = Changes;

    async fn breaker_state(
        &self,
        request: Request<v1::BreakerStateRequest>,
    ) -> Result<Response<v1::BreakerStateResponse>, Status> {
        let deadline = self.deadline_of(&request);
        self.answer(deadline, self.0.state(request.into_inner(), deadline).await)
    }

    async fn report_outcomes(
        &self,
        request: Request<v1::ReportOutcomesRequest>,
    ) -> Result<Response<v1::ReportOutcomesResponse>, Status> {
        let deadline = self.deadline_of(&request);
        self.answer(deadline, self.0.report(request.into_inner(), deadline).await)
    }

    async fn stream_outcomes(
        &self,
        request: Request<Streaming<v1::ReportOutcomesRequest>>,
    ) -> Result<Response<Self::StreamOutcomesStream>, Status> {
        let shared = Arc::clone(&self.0);
        let closing = shared.closing.clone().cancelled_owned();
        // One at a time, so that replies come in order and a stream holds one report at the most.
        let replies = request.into_inner().then(move |report| {
            let shared = Arc::clone(&shared);
            async move { Ok(shared.report(report?, Deadline::none()).await?) }
        });
        let end = futures::stream::once(async { Err(Refusal::shutting_down().into()) });
        let ended = Arc::clone(&self.0);
        let end = end.filter(move |_| std::future::ready(ended.closing.is_cancelled()));
        Ok(Response::new(replies.take_until(closing).chain(end).boxed()))
    }

    async fn watch_breakers(
        &self,
        request: Request<v1::WatchBreakersRequest>,
    ) -> Result<Response<Self::WatchBreakersStream>, Status> {
        let deadline = self.deadline_of(&request);
        let watching = watching::watch(Arc::clone(&self.0), request.get_ref()).await;
        self.answer(deadline, watching)
    }

    async fn override_breaker(
        &self,
        request: Request<v1::OverrideBreakerRequest>,
    ) -> Result<Response<v1::OverrideBreakerResponse>, Status> {
        let deadline = self.deadline_of(&request);
        self.answer(deadline, self.0.force(request.into_inner(), deadline).await)
    }

    async fn set_breaker_policy(
        &self,
        request: Request<v1::SetBreakerPolicyRequest>,
    ) -> Result<Response<v1::SetBreakerPolicyResponse>, Status> {
        let deadline = self.deadline_of(&request);
        self.answer(deadline, self.0.set_policy(request.into_inner(), deadline).await)
    }

    async fn get_breaker_policy(
        &self,
        request: Request<v1::GetBreakerPolicyRequest>,
    ) -> Result<Response<v1::GetBreakerPolicyResponse>, Status> {
        let deadline = self.deadline_of(&request);
        self.answer(deadline, self.0.get_policy(request.into_inner(), deadline).await)
    }

    async fn list_breakers(
        &self,
        request: Request<v1::ListBreakersRequest>,
    ) -> Result<Response<v1::ListBreakersResponse>, Status> {
        let deadline = self.deadline_of(&request);
        self.answer(deadline, self.0.list(request.into_inner()).await)
    }
}
