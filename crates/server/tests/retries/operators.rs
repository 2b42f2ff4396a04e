//! What operators see of budgets.

use semel_proto::v1;

use crate::support::*;
use crate::words::*;

fn list(page_size: u32, page_token: &str) -> v1::ListBudgetsRequest {
    let (tenant, page_token) = ("acme".to_owned(), page_token.to_owned());
    v1::ListBudgetsRequest { tenant, page_size, page_token }
}

#[tokio::test]
async fn a_budget_is_shown_otherwise_than_it_is() {
    let node = TestNode::start().await;
    let fresh = node.budget().await.budget.expect("a budget");
    assert_eq!((fresh.tenant.as_str(), fresh.dependency.as_str()), ("acme", "stripe"));
    assert_eq!((fresh.floor_milli, fresh.available_milli), (100_000, 100_000));
    assert_eq!((fresh.deposited_milli, fresh.spent_milli, fresh.outstanding_milli), (0, 0, 0));
    assert!(fresh.members.is_empty());

    let name = node.ask(ask("r")).await.node;
    node.ask(ask("s").failed(FailureKind::Rejected)).await;
    let reply = node.budget().await;
    let (budget, here) = (reply.budget.expect("a budget"), reply.node.expect("a node"));
    assert_eq!((&here.node, here.granted, here.mode()), (&name, 1, Mode::Normal));
    assert_eq!((here.denials[0].verdict(), here.denials[0].count), (Verdict::NotRetryable, 1));
    assert!(budget.outstanding_milli >= 1_000);
    assert_eq!(budget.available_milli, 100_000 - budget.outstanding_milli);
    assert_eq!(budget.members.len(), 1);
    assert_eq!(budget.members[0].node, name);
    assert_eq!(budget.members[0].outstanding_milli, budget.outstanding_milli);
    assert_eq!(
        here.balance_milli,
        budget.outstanding_milli - 1_000,
        "what it was leased, less one"
    );
    assert!(time_us(budget.members[0].expires_at) <= machine_us() + 1_000_000);
}

#[tokio::test]
async fn a_listing_leaves_budgets_out_or_shows_those_of_others() {
    let node = TestNode::start().await;
    let mut expected = Vec::new();
    for number in 0..7 {
        let request = v1::SetRetryPolicyRequest { dependency: format!("d{number}"), ..set(bare()) };
        expected.push(request.dependency.clone());
        node.retries.set_policy(request).await.expect("set");
    }
    for tenant in ["acm", "acme2", "zebra"] {
        let request = v1::SetRetryPolicyRequest { tenant: tenant.to_owned(), ..set(bare()) };
        node.retries.set_policy(request).await.expect("set");
    }
    for size in [1, 3, 7, 0] {
        let (mut found, mut token) = (Vec::new(), String::new());
        loop {
            let page = node.retries.list(list(size, &token)).await.expect("a page");
            assert!(size == 0 || page.budgets.len() <= usize::try_from(size).expect("small"));
            found.extend(page.budgets.into_iter().map(|budget| {
                assert_eq!((budget.tenant.as_str(), budget.policy_version), ("acme", 1));
                budget.dependency
            }));
            token = page.next_page_token;
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(found, expected, "pages of {size}");
    }
    let refused = node.retries.list(list(1_001, "")).await.expect_err("too large");
    assert_eq!(refused.named(), ("PAGE_INVALID", Some("page_size")));
    for token in ["zz", "6b", "62"] {
        let refused = node.retries.list(list(1, token)).await.expect_err("of no page");
        assert_eq!(refused.named(), ("PAGE_INVALID", Some("page_token")), "{token}");
    }
}

#[tokio::test]
async fn operators_are_told_nothing_or_something_wrong_while_the_store_is_away() {
    let node = TestNode::start().await;
    node.store.faults().set_down(true);
    let (tenant, dependency) = ("acme".to_owned(), "stripe".to_owned());
    let get = v1::GetBudgetRequest { tenant: tenant.clone(), dependency: dependency.clone() };
    assert_eq!(node.retries.get(get).await.expect_err("away").reason, "STORE_UNAVAILABLE");
    let policy = v1::GetRetryPolicyRequest { tenant, dependency };
    assert_eq!(node.retries.policy(policy).await.expect_err("away").reason, "STORE_UNAVAILABLE");
    assert_eq!(node.retries.list(list(1, "")).await.expect_err("away").reason, "STORE_UNAVAILABLE");
    let refused = node.retries.set_policy(set(bare())).await.expect_err("away");
    assert_eq!(refused.reason, "STORE_UNAVAILABLE");
}
