//! The future that watches the fleet's breakers, and reports what became of calls.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

use semel_proto::v1::breakers_client::BreakersClient;
use semel_proto::v1::{
    BreakerSnapshot, BreakerStateRequest, GetBreakerPolicyRequest, ReportOutcomesResponse,
    WatchBreakersRequest, WatchBreakersResponse,
};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tonic::{Code, Request, Status, Streaming};

use super::reports::Reports;
use super::{Breaker, Breakers, Entry};
use crate::connection::StickyChannel;
use crate::dice::between;

/// The first pause after a lost watch; it doubles.
const LOST_PAUSE: Duration = Duration::from_millis(100);
/// The longest.
const LOST_PAUSE_MAX: Duration = Duration::from_secs(2);

impl Breakers {
    /// Follows all breakers until `closing` ends, then reports what was not reported yet. Drive it from one
    /// place: it starts no task of its own.
    pub async fn run(&self, closing: impl Future<Output = ()>) {
        let shared = &self.0.shared;
        let mut reports = Reports::new(shared.tenant.clone(), shared.reporter.clone());
        // Reports that get no answer have the watch begin anew.
        let lost = Notify::new();
        {
            let both = async { tokio::join!(self.watch(&lost), self.report(&mut reports, &lost)) };
            let (mut both, mut closing) = (pin!(both), pin!(closing));
            tokio::select! {
                biased;
                () = &mut closing => {}
                _ = &mut both => {}
            }
        }
        self.report_once(&mut reports).await;
        self.lose();
    }

    /// Watches for ever.
    async fn watch(&self, lost: &Notify) {
        let mut losses = 0;
        loop {
            let watched = self.all();
            if watched.is_empty() {
                self.0.arrived.notified().await;
                continue;
            }
            let ended = tokio::select! {
                status = self.watch_these(&watched, &mut losses) => Some(status),
                () = lost.notified() => Some(Status::unavailable("reports are not answered")),
                // Those that came since are watched with the others, and nothing was lost.
                () = self.0.arrived.notified() => None,
            };
            let Some(status) = ended else { continue };
            self.lose();
            if losses == 0 {
                tracing::warn!(%status, "breakers are not watched any more: each process decides for itself");
            }
            losses = losses.saturating_add(1);
            self.pause(losses).await;
        }
    }

    async fn pause(&self, losses: u32) {
        let doubled = LOST_PAUSE.saturating_mul(1 << (losses - 1).min(5)).min(LOST_PAUSE_MAX);
        let pause = between(doubled / 2, doubled, self.0.shared.dice.roll());
        sleep(pause).await;
    }

    /// Watches these until the stream ends, and tells how.
    async fn watch_these(&self, watched: &[std::sync::Arc<Entry>], losses: &mut u32) -> Status {
        let shared = &self.0.shared;
        let dependencies = watched.iter().map(|entry| entry.dependency.clone()).collect();
        let request = WatchBreakersRequest { tenant: shared.tenant.clone(), dependencies };
        // The channel bounds the opening; what follows may take for ever.
        let mut stream: Streaming<WatchBreakersResponse> =
            match self.client().watch_breakers(request).await {
                Ok(reply) => reply.into_inner(),
                Err(status) => return status,
            };
        loop {
            match stream.message().await {
                Ok(Some(change)) => {
                    *losses = 0;
                    if let Some(told) = change.breaker {
                        self.hear(watched, &told).await;
                    }
                }
                Ok(None) => return Status::unavailable("the watch ended"),
                Err(status) => return status,
            }
        }
    }

    /// Takes what a node says, and asks for the policy if it is a new one.
    async fn hear(&self, watched: &[std::sync::Arc<Entry>], told: &BreakerSnapshot) {
        let Some(entry) = watched.iter().find(|entry| entry.dependency == told.dependency) else {
            return;
        };
        if entry.hear(told) {
            let (tenant, dependency) = (told.tenant.clone(), told.dependency.clone());
            let request = self.timed(GetBreakerPolicyRequest { tenant, dependency });
            // Without an answer, the next word from a node has it asked for again.
            if let Ok(reply) = self.client().get_breaker_policy(request).await
                && let Some(policy) = &reply.get_ref().policy
            {
                entry.learn(policy, reply.get_ref().version);
            }
        }
    }

    /// Reports for ever.
    async fn report(&self, reports: &mut Reports, lost: &Notify) {
        let shared = &self.0.shared;
        loop {
            if !reports.is_pending() {
                shared.outcomes.notified().await;
            }
            let gathering = async {
                while !shared.is_urgent.swap(false, Ordering::Relaxed) {
                    shared.outcomes.notified().await;
                }
            };
            // The time is up, or something should not wait for more.
            let _ = timeout(shared.settings.report_every, gathering).await;
            self.report_once(reports).await;
            if reports.is_lost() {
                lost.notify_one();
            }
            for entry in self.all() {
                if entry.wants_look() {
                    self.look(&Breaker(entry)).await;
                }
            }
        }
    }

    async fn report_once(&self, reports: &mut Reports) {
        let entries = self.all();
        let gather = || entries.iter().filter_map(|entry| entry.take_report()).collect();
        let Some(report) = reports.next(gather) else { return };
        match self.client().report_outcomes(self.timed(report)).await {
            Ok(reply) => {
                let ReportOutcomesResponse { node, breakers, .. } = reply.into_inner();
                if reports.answered(node) {
                    // The watch goes where the reports go.
                    self.0.arrived.notify_one();
                }
                for told in &breakers {
                    let known = entries.iter().find(|entry| entry.dependency == told.dependency);
                    if let Some(entry) = known.filter(|entry| !entry.is_local()) {
                        entry.hear(told);
                    }
                }
            }
            Err(status) => reports.failed(is_final(status.code())),
        }
    }

    /// Asks whether only this process fails.
    async fn look(&self, breaker: &Breaker) {
        let shared = &self.0.shared;
        let request = self.timed(BreakerStateRequest {
            tenant: shared.tenant.clone(),
            dependency: breaker.0.dependency.clone(),
            reporter: shared.reporter.clone(),
            ..BreakerStateRequest::default()
        });
        if let Ok(reply) = self.client().breaker_state(request).await {
            breaker.isolate(reply.into_inner().isolated_for.as_ref());
        }
    }

    fn lose(&self) {
        self.all().iter().for_each(|entry| entry.lose());
    }

    fn client(&self) -> BreakersClient<StickyChannel> {
        BreakersClient::new(self.0.shared.channel.clone())
    }

    fn timed<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(self.0.shared.settings.call_timeout);
        request
    }
}

/// Whether the same report would be refused for ever.
const fn is_final(code: Code) -> bool {
    !matches!(
        code,
        Code::Unavailable
            | Code::DeadlineExceeded
            | Code::Cancelled
            | Code::ResourceExhausted
            | Code::Internal
            | Code::Unknown
    )
}
