//! Policies: shown complete, replaced one after another, and in force on every node in time.

use std::time::Duration;

use semel_proto::v1;

use crate::support::*;
use crate::words::*;

async fn policy_of(node: &TestNode) -> v1::GetRetryPolicyResponse {
    let (tenant, dependency) = ("acme".to_owned(), "stripe".to_owned());
    let request = v1::GetRetryPolicyRequest { tenant, dependency };
    node.retries.policy(request).await.expect("answered")
}

/// The default policy as the contract tells it.
fn default_policy() -> v1::RetryPolicy {
    let cost = |kind: FailureKind| v1::FailureCost { kind: kind.into(), cost_milli: 1_000 };
    v1::RetryPolicy {
        ratio_per_mille: Some(100),
        floor_per_second: Some(10),
        window: Some(milliseconds(10_000)),
        carry_over: Some(milliseconds(0)),
        costs: [
            FailureKind::NotSent,
            FailureKind::Throttled,
            FailureKind::UnknownOutcome,
            FailureKind::ServerError,
            FailureKind::InProgress,
        ]
        .map(cost)
        .to_vec(),
        attempts_max: 3,
        retries_per_root: Some(4),
        retry_layer: String::new(),
        backoff: v1::BackoffStrategy::FullJitter.into(),
        backoff_base: Some(milliseconds(50)),
        backoff_base_throttled: Some(milliseconds(1_000)),
        backoff_cap: Some(milliseconds(20_000)),
        deposit_on: v1::DepositOn::Request.into(),
        fail_mode: v1::FailMode::LocalBounded.into(),
        reserve_per_mille: 0,
        enforcement: v1::Enforcement::Enforce.into(),
        lease: Some(milliseconds(1_000)),
    }
}

#[tokio::test]
async fn a_default_is_another_than_the_contract_says_or_is_not_shown() {
    let node = TestNode::start().await;
    let reply = policy_of(&node).await;
    assert_eq!(reply.policy, Some(default_policy()));
    assert_eq!((reply.version, reply.actor.as_str(), reply.set_at), (0, "", None));
    // An empty policy is the default one, and so is one that says all of it.
    for policy in [v1::RetryPolicy::default(), default_policy()] {
        node.retries.set_policy(set(policy)).await.expect("set");
        assert_eq!(policy_of(&node).await.policy, Some(default_policy()));
    }
}

#[tokio::test]
async fn a_part_of_a_policy_is_lost_on_its_way() {
    let node = TestNode::start().await;
    let cost = |kind: FailureKind, cost_milli| v1::FailureCost { kind: kind.into(), cost_milli };
    let policy = v1::RetryPolicy {
        ratio_per_mille: Some(0),
        floor_per_second: Some(0),
        window: Some(milliseconds(60_000)),
        carry_over: Some(milliseconds(100)),
        costs: vec![
            cost(FailureKind::NotSent, 1),
            cost(FailureKind::Throttled, 2),
            cost(FailureKind::UnknownOutcome, 3),
            cost(FailureKind::ServerError, 4),
            cost(FailureKind::InProgress, 1_000_000),
        ],
        attempts_max: 100,
        retries_per_root: Some(0),
        retry_layer: "gateway".to_owned(),
        backoff: v1::BackoffStrategy::DecorrelatedJitter.into(),
        backoff_base: Some(milliseconds(1)),
        backoff_base_throttled: Some(milliseconds(2)),
        backoff_cap: Some(milliseconds(3_600_000)),
        deposit_on: v1::DepositOn::Success.into(),
        fail_mode: v1::FailMode::Deny.into(),
        reserve_per_mille: 1_000,
        enforcement: v1::Enforcement::Observe.into(),
        lease: Some(milliseconds(100)),
    };
    let before_us = machine_us();
    let version = node.retries.set_policy(set(policy.clone())).await.expect("set").version;
    let reply = policy_of(&node).await;
    assert_eq!((version, reply.version, reply.actor.as_str()), (1, 1, "olga"));
    assert!((before_us..=machine_us()).contains(&time_us(reply.set_at)));
    assert_eq!(reply.policy.as_ref(), Some(&policy));
    assert_eq!(node.budget().await.policy, Some(policy));
}

#[tokio::test]
async fn a_policy_is_replaced_by_who_did_not_see_it() {
    let node = TestNode::start().await;
    let expecting = |expected, ratio| v1::SetRetryPolicyRequest {
        expected_version: Some(expected),
        ..set(v1::RetryPolicy { ratio_per_mille: Some(ratio), ..bare() })
    };
    let refused = node.retries.set_policy(expecting(1, 10)).await.expect_err("none is there");
    assert_eq!(refused.reason, "POLICY_CONFLICT");
    assert_eq!(refused.metadata.get("current_version").map(String::as_str), Some("0"));
    let set = async |request| node.retries.set_policy(request).await.map(|reply| reply.version);
    assert_eq!(set(expecting(0, 10)).await, Ok(1));
    assert_eq!(set(expecting(0, 10)).await, Ok(1), "the reply was lost: it is in force");
    let refused = set(expecting(0, 20)).await.expect_err("another is there");
    assert_eq!(refused.metadata.get("current_version").map(String::as_str), Some("1"));
    assert_eq!(set(expecting(1, 20)).await, Ok(2));
    assert_eq!(policy_of(&node).await.policy.expect("a policy").ratio_per_mille, Some(20));
}

#[tokio::test]
async fn another_node_goes_on_by_the_old_policy() {
    let a = TestNode::start().await;
    let b = a.beside().await;
    assert_eq!(b.ask(ask("r")).await.policy_version, 0);
    a.retries.set_policy(set(bare())).await.expect("set");
    let began_us = machine_us();
    assert_eq!(a.ask(ask("s")).await.policy_version, 1, "at once where it was set");
    let mut number = 0;
    while b.ask(ask(&format!("s{number}")).failed(FailureKind::Rejected)).await.policy_version == 0
    {
        number += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let took_us = machine_us() - began_us;
    assert!(took_us < 5_000_000, "{took_us} µs");
}

/// The clock of the nodes is moved by hand: nobody uses the budget for a minute.
#[tokio::test]
async fn a_budget_that_nobody_used_wakes_up_under_an_old_policy() {
    let (a, clock) = TestNode::manual(|_| {}).await;
    let shared: std::sync::Arc<dyn semel_store::Clock> = std::sync::Arc::new(clock.clone());
    let b = TestNode::over(a.store.share(std::sync::Arc::clone(&shared)), shared, |_| {}).await;
    assert_eq!(b.ask(ask("r")).await.verdict(), Verdict::Granted);
    let strict = v1::RetryPolicy { attempts_max: 1, ..bare() };
    a.retries.set_policy(set(strict)).await.expect("set");
    clock.advance_us(60_000_000);
    // The old policy would grant it at once, from what comes along.
    let reply = b.ask(ask("s").with(deposits(1, 1, 100))).await;
    assert_eq!((reply.verdict(), reply.policy_version), (Verdict::AttemptsExhausted, 1));
}

/// Fields, what is wrong with them, and the reason.
#[tokio::test]
async fn a_policy_beyond_its_limits_is_taken() {
    let node = TestNode::start().await;
    let base = v1::RetryPolicy::default;
    let ms = |ms| Some(milliseconds(ms));
    let cost = |kind: FailureKind, cost_milli| v1::RetryPolicy {
        costs: vec![v1::FailureCost { kind: kind.into(), cost_milli }],
        ..base()
    };
    let negative = Some(prost_types::Duration { seconds: -1, nanos: 0 });
    let table = [
        ("ratio_per_mille", v1::RetryPolicy { ratio_per_mille: Some(1_001), ..base() }),
        ("floor_per_second", v1::RetryPolicy { floor_per_second: Some(1_000_001), ..base() }),
        ("window", v1::RetryPolicy { window: ms(999), ..base() }),
        ("window", v1::RetryPolicy { window: ms(60_001), ..base() }),
        ("window", v1::RetryPolicy { window: ms(1_050), ..base() }),
        ("carry_over", v1::RetryPolicy { carry_over: ms(60_100), ..base() }),
        ("carry_over", v1::RetryPolicy { carry_over: ms(50), ..base() }),
        ("costs.cost_milli", cost(FailureKind::NotSent, 0)),
        ("costs.cost_milli", cost(FailureKind::NotSent, 1_000_001)),
        ("costs.kind", cost(FailureKind::Unspecified, 5)),
        ("costs.kind", cost(FailureKind::Rejected, 5)),
        ("costs.kind", cost(FailureKind::Cancelled, 5)),
        ("attempts_max", v1::RetryPolicy { attempts_max: 101, ..base() }),
        ("retries_per_root", v1::RetryPolicy { retries_per_root: Some(1_001), ..base() }),
        ("backoff_base", v1::RetryPolicy { backoff_base: ms(3_600_001), ..base() }),
        (
            "backoff_base",
            v1::RetryPolicy {
                backoff_base: Some(prost_types::Duration { seconds: 0, nanos: 1 }),
                ..base()
            },
        ),
        (
            "backoff_base_throttled",
            v1::RetryPolicy { backoff_base_throttled: ms(3_600_001), ..base() },
        ),
        ("backoff_cap", v1::RetryPolicy { backoff_cap: ms(999), ..base() }),
        ("backoff_cap", v1::RetryPolicy { backoff_cap: ms(3_600_001), ..base() }),
        ("reserve_per_mille", v1::RetryPolicy { reserve_per_mille: 1_001, ..base() }),
        ("lease", v1::RetryPolicy { lease: ms(99), ..base() }),
        ("lease", v1::RetryPolicy { lease: ms(10_001), ..base() }),
    ];
    for (field, policy) in table {
        let refused = node.retries.set_policy(set(policy)).await.expect_err(field);
        assert_eq!(refused.named(), ("POLICY_INVALID", Some(field)), "{}", refused.message);
    }
    for (reason, field, policy) in [
        ("LAYER_INVALID", "layer", v1::RetryPolicy { retry_layer: "a b".to_owned(), ..base() }),
        ("LAYER_INVALID", "layer", v1::RetryPolicy { retry_layer: "a".repeat(129), ..base() }),
        ("ENUM_INVALID", "backoff", v1::RetryPolicy { backoff: 99, ..base() }),
        ("ENUM_INVALID", "deposit_on", v1::RetryPolicy { deposit_on: 99, ..base() }),
        ("ENUM_INVALID", "fail_mode", v1::RetryPolicy { fail_mode: 99, ..base() }),
        ("ENUM_INVALID", "enforcement", v1::RetryPolicy { enforcement: 99, ..base() }),
        ("DURATION_INVALID", "window", v1::RetryPolicy { window: negative, ..base() }),
        ("DURATION_INVALID", "lease", v1::RetryPolicy { lease: negative, ..base() }),
    ] {
        let refused = node.retries.set_policy(set(policy)).await.expect_err(field);
        assert_eq!(refused.named(), (reason, Some(field)), "{}", refused.message);
    }
    let nobody = v1::SetRetryPolicyRequest { actor: " ".to_owned(), ..set(base()) };
    let refused = node.retries.set_policy(nobody).await.expect_err("nobody");
    assert_eq!(refused.named(), ("AUDIT_INVALID", Some("actor")));
    assert_eq!(policy_of(&node).await.version, 0, "nothing was written");
}
