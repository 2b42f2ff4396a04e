//! A charge takes 1,500 ms; the caller waits 1,000 ms, and tries three times.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use semel_client::Client;
use semel_client::fingerprint::Intent;
use semel_client::keys::{Disposition, OnOwnerLost, Response, Work};
use semel_client::once::{Outcome, Record, Unknown};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::support::node::Node;

const CHARGE: Duration = Duration::from_millis(1_500);
const PATIENCE: Duration = Duration::from_secs(1);
const ATTEMPTS: usize = 3;
/// Renewed once while the charge goes on.
const LEASE: Duration = Duration::from_secs(4);

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
    /// A charge ends no sooner: however busy the machine is, the second attempt comes before.
    may_end: CancellationToken,
    /// The requests that it works on.
    working: JoinSet<()>,
}

impl Service {
    fn new(node: &Node, wait: Duration) -> Self {
        let semel = Client::connect("acme", [node.url.as_str()]).unwrap();
        let may_end = CancellationToken::new();
        Self { semel, wait, charges: Arc::default(), may_end, working: JoinSet::new() }
    }

    /// One attempt of the caller, who waits for an answer and then hangs up.
    async fn attempt(&mut self, order: &str) -> Seen {
        let intent = Intent::new("payments.charge", "account/77").bytes(b"4200 EUR");
        let once = self.semel.once("payments.charge", order).fingerprint(intent).wait(self.wait);
        let (charges, may_end) = (Arc::clone(&self.charges), self.may_end.clone());
        let (answer, answered) = oneshot::channel();
        self.working.spawn(async move {
            let outcome = once.lease(LEASE).run(async move |claim| {
                sleep(CHARGE).await;
                may_end.cancelled().await;
                let number = charges.fetch_add(1, Ordering::Relaxed) + 1;
                let receipt = format!("charge {number} under {}", claim.derived_key());
                Work::Succeeded(Response::new(200, receipt))
            });
            // The caller may have hung up.
            let _ = answer.send(outcome.await.unwrap());
        });
        match timeout(PATIENCE, answered).await {
            Err(_) => Seen::Timeout,
            Ok(outcome) => seen(outcome.unwrap()),
        }
    }

    /// Waits until no request is worked on.
    async fn finish(&mut self) {
        while let Some(ended) = self.working.join_next().await {
            ended.unwrap();
        }
    }
}

fn seen(outcome: Outcome) -> Seen {
    match outcome {
        Outcome::Ran { record: Record::Stored(_), .. } => Seen::Charged,
        Outcome::InProgress { .. } => Seen::InProgress,
        Outcome::Replayed(answer) => {
            let body = answer.response.unwrap().bytes().unwrap().to_vec();
            Seen::Replayed(String::from_utf8(body).unwrap())
        }
        other => panic!("{other:?}"),
    }
}

fn is_first_receipt(seen: &Seen) -> bool {
    matches!(seen, Seen::Replayed(receipt) if receipt.starts_with("charge 1 under semel-"))
}

#[tokio::test]
async fn with_one_key_the_impatient_caller_is_charged_once() {
    let node = Node::start(&[]);
    let mut service = Service::new(&node, Duration::ZERO);
    assert_eq!(service.attempt("order-1").await, Seen::Timeout);
    assert_eq!(service.attempt("order-1").await, Seen::InProgress);
    service.may_end.cancel();
    service.finish().await;
    let third = service.attempt("order-1").await;
    assert!(is_first_receipt(&third), "{third:?}");
    assert_eq!(service.charges.load(Ordering::Relaxed), 1);
    node.assert_calm();
}

#[tokio::test]
async fn with_wait_an_attempt_has_the_answer_as_soon_as_it_exists() {
    let node = Node::start(&[]);
    let mut first = Service::new(&node, Duration::from_secs(5));
    first.may_end.cancel();
    assert_eq!(first.attempt("order-2").await, Seen::Timeout);
    // Another instance of the service gets the other attempts. The second of all is enough, unless the
    // machine is so busy that half a second was not.
    let mut second = Service::new(&node, Duration::from_secs(5));
    let mut last = Seen::Timeout;
    for _ in 1..ATTEMPTS {
        last = second.attempt("order-2").await;
        if last != Seen::Timeout {
            break;
        }
    }
    assert!(is_first_receipt(&last), "{last:?}");
    first.finish().await;
    assert_eq!(first.charges.load(Ordering::Relaxed), 1);
    assert_eq!(second.charges.load(Ordering::Relaxed), 0);
    node.assert_calm();
}

#[tokio::test]
async fn whoever_comes_after_a_lost_owner_looks_first_and_finds_the_checkpoint() {
    let node = Node::start(&[]);
    let client = || Client::connect("acme", [node.url.as_str()]).unwrap();
    let intent = || Intent::new("payments.charge", "account/77").bytes(b"1 EUR");
    let saved = CancellationToken::new();
    let lost = client();
    let lost = lost.once("payments.charge", "order-3").fingerprint(intent());
    let lost = lost.lease(Duration::from_secs(2)).on_owner_lost(OnOwnerLost::Reconcile);
    let work = lost.run(async |claim| {
        claim.save_checkpoint("the provider was asked").await.unwrap();
        saved.cancel();
        std::future::pending().await
    });
    // Its process is gone: nothing of it is told to anybody.
    tokio::select! {
        outcome = work => panic!("{outcome:?}"),
        () = saved.cancelled() => {}
    }

    let next = client();
    let next = next.once("payments.charge", "order-3").fingerprint(intent());
    let outcome = next.wait(Duration::from_secs(20)).run(async |claim| {
        assert_eq!(claim.disposition(), Disposition::ReconcileRequired);
        assert_eq!(claim.claim().checkpoint.as_deref(), Some(&b"the provider was asked"[..]));
        assert_eq!(claim.claim().history.len(), 1);
        Work::Unknown
    });
    assert_eq!(outcome.await.unwrap(), Outcome::Unknown(Unknown::WorkSaidSo));
    node.assert_calm();
}
