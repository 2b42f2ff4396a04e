//! Every verdict, over the wire. The order of precedence is the domain's to test.

use semel_proto::v1;

use crate::support::*;
use crate::words::*;

#[tokio::test]
async fn the_first_call_on_a_fresh_node_is_denied_since_nothing_was_deposited() {
    let node = TestNode::start().await;
    let reply = node.ask(ask("r")).await;
    assert_eq!(reply.verdict(), Verdict::Granted, "from the floor");
    assert_eq!((reply.token.len(), reply.node.len()), (16, 16));
    assert_eq!((reply.mode(), reply.repeated, reply.policy_version), (Mode::Normal, false, 0));
    assert!(duration(reply.delay).as_millis() <= 50);
    assert_eq!(duration(reply.use_within).as_millis(), 1_000);
    assert_eq!((reply.retry_after, reply.would_deny), (None, 0));
}

#[tokio::test]
async fn a_failure_that_no_retry_mends_is_retried() {
    let node = TestNode::start().await;
    for kind in [FailureKind::Rejected, FailureKind::Cancelled] {
        let reply = node.ask(ask("r").failed(kind)).await;
        assert_eq!(reply.verdict(), Verdict::NotRetryable, "{kind:?}");
        assert!(reply.token.is_empty() && reply.delay.is_none() && reply.use_within.is_none());
    }
}

#[tokio::test]
async fn work_that_may_be_done_is_done_twice() {
    let node = TestNode::start().await;
    for kind in [FailureKind::UnknownOutcome, FailureKind::ServerError] {
        let mut request = ask(&format!("{kind:?}")).failed(kind);
        assert_eq!(node.ask(request.clone()).await.verdict(), Verdict::Unsafe, "{kind:?}");
        request.repeatable = true;
        assert_eq!(node.ask(request).await.verdict(), Verdict::Granted, "{kind:?}");
    }
    let mut hedge = ask("hedge");
    (hedge.failure, hedge.kind) = (None, v1::AttemptKind::Hedge.into());
    assert_eq!(node.ask(hedge.clone()).await.verdict(), Verdict::Unsafe);
    hedge.repeatable = true;
    let reply = node.ask(hedge).await;
    assert_eq!(reply.verdict(), Verdict::Granted);
    assert!(duration(reply.delay).is_zero(), "a hedge waits for no backoff");
}

#[tokio::test]
async fn another_layer_than_the_policys_retries() {
    let node = TestNode::under(v1::RetryPolicy {
        retry_layer: "gateway".to_owned(),
        ..Default::default()
    })
    .await;
    let layer =
        |layer: &str| v1::AcquireRetryTokenRequest { layer: layer.to_owned(), ..ask(layer) };
    assert_eq!(node.ask(layer("client")).await.verdict(), Verdict::NotThisLayer);
    assert_eq!(node.ask(layer("gateway")).await.verdict(), Verdict::Granted);
}

#[tokio::test]
async fn a_call_has_more_attempts_than_its_policy_allows() {
    let node = TestNode::start().await;
    assert_eq!(node.ask(ask("r").attempt(2)).await.verdict(), Verdict::Granted);
    assert_eq!(node.ask(ask("r").attempt(3)).await.verdict(), Verdict::AttemptsExhausted);
}

#[tokio::test]
async fn a_retry_is_granted_that_can_not_end_in_time() {
    let node = TestNode::under(v1::RetryPolicy {
        backoff: v1::BackoffStrategy::None.into(),
        ..Default::default()
    })
    .await;
    let expecting = |ms| v1::AcquireRetryTokenRequest {
        expected_attempt_time: Some(milliseconds(ms)),
        ..ask("r").remaining_ms(500)
    };
    assert_eq!(node.ask(expecting(500)).await.verdict(), Verdict::Deadline);
    assert_eq!(node.ask(ask("r").remaining_ms(0)).await.verdict(), Verdict::Deadline);
    let mut told = expecting(0);
    let server_delay = Some(milliseconds(500));
    told.failure = Some(v1::Failure { kind: FailureKind::Throttled.into(), server_delay });
    assert_eq!(node.ask(told).await.verdict(), Verdict::Deadline);
    assert_eq!(node.ask(expecting(499)).await.verdict(), Verdict::Granted);
}

/// Fault 5: a caller that waits for a token sends nothing, so no deposit ever comes.
#[tokio::test]
async fn a_denial_waits_for_deposits() {
    let node = TestNode::under(bare()).await;
    let began_us = machine_us();
    for number in 0..50 {
        let reply = node.ask(ask(&format!("r{number}"))).await;
        assert_eq!(reply.verdict(), Verdict::BudgetExhausted);
        assert!(reply.token.is_empty() && reply.delay.is_none());
        assert!(duration(reply.retry_after).as_millis() <= 1_000);
    }
    let took_us = machine_us() - began_us;
    assert!(took_us < 2_500_000, "{took_us} µs for fifty denials");
    let denials = node.budget().await.node.expect("a node").denials;
    assert_eq!((denials[0].verdict(), denials[0].count), (Verdict::BudgetExhausted, 50));
}

#[tokio::test]
async fn a_kind_of_failure_costs_what_another_costs() {
    let cost = |kind: FailureKind, cost_milli| v1::FailureCost { kind: kind.into(), cost_milli };
    let costs = vec![cost(FailureKind::Throttled, 5_000), cost(FailureKind::InProgress, 1)];
    let node = TestNode::under(v1::RetryPolicy { costs, ..bare() }).await;
    assert!(node.reports(deposits(1, 1, 60)).await);
    let balance = |reply: v1::AcquireRetryTokenResponse| {
        assert_eq!(reply.verdict(), Verdict::Granted);
        reply.balance_milli
    };
    assert_eq!(balance(node.ask(ask("a").failed(FailureKind::Throttled)).await), 1_000);
    assert_eq!(balance(node.ask(ask("b").failed(FailureKind::InProgress)).await), 999);
    assert_eq!(node.ask(ask("c")).await.verdict(), Verdict::BudgetExhausted);
}

#[tokio::test]
async fn ordinary_calls_spend_the_reserve() {
    let node = TestNode::under(v1::RetryPolicy { reserve_per_mille: 500, ..bare() }).await;
    assert!(node.reports(deposits(1, 1, 40)).await);
    assert_eq!(node.spend_all("r").await, 2);
    let high = |id: &str| v1::AcquireRetryTokenRequest {
        criticality: v1::Criticality::High.into(),
        ..ask(id)
    };
    for id in ["h1", "h2"] {
        assert_eq!(node.ask(high(id)).await.verdict(), Verdict::Granted);
    }
    assert_eq!(node.ask(high("h3")).await.verdict(), Verdict::BudgetExhausted);
}

#[tokio::test]
async fn a_policy_that_only_observes_denies_or_hides_what_it_would_deny() {
    let observe = v1::Enforcement::Observe.into();
    let node = TestNode::under(v1::RetryPolicy { enforcement: observe, ..bare() }).await;
    for (request, would_deny) in [
        (ask("a").failed(FailureKind::Rejected), Verdict::NotRetryable),
        (ask("b").failed(FailureKind::ServerError), Verdict::Unsafe),
        (ask("c").attempt(9), Verdict::AttemptsExhausted),
        (ask("d").root("root", Some(0)), Verdict::RootExhausted),
        (ask("e").remaining_ms(0), Verdict::Deadline),
        (ask("f"), Verdict::BudgetExhausted),
    ] {
        let reply = node.ask(request).await;
        assert_eq!((reply.verdict(), reply.would_deny()), (Verdict::Granted, would_deny));
        assert_eq!(reply.token.len(), 16);
    }
    assert!(node.reports(deposits(1, 1, 10)).await);
    assert_eq!(node.ask(ask("g")).await.would_deny(), Verdict::Unspecified);
    let view = node.budget().await.node.expect("a node");
    assert_eq!((view.granted, view.denials.len()), (7, 6));
}

#[tokio::test]
async fn a_policy_that_only_observes_says_that_it_would_deny_what_the_store_would_pay() {
    let policy = v1::RetryPolicy {
        enforcement: v1::Enforcement::Observe.into(),
        floor_per_second: Some(1),
        ..bare()
    };
    let node = TestNode::under(policy).await;
    let mut would_deny = Vec::new();
    for number in 0..12 {
        let reply = node.ask(ask(&format!("r{number}"))).await;
        assert_eq!((reply.verdict(), reply.repeated), (Verdict::Granted, false));
        would_deny.push(reply.would_deny());
    }
    let paid = would_deny.iter().filter(|verdict| **verdict == Verdict::Unspecified).count();
    assert!((9..=11).contains(&paid), "{would_deny:?}");
    assert_eq!(would_deny[0], Verdict::Unspecified, "it asks first");
}
