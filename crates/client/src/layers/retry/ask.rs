//! Asks a node for a token that is not in hand.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use semel_proto::v1::retries_client::RetriesClient;
use semel_proto::v1::{
    AcquireRetryTokenRequest, AcquireRetryTokenResponse, Failure, RetryVerdict, RootRequest,
};
use tonic::Request;

use super::verdict::Question;
use crate::connection::StickyChannel;
use crate::layers::Criticality;
use crate::wire::{duration, millis, to_wire};

/// How long a caller waits for a node's answer, at most.
const ANSWER_MAX: Duration = Duration::from_millis(250);
/// How long nobody asks after a node had nothing to give, unless it says when there may be more.
const PAUSE_MS: u64 = 50;
/// The longest such pause.
const PAUSE_MAX_MS: u64 = 1_000;

/// Whom to ask, and when not to: a budget that is spent is asked for once in a while, not by each call.
#[derive(Debug)]
pub(super) struct Granter {
    channel: StickyChannel,
    not_before_ms: AtomicU64,
    /// The same for what may draw on the reserve.
    high_not_before_ms: AtomicU64,
}

impl Granter {
    pub(super) const fn new(channel: StickyChannel) -> Self {
        let (not_before_ms, high_not_before_ms) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { channel, not_before_ms, high_not_before_ms }
    }

    pub(super) fn may_be_asked(&self, criticality: Criticality, now_ms: u64) -> bool {
        now_ms >= self.not_before_ms(criticality).load(Ordering::Relaxed)
    }

    fn not_before_ms(&self, criticality: Criticality) -> &AtomicU64 {
        match criticality {
            Criticality::High => &self.high_not_before_ms,
            Criticality::Default | Criticality::Sheddable => &self.not_before_ms,
        }
    }

    /// Asks. `None`: there was no answer.
    pub(super) async fn ask(
        &self,
        message: AcquireRetryTokenRequest,
        criticality: Criticality,
        now_ms: u64,
    ) -> Option<AcquireRetryTokenResponse> {
        let left = message.remaining.as_ref().map_or(ANSWER_MAX, duration);
        let mut request = Request::new(message);
        request.set_timeout(left.min(ANSWER_MAX));
        let reply = RetriesClient::new(self.channel.clone()).acquire_retry_token(request).await;
        let reply = reply.ok().map(tonic::Response::into_inner);
        let pause_ms = match &reply {
            Some(reply) if reply.verdict() != RetryVerdict::BudgetExhausted => 0,
            Some(reply) => {
                reply.retry_after.as_ref().map_or(PAUSE_MS, |wait| millis(duration(wait)))
            }
            None => PAUSE_MAX_MS,
        };
        if pause_ms > 0 {
            let until_ms = now_ms.saturating_add(pause_ms.clamp(PAUSE_MS, PAUSE_MAX_MS));
            self.not_before_ms(criticality).fetch_max(until_ms, Ordering::Relaxed);
        }
        reply
    }
}

/// The question as the contract has it. `root` still has the retry that is asked for: the node takes it out.
pub(super) fn to_request(
    question: &Question<'_>,
    (tenant, dependency): (&str, &str),
    request_id: &Bytes,
    root: RootRequest,
) -> AcquireRetryTokenRequest {
    let failure = question.failure.map(|failure| Failure {
        kind: failure.kind.to_wire().into(),
        server_delay: failure.server_delay.map(to_wire),
    });
    AcquireRetryTokenRequest {
        tenant: tenant.to_owned(),
        dependency: dependency.to_owned(),
        request_id: request_id.clone(),
        failure,
        repeatable: question.is_repeatable,
        attempt: question.attempt,
        root: Some(root),
        layer: question.layer.to_owned(),
        criticality: question.criticality.to_wire().into(),
        remaining: question.remaining.map(to_wire),
        expected_attempt_time: Some(to_wire(question.expected)),
        ..AcquireRetryTokenRequest::default()
    }
}
