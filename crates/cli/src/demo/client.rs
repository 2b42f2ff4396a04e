//! The client: waits 1,000 ms for an answer, and tries three times.

use std::time::Duration;

use anstyle::Style;
use serde::Serialize;
use tokio::time::{sleep, timeout};

use super::service::{Answer, ChargeService};
use super::timeline::{Party, Timeline};
use crate::output::{BAD, CAUTION, GOOD};

const PATIENCE: Duration = Duration::from_secs(1);
const ATTEMPTS: usize = 3;
/// The pause after the first attempt; it doubles. No jitter, so that a person can follow.
const BACKOFF: Duration = Duration::from_millis(300);

/// One attempt, as the client saw it.
#[derive(Debug, Serialize)]
pub(crate) struct Attempt {
    attempt: usize,
    at_ms: u64,
    took_ms: u64,
    /// What came of it.
    pub(crate) result: Seen,
}

/// What the client saw of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Seen {
    /// Paid by this attempt.
    Charged,
    /// Paid before.
    Replayed,
    /// An earlier attempt is at work.
    InProgress,
    /// No answer in time.
    Timeout,
    /// An error.
    Error,
}

/// What a payment was for the client.
pub(crate) struct Payment {
    /// Its attempts, in order.
    pub(crate) attempts: Vec<Attempt>,
    /// Whether it was told that the payment went through.
    pub(crate) succeeded: bool,
    /// How long until it knew.
    pub(crate) took: Duration,
}

/// Pays an order. Its number is the key: one for the intent, whatever the number of attempts.
pub(crate) async fn pay(
    service: &ChargeService,
    order: &'static str,
    timeline: &Timeline,
) -> Payment {
    let mut attempts = Vec::new();
    let mut pause = BACKOFF;
    let succeeded = loop {
        let attempt = try_once(service, order, attempts.len() + 1, timeline).await;
        let paid = matches!(attempt.result, Seen::Charged | Seen::Replayed);
        attempts.push(attempt);
        if paid || attempts.len() == ATTEMPTS {
            break paid;
        }
        sleep(pause).await;
        pause *= 2;
    };
    let (style, text) =
        if succeeded { (GOOD, "reports success") } else { (BAD, "gives up: reports failure") };
    timeline.say(Party::Client, style, text.into()).await;
    Payment { attempts, succeeded, took: timeline.now() }
}

async fn try_once(
    service: &ChargeService,
    order: &'static str,
    attempt: usize,
    timeline: &Timeline,
) -> Attempt {
    let at_ms = timeline.now_ms();
    timeline.say(Party::Client, Style::new(), format!("attempt {attempt}: pay {order}")).await;
    let (result, style, text) = match timeout(PATIENCE, service.request(order)).await {
        Ok(Ok(Answer::Charged(receipt))) => (Seen::Charged, GOOD, receipt),
        Ok(Ok(Answer::Replayed(receipt))) => (Seen::Replayed, GOOD, receipt),
        Ok(Ok(Answer::InProgress)) => (Seen::InProgress, CAUTION, "told to come back".into()),
        Ok(Ok(Answer::Failed(error))) => (Seen::Error, BAD, error),
        Ok(Err(error)) => (Seen::Error, BAD, error.to_string()),
        Err(_) => (Seen::Timeout, BAD, "hangs up: no answer within 1,000 ms".into()),
    };
    let took_ms = timeline.now_ms() - at_ms;
    timeline.say(Party::Client, style, text).await;
    Attempt { attempt, at_ms, took_ms, result }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::provider::Provider;

    #[tokio::test(start_paused = true)]
    async fn without_a_key_every_attempt_charges_and_the_client_never_knows() {
        let (timeline, _transcript) = Timeline::begin();
        let provider = Provider::new(timeline.clone());
        let service = ChargeService::new(provider.clone(), None, timeline.clone());

        let payment = pay(&service, "order-1", &timeline).await;
        service.finish().await;

        let seen: Vec<_> = payment.attempts.iter().map(|attempt| attempt.result).collect();
        assert_eq!(seen, [Seen::Timeout; 3]);
        assert!(!payment.succeeded);
        assert_eq!(provider.charges(), 3);
    }
}
