//! Workers that are lost after the provider had answered, and the job that settles what they left.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use semel_client::fingerprint::Intent;
use semel_client::keys::{OnOwnerLost, Resolution, Response, StuckKey, StuckState, Work};
use semel_client::once::{Once, Outcome};
use semel_client::recovery::Swept;
use semel_client::{Client, Deadline};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::support::node::Node;

const OPERATION: &str = "payments.charge";
const LEASE: Duration = Duration::from_millis(300);

/// Charges, and tells of a charge by its idempotency key.
#[derive(Default)]
struct Provider(Mutex<BTreeMap<String, u32>>);

impl Provider {
    fn charge(&self, idempotency_key: &str) {
        *self.0.lock().unwrap().entry(idempotency_key.to_owned()).or_default() += 1;
    }

    fn charges(&self, idempotency_key: &str) -> u32 {
        self.0.lock().unwrap().get(idempotency_key).copied().unwrap_or_default()
    }
}

fn client(node: &Node) -> Client {
    Client::connect("acme", [node.url.as_str()]).unwrap()
}

fn once(client: &Client, key: &str) -> Once {
    let once = client.once(OPERATION, key).fingerprint(Intent::new(OPERATION, key).bytes(b""));
    once.lease(LEASE).on_owner_lost(OnOwnerLost::Block)
}

/// A worker that charges, or not, and is lost before it can say so.
async fn lost(node: &Node, key: &str, provider: &Provider, charges: bool) {
    let client = client(node);
    let begun = CancellationToken::new();
    let work = once(&client, key).run(async |claim| {
        if charges {
            provider.charge(claim.derived_key());
        }
        begun.cancel();
        std::future::pending().await
    });
    tokio::select! {
        outcome = work => panic!("{outcome:?}"),
        () = begun.cancelled() => {}
    }
}

fn soon() -> Deadline {
    Deadline::within(Duration::from_secs(20))
}

#[tokio::test]
async fn a_worker_lost_after_the_provider_answered_leaves_one_charge() {
    let node = Node::start(&[]);
    let provider = Provider::default();
    lost(&node, "charged", &provider, true).await;
    lost(&node, "not-charged", &provider, false).await;
    lost(&node, "unclear", &provider, true).await;
    sleep(LEASE * 2).await;

    let look = async |key: &StuckKey| {
        assert_eq!(key.state, StuckState::Lapsed);
        match (key.name.key(), provider.charges(&key.derived_key)) {
            ("unclear", _) => None,
            (_, 0) => Some(Resolution::NotDone),
            (_, _) => Some(Resolution::Succeeded(Response::new(200, "found at the provider"))),
        }
    };
    let semel = client(&node);
    let recovery = semel.recovery(OPERATION, "recovery-test");
    let swept = recovery.sweep(soon(), look).await.unwrap();
    assert_eq!((swept.settled, swept.unclear, swept.moved_on, swept.failed), (2, 1, 0, 0));
    let again = recovery.sweep(soon(), look).await.unwrap();
    assert_eq!((again.settled, again.unclear), (0, 1), "only what is unclear is still stuck");

    let charge = async |key: &str| {
        let outcome = once(&semel, key).run(async |claim| {
            provider.charge(claim.derived_key());
            Work::Succeeded(Response::new(200, "charged"))
        });
        outcome.await.unwrap()
    };
    let replayed = charge("charged").await;
    assert!(matches!(replayed, Outcome::Replayed(_)));
    assert_eq!(replayed.response().and_then(Response::bytes).unwrap(), "found at the provider");
    assert!(matches!(charge("not-charged").await, Outcome::Ran { .. }));
    assert!(matches!(charge("unclear").await, Outcome::Unknown(_)));
    let charges = provider.0.lock().unwrap();
    assert_eq!(charges.len(), 3);
    assert!(charges.values().all(|count| *count == 1), "{charges:?}");
    node.assert_calm();
}

#[tokio::test]
async fn what_was_settled_while_somebody_looked_has_moved_on() {
    let node = Node::start(&[]);
    let provider = Provider::default();
    lost(&node, "contested", &provider, false).await;
    sleep(LEASE * 2).await;
    let semel = client(&node);
    let operator = client(&node);
    let recovery = semel.recovery(OPERATION, "slow");
    let swept = recovery.sweep(soon(), async |key: &StuckKey| {
        let failed = Resolution::FailedFinal(Response::new(402, "an operator was faster"));
        let who = ("operator", "saw it first");
        assert!(!operator.reconcile(key, &failed, who, soon()).await.unwrap());
        assert!(operator.reconcile(key, &failed, who, soon()).await.unwrap(), "the same again");
        Some(Resolution::NotDone)
    });
    let swept: Swept = swept.await.unwrap();
    assert_eq!((swept.settled, swept.moved_on), (0, 1));
    let outcome = once(&semel, "contested").run(async |_| panic!("it is settled")).await.unwrap();
    assert!(matches!(outcome, Outcome::Replayed(answer) if answer.failed));
}

#[tokio::test]
async fn the_job_goes_on_until_it_is_closed_and_outlives_a_node_that_is_away() {
    let node = Node::start(&[]);
    let provider = Provider::default();
    let semel = Client::connect("acme", ["http://127.0.0.1:9", node.url.as_str()]).unwrap();
    let recovery = semel.recovery(OPERATION, "recovery-test");
    let closing = CancellationToken::new();
    let job = recovery.run(Duration::from_millis(50), closing.cancelled(), async |_: &StuckKey| {
        Some(Resolution::Succeeded(Response::new(200, "found")))
    });
    let others = async {
        for key in ["first", "second"] {
            lost(&node, key, &provider, true).await;
            let answered = async {
                while !matches!(
                    once(&semel, key).run(async |_| panic!("it is blocked")).await.unwrap(),
                    Outcome::Replayed(_)
                ) {
                    sleep(Duration::from_millis(20)).await;
                }
            };
            timeout(Duration::from_secs(10), answered).await.expect("the job settles it");
        }
        closing.cancel();
    };
    tokio::join!(job, others);
    node.assert_calm();
}
