//! Requests in a few words: `ask("r").failed(FailureKind::NotSent)`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_proto::v1;
use semel_store::{Clock, SystemClock};

use crate::support::*;

pub(crate) use v1::{FailureKind, Mode, RetryVerdict as Verdict};

/// A question of "acme" about "stripe", after a first attempt that never left.
pub(crate) fn ask(request_id: &str) -> v1::AcquireRetryTokenRequest {
    let request = v1::AcquireRetryTokenRequest {
        tenant: "acme".to_owned(),
        dependency: "stripe".to_owned(),
        request_id: Bytes::copy_from_slice(request_id.as_bytes()),
        attempt: 1,
        ..Default::default()
    };
    request.failed(FailureKind::NotSent)
}

/// The words of a question.
pub(crate) trait Ask: Sized {
    fn failed(self, kind: FailureKind) -> Self;
    fn attempt(self, attempt: u32) -> Self;
    fn remaining_ms(self, ms: u64) -> Self;
    fn root(self, id: &str, retries: Option<u32>) -> Self;
    fn with(self, deposits: v1::Deposits) -> Self;
}

impl Ask for v1::AcquireRetryTokenRequest {
    fn failed(mut self, kind: FailureKind) -> Self {
        self.failure = Some(v1::Failure { kind: kind.into(), server_delay: None });
        self
    }

    fn attempt(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }

    fn remaining_ms(mut self, ms: u64) -> Self {
        self.remaining = Some(milliseconds(ms));
        self
    }

    fn root(mut self, id: &str, retries: Option<u32>) -> Self {
        let id = Bytes::copy_from_slice(id.as_bytes());
        self.root = Some(v1::RootRequest { id, attempt: 1, retries });
        self
    }

    fn with(mut self, deposits: v1::Deposits) -> Self {
        self.deposits = Some(deposits);
        self
    }
}

/// Report `seq` of a reporter: so many first attempts.
pub(crate) fn deposits(reporter: u8, seq: u64, requests: u64) -> v1::Deposits {
    let reporter = Bytes::from(vec![reporter; 16]);
    v1::Deposits { reporter, seq, requests, ..Default::default() }
}

/// A report about "stripe" alone.
pub(crate) fn report(deposits: v1::Deposits) -> v1::ReportRequestsRequest {
    let report = v1::RequestReport { dependency: "stripe".to_owned(), deposits: Some(deposits) };
    v1::ReportRequestsRequest { tenant: "acme".to_owned(), reports: vec![report] }
}

/// A policy without a floor, whose retries wait for nothing: only deposits pay.
pub(crate) fn bare() -> v1::RetryPolicy {
    v1::RetryPolicy {
        floor_per_second: Some(0),
        backoff: v1::BackoffStrategy::None.into(),
        ..Default::default()
    }
}

/// Request `seq` of a client that wants tokens.
pub(crate) fn lease(lessee: u8, seq: u64, want: u32) -> v1::LeaseRetryTokensRequest {
    v1::LeaseRetryTokensRequest {
        tenant: "acme".to_owned(),
        dependency: "stripe".to_owned(),
        lessee: Bytes::from(vec![lessee; 16]),
        seq,
        want,
        ..Default::default()
    }
}

/// The refund of a token that a reply granted.
pub(crate) fn refund(granted: &v1::AcquireRetryTokenResponse) -> v1::RefundRetryTokenRequest {
    v1::RefundRetryTokenRequest {
        tenant: "acme".to_owned(),
        dependency: "stripe".to_owned(),
        token: granted.token.clone(),
        node: granted.node.clone(),
    }
}

/// An operator's replacement of the policy of "stripe", whatever is there.
pub(crate) fn set(policy: v1::RetryPolicy) -> v1::SetRetryPolicyRequest {
    v1::SetRetryPolicyRequest {
        tenant: "acme".to_owned(),
        dependency: "stripe".to_owned(),
        policy: Some(policy),
        expected_version: None,
        actor: "olga".to_owned(),
    }
}

impl TestNode {
    /// A node where "stripe" has this policy.
    pub(crate) async fn under(policy: v1::RetryPolicy) -> Self {
        let node = Self::start().await;
        node.retries.set_policy(set(policy)).await.expect("set");
        node
    }

    /// Another node over the same store.
    pub(crate) async fn beside(&self) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        Self::over(self.store.share(Arc::clone(&clock)), clock, |_| {}).await
    }

    pub(crate) async fn ask(
        &self,
        request: v1::AcquireRetryTokenRequest,
    ) -> v1::AcquireRetryTokenResponse {
        within(self.retries.acquire(request)).await.expect("answered")
    }

    /// Asks until it is denied. How many tokens were granted.
    pub(crate) async fn spend_all(&self, name: &str) -> u32 {
        for number in 0.. {
            let reply = self.ask(ask(&format!("{name}-{number}"))).await;
            if reply.verdict() != Verdict::Granted {
                assert_eq!(reply.verdict(), Verdict::BudgetExhausted);
                return number;
            }
        }
        0
    }

    /// Reports first attempts; whether they count.
    pub(crate) async fn reports(&self, deposits: v1::Deposits) -> bool {
        let reply = within(self.retries.report(report(deposits))).await.expect("answered");
        reply.receipts[0].counted
    }

    pub(crate) async fn budget(&self) -> v1::GetBudgetResponse {
        let (tenant, dependency) = ("acme".to_owned(), "stripe".to_owned());
        let request = v1::GetBudgetRequest { tenant, dependency };
        self.retries.get(request).await.expect("answered")
    }

    /// What this node could grant by itself, in milli-tokens.
    pub(crate) async fn balance(&self) -> u64 {
        self.budget().await.node.expect("a node").balance_milli
    }
}

/// How long `future` takes.
pub(crate) fn measured<T>(future: impl Future<Output = T>) -> impl Future<Output = (T, Duration)> {
    let future = Box::pin(future);
    async move {
        let began_us = machine_us();
        let value = within(future).await;
        (value, Duration::from_micros(machine_us() - began_us))
    }
}
