//! While the store is away: no more than the policy's fail mode says, and replies say so.

use bytes::Bytes;
use semel_domain::budget::layout::record_key;
use semel_domain::downstream::Downstream;
use semel_domain::name::{Dependency, Tenant};
use semel_proto::v1;
use semel_store::memory::Fault;
use semel_store::{Change, Durability, Store, Transition, Update, ValueChange};

use crate::support::*;
use crate::words::*;

impl TestNode {
    /// Asks until the node has noticed that its store is back.
    async fn until_back(&self) {
        for number in 0.. {
            let reply =
                self.ask(ask(&format!("back-{number}")).failed(FailureKind::Rejected)).await;
            if reply.mode() == Mode::Normal {
                return;
            }
            let ended = self.store.seen().ended;
            self.store.until(|seen| seen.ended > ended).await;
        }
    }
}

/// A node whose store went away, and where so many first attempts were reported since.
pub(crate) async fn cut_off(policy: v1::RetryPolicy, requests: u64) -> TestNode {
    let node = TestNode::under(policy).await;
    node.store.faults().set_down(true);
    // It finds out when it asks for what it does not have.
    assert_ne!(node.ask(ask("probe")).await.mode(), Mode::Normal);
    assert!(node.reports(deposits(1, 1, requests)).await, "first attempts are never gated");
    node
}

/// Fault 12: an overloaded service makes its clients pass everything.
#[tokio::test]
async fn a_node_without_its_store_grants_more_than_its_callers_deposited() {
    let node = cut_off(bare(), 50).await;
    let reply = node.ask(ask("first")).await;
    assert_eq!((reply.verdict(), reply.mode()), (Verdict::Granted, Mode::LocalBounded));
    assert_eq!(node.spend_all("r").await, 4);
    // First attempts are never gated: they are counted, and pay.
    assert!(node.reports(deposits(1, 2, 20)).await);
    assert_eq!(node.spend_all("s").await, 2);
    let (reply, took) = measured(node.ask(ask("t"))).await;
    assert_eq!((reply.verdict(), reply.mode()), (Verdict::BudgetExhausted, Mode::LocalBounded));
    assert!(took.as_millis() < 1_000, "{took:?}");
    node.store.faults().set_down(false);
    node.until_back().await;
    node.reports(deposits(1, 3, 10)).await;
    let reply = node.ask(ask("u")).await;
    assert_eq!((reply.verdict(), reply.mode()), (Verdict::Granted, Mode::Normal));
}

#[tokio::test]
async fn a_policy_that_denies_is_not_obeyed() {
    let deny = v1::FailMode::Deny.into();
    let node = cut_off(v1::RetryPolicy { fail_mode: deny, ..bare() }, 50).await;
    let reply = node.ask(ask("r")).await;
    assert_eq!((reply.verdict(), reply.mode()), (Verdict::BudgetExhausted, Mode::Deny));
    node.store.faults().set_down(false);
    node.until_back().await;
    let reply = node.ask(ask("r")).await;
    assert_eq!((reply.verdict(), reply.mode()), (Verdict::Granted, Mode::Normal));
}

#[tokio::test]
async fn a_policy_that_allows_forgets_attempts_and_roots() {
    let allow = v1::FailMode::Allow.into();
    let node = cut_off(v1::RetryPolicy { fail_mode: allow, ..bare() }, 0).await;
    for number in 0..20 {
        let reply = node.ask(ask(&format!("r{number}"))).await;
        assert_eq!((reply.verdict(), reply.mode()), (Verdict::Granted, Mode::Allow));
    }
    assert_eq!(node.ask(ask("r").attempt(3)).await.verdict(), Verdict::AttemptsExhausted);
    assert_eq!(node.ask(ask("r").root("t", Some(0))).await.verdict(), Verdict::RootExhausted);
}

#[tokio::test]
async fn a_node_that_never_heard_of_its_store_grants_without_end() {
    let node = TestNode::start().await;
    node.store.faults().set_down(true);
    let (reply, took) = measured(node.ask(ask("r"))).await;
    assert_eq!((reply.verdict(), reply.mode()), (Verdict::BudgetExhausted, Mode::LocalBounded));
    assert!(took.as_millis() < 1_000, "{took:?}");
    assert!(node.reports(deposits(1, 1, 20)).await);
    assert_eq!(node.spend_all("s").await, 0, "an operator may have set any ratio");
    node.store.faults().set_down(false);
    node.until_back().await;
    assert_eq!(node.ask(ask("t")).await.verdict(), Verdict::Granted, "from the floor");
}

/// The store neither answers nor fails.
#[tokio::test]
async fn a_store_that_hangs_holds_a_caller_up() {
    let node = TestNode::under(bare()).await;
    let _held = node.store.hold_back_next();
    let (reply, took) = measured(node.ask(ask("r"))).await;
    assert_eq!(reply.verdict(), Verdict::BudgetExhausted);
    assert!(took.as_millis() < 1_000, "{took:?}");
}

#[tokio::test]
async fn a_store_that_hangs_is_taken_for_one_that_answers() {
    let node = TestNode::under(bare()).await;
    node.store.faults().script([Fault::Hold; 100]);
    let degraded = async {
        for number in 0.. {
            // Each waits for the store, so that this takes no more turns than it must.
            let reply = node.ask(ask(&format!("r-{number}"))).await;
            if reply.mode() == Mode::LocalBounded {
                return;
            }
        }
    };
    within(degraded).await;
    assert!(node.reports(deposits(1, 1, 30)).await);
    assert_eq!(node.spend_all("s").await, 3, "from what its own callers deposited");
}

/// Puts bytes that no node wrote.
#[derive(Clone)]
struct Spoil;

impl Transition for Spoil {
    type Outcome = ();

    fn apply(&self, _old: Option<&[u8]>, _now_us: u64) -> (Change, ()) {
        let value = ValueChange::Put(Bytes::from_static(b"\x01no record"));
        (Change { value, index: Vec::new() }, ())
    }
}

#[tokio::test]
async fn a_record_that_can_not_be_read_is_taken_for_a_fresh_one() {
    let node = TestNode::start().await;
    let of = Downstream {
        tenant: Tenant::parse("acme").expect("valid"),
        dependency: Dependency::parse("stripe").expect("valid"),
    };
    let key = record_key(&of);
    let update = Update {
        key: key.clone(),
        durability: Durability::Synced,
        patience: None,
        transition: Spoil,
    };
    for result in node.store.update(vec![update]).await {
        result.expect("written");
    }
    let reply = node.ask(ask("r")).await;
    assert_eq!((reply.verdict(), reply.mode()), (Verdict::BudgetExhausted, Mode::LocalBounded));
    assert!(node.reports(deposits(1, 1, 10)).await);
    assert_eq!(node.spend_all("s").await, 0, "nobody can say what its policy is");
    let (tenant, dependency) = ("acme".to_owned(), "stripe".to_owned());
    let get = v1::GetBudgetRequest { tenant: tenant.clone(), dependency: dependency.clone() };
    assert_eq!(node.retries.get(get).await.expect_err("refused").reason, "RECORD_UNREADABLE");
    let get = v1::GetRetryPolicyRequest { tenant: tenant.clone(), dependency };
    assert_eq!(node.retries.policy(get).await.expect_err("refused").reason, "RECORD_UNREADABLE");
    let refused = node.retries.set_policy(set(bare())).await.expect_err("refused");
    assert_eq!(refused.reason, "RECORD_UNREADABLE");
    let rows = node.store.rows(semel_store::Space::Records).await;
    assert_eq!(rows[0].value, &b"\x01no record"[..], "it is kept for who can mend it");
    let list = v1::ListBudgetsRequest { tenant, ..Default::default() };
    assert_eq!(node.retries.list(list).await.expect("answered").budgets, []);
}
