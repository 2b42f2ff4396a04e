//! A charge takes 1,500 ms; the caller waits 1,000 ms, and tries three times.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use semel_client::Client;
use semel_client::fingerprint::Intent;
use semel_client::keys::{Disposition, OnOwnerLost, Response, Work};
use semel_client::once::{Outcome, Unknown};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::support::node::Node;

const CHARGE: Duration = Duration::from_millis(1_500);
const PATIENCE: Duration = Duration::from_secs(1);
const ATTEMPTS: u32 = 3;

/// What the caller saw of an attempt.
#[derive(Debug, PartialEq)]
enum Seen {
    Timeout,
    InProgress,
    Charged,
    Replayed(String),
}

/// A service that charges; a caller who hangs up does not stop it.
struct Service {
    semel: Client,
    wait: Duration,
    charges: Arc<AtomicU32>,
    /// The requests that it works on.
    working: JoinSet<Result<Outcome, semel_client::Error>>,
}

impl Service {
    fn new(semel: Client, wait: Duration) -> Self {
        Self { semel, wait, charges: Arc::default(), working: JoinSet::new() }
    }

    /// One attempt of the caller, who waits for an answer and then hangs up.
    async fn attempt(&mut self, order: &str) -> Seen {
        let intent = Intent::new("payments.charge", "account/77").bytes(b"4200 EUR");
        let charges = Arc::clone(&self.charges);
        let once = self.semel.once("payments.charge", order).fingerprint(intent).wait(self.wait);
        self.working.spawn(once.lease(Duration::from_millis(600)).run(async move |claim| {
            sleep(CHARGE).await;
            let number = charges.fetch_add(1, Ordering::Relaxed) + 1;
            let receipt = format!("charge {number} under {}", claim.derived_key());
            Work::Succeeded(Response::new(200, receipt))
        }));
        let Ok(ended) = timeout(PATIENCE, self.working.join_next()).await else {
            return Seen::Timeout;
        };
        match ended.unwrap().unwrap().unwrap() {
            Outcome::Ran { .. } => Seen::Charged,
            Outcome::InProgress { .. } => Seen::InProgress,
            Outcome::Replayed(answer) => {
                let body = answer.response.unwrap().bytes().unwrap().to_vec();
                Seen::Replayed(String::from_utf8(body).unwrap())
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn with_one_key_the_impatient_caller_is_charged_once() {
    let node = Node::start(&[]);
    let semel = Client::connect("acme", [node.url.as_str()]).unwrap();
    let mut service = Service::new(semel, Duration::ZERO);
    let mut seen = Vec::new();
    for attempt in 0..ATTEMPTS {
        // The work of the first attempt ends 0.5 s after the caller has hung up: it is picked up here.
        sleep(Duration::from_millis(300) * attempt).await;
        seen.push(service.attempt("order-1").await);
        if attempt == 1 {
            assert!(matches!(service.working.join_next().await, Some(Ok(Ok(_)))));
        }
    }
    assert_eq!(seen[..2], [Seen::Timeout, Seen::InProgress]);
    assert!(
        matches!(&seen[2], Seen::Replayed(receipt) if receipt.starts_with("charge 1 under semel-"))
    );
    assert_eq!(service.charges.load(Ordering::Relaxed), 1);
    node.assert_calm();
}

#[tokio::test]
async fn with_wait_the_second_attempt_has_the_answer_as_soon_as_it_exists() {
    let node = Node::start(&[]);
    let client = || Client::connect("acme", [node.url.as_str()]).unwrap();
    let mut first = Service::new(client(), Duration::from_secs(5));
    assert_eq!(first.attempt("order-2").await, Seen::Timeout);
    // Another instance of the service gets the second attempt.
    let mut second = Service::new(client(), Duration::from_secs(5));
    let seen = second.attempt("order-2").await;
    assert!(
        matches!(&seen, Seen::Replayed(receipt) if receipt.starts_with("charge 1 under")),
        "{seen:?}"
    );
    assert_eq!(second.charges.load(Ordering::Relaxed), 0);
    let ended = first.working.join_next().await.unwrap().unwrap().unwrap();
    assert!(matches!(ended, Outcome::Ran { .. }), "renewed over two leases and more: {ended:?}");
    node.assert_calm();
}

#[tokio::test]
async fn whoever_comes_after_a_lost_owner_looks_first_and_finds_the_checkpoint() {
    let node = Node::start(&[]);
    let client = || Client::connect("acme", [node.url.as_str()]).unwrap();
    let intent = || Intent::new("payments.charge", "account/77").bytes(b"1 EUR");
    let lost = client();
    let lost = lost.once("payments.charge", "order-3").fingerprint(intent());
    let lost = lost.lease(Duration::from_millis(500)).on_owner_lost(OnOwnerLost::Reconcile);
    let work = lost.run(async |claim| {
        claim.save_checkpoint("the provider was asked").await.unwrap();
        std::future::pending().await
    });
    // Its process is gone: nothing of it is told to anybody.
    assert!(timeout(Duration::from_secs(1), work).await.is_err());

    let next = client();
    let next = next.once("payments.charge", "order-3").fingerprint(intent());
    let outcome = next.wait(Duration::from_secs(5)).run(async |claim| {
        assert_eq!(claim.disposition(), Disposition::ReconcileRequired);
        assert_eq!(claim.claim().checkpoint.as_deref(), Some(&b"the provider was asked"[..]));
        assert_eq!(claim.claim().history.len(), 1);
        Work::Unknown
    });
    assert_eq!(outcome.await.unwrap(), Outcome::Unknown(Unknown::WorkSaidSo));
    node.assert_calm();
}
