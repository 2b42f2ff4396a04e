//! Outcomes taken in: each report counts once, at one node; what became of probes counts anywhere, since
//! a permit is settled once wherever that is said.

use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use semel_domain::breaker::{Command, Settle};
use semel_proto::v1;
use semel_store::Store;

use super::parse::{self, Report, Reported};
use super::pending::Gathered;
use super::reply;
use super::shared::{Breakers, ask};
use super::view::View;
use crate::deadline::Deadline;
use crate::refusal::Refusal;
use crate::reporters::Admission;

impl<S: Store> Breakers<S> {
    pub(super) async fn report(
        &self,
        request: v1::ReportOutcomesRequest,
        deadline: Deadline,
    ) -> Result<v1::ReportOutcomesResponse, Refusal> {
        let report = parse::report(&request)?;
        let views: Vec<Arc<View>> =
            report.outcomes.iter().map(|one| self.view(&one.of)).collect::<Result<_, _>>()?;
        let counted = self.count(&report, &views);
        let settles = self.settles(&report.outcomes, &views);
        if !settles.is_empty() {
            self.decide_all(settles, deadline).await?;
        }
        let now = self.now();
        let breakers = views.iter().map(|view| reply::breaker(&view.of, &view.snapshot(now)));
        Ok(v1::ReportOutcomesResponse {
            counted,
            node: Bytes::copy_from_slice(&self.node),
            breakers: breakers.collect(),
        })
    }

    /// Lets the outcomes gather, if they count. Whether they do, now or since before.
    fn count(&self, report: &Report, views: &[Arc<View>]) -> bool {
        if report.node.is_some_and(|node| node != self.node) {
            return false;
        }
        let who = (report.tenant.clone(), report.reporter.0);
        let mut reporters = self.reporters.lock().unwrap_or_else(PoisonError::into_inner);
        let admission = reporters.admit(who, report.seq, self.clock.monotonic_us());
        drop(reporters);
        if admission == Admission::New {
            for (one, view) in report.outcomes.iter().zip(views) {
                self.gather(one, report, view);
            }
        }
        admission.is_counted()
    }

    fn gather(&self, one: &Reported, report: &Report, view: &Arc<View>) {
        let generation = view.record().map_or(0, |record| record.generation);
        // What an older generation did says nothing about this one.
        if one.counts.is_empty() || one.generation < generation {
            return;
        }
        let gathered =
            view.pending().add(one.generation, report.reporter, one.counts, &self.gathered);
        match gathered {
            Gathered::First => self.ask(view, ask::FLUSH),
            Gathered::More => {}
            Gathered::NoRoom => {
                tracing::debug!(tenant = %report.tenant, "outcomes dropped: too many reporters");
            }
        }
    }

    fn settles(
        &self,
        outcomes: &[Reported],
        views: &[Arc<View>],
    ) -> Vec<(Arc<View>, Arc<Command>)> {
        let of_one = |(one, view): (&Reported, &Arc<View>)| {
            let settle = |&(permit, result)| {
                let settle = Settle { permit, result, random: self.random() };
                (Arc::clone(view), Arc::new(Command::Settle(settle)))
            };
            one.probes.iter().map(settle).collect::<Vec<_>>()
        };
        outcomes.iter().zip(views).flat_map(of_one).collect()
    }
}
