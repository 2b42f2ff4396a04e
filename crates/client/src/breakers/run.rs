//! The future that watches the fleet's breakers, and reports what became of calls.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{StreamExt, TryStreamExt};
use semel_proto::v1::breakers_client::BreakersClient;
use semel_proto::v1::{
    BreakerSnapshot, BreakerStateRequest, GetBreakerPolicyRequest, ReportOutcomesResponse,
    WatchBreakersRequest, WatchBreakersResponse,
};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tonic::{Request, Status, Streaming};

use super::reports::Reports;
use super::{Breaker, Breakers, Entry};
use crate::connection::{Reason, Refusal, StickyChannel};
use crate::dice::between;
use crate::failure::grpc::is_final;

/// The first pause after a lost watch; it doubles.
const LOST_PAUSE: Duration = Duration::from_millis(100);
/// The longest.
const LOST_PAUSE_MAX: Duration = Duration::from_secs(2);
/// Without a watch, between two looks at the breakers, whatever the node says.
const LOOK_PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// At most so many reports when a client closes.
const LAST_REPORTS_MAX: u32 = 2;
/// So many breakers are looked at at once.
const LOOKS_AT_ONCE: usize = 8;

impl Breakers {
    /// Follows all breakers until `closing` ends, then reports what was not reported yet. Drive it from one
    /// place: it starts no task of its own.
    pub async fn run(&self, closing: impl Future<Output = ()>) {
        let shared = &self.0.shared;
        let mut reports = Reports::new(shared.tenant.clone(), shared.reporter.clone());
        // Reports that get no answer have the watch begin anew.
        let (lost, reported) = (Notify::new(), Notify::new());
        {
            let all = async {
                let reporting = self.report(&mut reports, &lost, &reported);
                tokio::join!(self.watch(&lost), reporting, self.look_around(&reported))
            };
            let (mut all, mut closing) = (pin!(all), pin!(closing));
            tokio::select! {
                biased;
                () = &mut closing => {}
                _ = &mut all => {}
            }
        }
        // One that was not answered goes first, and what gathered behind it next.
        for _ in 0..LAST_REPORTS_MAX {
            self.report_once(&mut reports).await;
        }
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
            let following = async {
                let status = self.watch_these(&watched, &mut losses).await;
                match come_back_after(&status) {
                    None => Some(status),
                    Some(wait) => {
                        let ended = self.look_at(&watched, wait).await.err();
                        losses = if ended.is_some() { losses } else { 0 };
                        ended
                    }
                }
            };
            let ended = tokio::select! {
                status = following => status,
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
    async fn watch_these(&self, watched: &[Arc<Entry>], losses: &mut u32) -> Status {
        let shared = &self.0.shared;
        let dependencies = watched.iter().map(|entry| entry.dependency.clone()).collect();
        let request = WatchBreakersRequest { tenant: shared.tenant.clone(), dependencies };
        // The channel bounds the opening; what follows may take for ever.
        let mut stream: Streaming<WatchBreakersResponse> =
            match self.client().watch_breakers(request).await {
                Ok(reply) => reply.into_inner(),
                Err(status) => return status,
            };
        // Beside the changes: an answer that takes its time must hold none of them up.
        let mut learning = FuturesUnordered::new();
        loop {
            let change = tokio::select! {
                change = stream.message() => change,
                Some(()) = learning.next() => continue,
            };
            match change {
                Ok(Some(change)) => {
                    *losses = 0;
                    let told = change.breaker.as_ref();
                    let heard = told.and_then(|told| hear(watched, told));
                    let heard = heard.filter(|_| learning.len() < watched.len());
                    learning.extend(heard.map(|entry| self.learn(entry)));
                }
                Ok(None) => return Status::unavailable("the watch ended"),
                Err(status) => return status,
            }
        }
    }

    /// The node has no place for another watcher: asks it for the states of these instead, and comes back to the
    /// watch after as long as it said. The first question that gets no answer ends it.
    async fn look_at(&self, watched: &[Arc<Entry>], wait: Duration) -> Result<(), Status> {
        let looks = futures::stream::iter(watched.iter().map(Ok));
        looks
            .try_for_each_concurrent(LOOKS_AT_ONCE, |entry| async move {
                let reply = self.client().breaker_state(self.question(entry)).await?.into_inner();
                if reply.breaker.is_some_and(|told| entry.hear(&told)) {
                    self.learn(entry).await;
                }
                Ok::<_, Status>(())
            })
            .await?;
        sleep(between(wait, wait.saturating_mul(2), self.0.shared.dice.roll())).await;
        Ok(())
    }

    fn question(&self, entry: &Entry) -> Request<BreakerStateRequest> {
        let shared = &self.0.shared;
        self.timed(BreakerStateRequest {
            tenant: shared.tenant.clone(),
            dependency: entry.dependency.clone(),
            reporter: shared.reporter.clone(),
            ..BreakerStateRequest::default()
        })
    }

    /// Asks for the policy of a breaker. Without an answer, the next word from a node has it asked for again.
    async fn learn(&self, entry: &Entry) {
        let (tenant, dependency) = (self.0.shared.tenant.clone(), entry.dependency.clone());
        let request = self.timed(GetBreakerPolicyRequest { tenant, dependency });
        if let Ok(reply) = self.client().get_breaker_policy(request).await
            && let Some(policy) = &reply.get_ref().policy
        {
            entry.learn(policy, reply.get_ref().version);
        }
    }

    /// Asks for ever whether only this process fails, where its own calls look like it. Beside the reports: a
    /// look that waits for its answer must hold none of them up, for it is then that they matter most.
    async fn look_around(&self, reported: &Notify) {
        loop {
            reported.notified().await;
            for entry in self.all() {
                if entry.wants_look() {
                    self.look(&Breaker(entry)).await;
                }
            }
        }
    }

    /// Reports for ever.
    async fn report(&self, reports: &mut Reports, lost: &Notify, reported: &Notify) {
        let shared = &self.0.shared;
        loop {
            // Looked for, too: what was counted while another report went out again has said so already.
            if !reports.is_pending() && !self.has_outcomes() {
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
            reported.notify_one();
        }
    }

    fn has_outcomes(&self) -> bool {
        self.all().iter().any(|entry| entry.has_report())
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
            Err(status) if is_final(status.code()) => {
                if reports.refused() {
                    tracing::warn!(%status, "a node does not take reports of calls");
                }
            }
            Err(_) => reports.failed(),
        }
    }

    /// Asks whether only this process fails.
    async fn look(&self, breaker: &Breaker) {
        if let Ok(reply) = self.client().breaker_state(self.question(&breaker.0)).await {
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

/// Takes what a node says of one of these, and tells which it is if its policy is a new one.
fn hear<'a>(watched: &'a [Arc<Entry>], told: &BreakerSnapshot) -> Option<&'a Entry> {
    let entry = watched.iter().find(|entry| entry.dependency == told.dependency)?;
    entry.hear(told).then_some(entry)
}

/// When to come back, if the node refused since it has no place for another watcher.
fn come_back_after(status: &Status) -> Option<Duration> {
    let refusal = Refusal::of(status);
    let (shortest, longest) = LOOK_PAUSES;
    let is_full = refusal.reason == Reason::WatchersFull;
    is_full.then(|| refusal.retry_after.unwrap_or(longest).clamp(shortest, longest))
}
