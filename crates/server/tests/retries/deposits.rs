//! First attempts count once, for whoever they were first reported to.

use bytes::Bytes;
use semel_proto::v1;

use crate::support::*;
use crate::words::*;

#[tokio::test]
async fn a_report_counts_twice_or_after_a_newer_one() {
    let node = TestNode::under(bare()).await;
    for (seq, counted, balance) in
        [(1, true, 1_000), (1, true, 1_000), (5, true, 2_000), (4, false, 2_000), (5, true, 2_000)]
    {
        assert_eq!(node.reports(deposits(1, seq, 10)).await, counted, "{seq}");
        assert_eq!(node.balance().await, balance, "{seq}");
    }
    assert!(node.reports(deposits(2, 1, 10)).await, "another reporter counts for himself");
    assert_eq!(node.balance().await, 3_000);
    assert_eq!(node.budget().await.node.expect("a node").requests, 30);
}

#[tokio::test]
async fn deposits_that_come_with_a_question_do_not_count_for_it_or_count_again() {
    let node = TestNode::under(bare()).await;
    let first = node.ask(ask("a").with(deposits(1, 1, 10))).await;
    assert_eq!((first.verdict(), first.deposits_counted), (Verdict::Granted, true));
    assert_eq!(first.balance_milli, 0);
    let again = node.ask(ask("b").with(deposits(1, 1, 10))).await;
    assert_eq!((again.verdict(), again.deposits_counted), (Verdict::BudgetExhausted, true));
    let none = node.ask(ask("c")).await;
    assert!(!none.deposits_counted);
    assert!(node.reports(deposits(1, 1, 10)).await, "counted before");
    assert_eq!(node.balance().await, 0);
}

#[tokio::test]
async fn what_was_first_sent_to_another_node_counts_here_as_well() {
    let a = TestNode::under(bare()).await;
    let b = a.beside().await;
    let name_of_a = a.ask(ask("r")).await.node;
    let sent_to_a = v1::Deposits { node: name_of_a, ..deposits(1, 1, 10) };
    assert!(a.reports(sent_to_a.clone()).await);
    assert!(!b.reports(sent_to_a.clone()).await);
    let reply = b.ask(ask("r").with(sent_to_a)).await;
    assert!(!reply.deposits_counted);
    assert_eq!((a.balance().await, b.balance().await), (1_000, 0));
}

#[tokio::test]
async fn failures_are_deposited_under_a_policy_that_counts_successes() {
    let on_success = v1::DepositOn::Success.into();
    let node = TestNode::under(v1::RetryPolicy { deposit_on: on_success, ..bare() }).await;
    node.reports(v1::Deposits { successes: 0, ..deposits(1, 1, 1_000) }).await;
    assert_eq!(node.balance().await, 0);
    node.reports(v1::Deposits { successes: 20, ..deposits(1, 2, 1_000) }).await;
    assert_eq!(node.balance().await, 2_000);
}

#[tokio::test]
async fn what_a_client_spent_of_its_share_can_be_spent_here_again() {
    let node = TestNode::under(bare()).await;
    node.reports(v1::Deposits { spent_milli: 1_500, ..deposits(1, 1, 30) }).await;
    assert_eq!(node.balance().await, 1_500);
    assert_eq!(node.spend_all("r").await, 1);
}

/// A node that was just started does not know yet that the ratio is nothing.
#[tokio::test]
async fn a_fresh_node_deposits_by_the_default_policy() {
    let a = TestNode::under(v1::RetryPolicy { ratio_per_mille: Some(0), ..bare() }).await;
    let b = a.beside().await;
    assert!(b.reports(deposits(1, 1, 100_000)).await);
    assert_eq!(b.balance().await, 0);
    assert_eq!(b.spend_all("r").await, 0);
}

#[tokio::test]
async fn reports_about_many_dependencies_are_mixed_up_or_counted_in_part() {
    let node = TestNode::start().await;
    let report = |dependency: &str, requests| v1::RequestReport {
        dependency: dependency.to_owned(),
        deposits: Some(deposits(1, 1, requests)),
    };
    let request = |reports| v1::ReportRequestsRequest { tenant: "acme".to_owned(), reports };
    let bad = vec![report("stripe", 10), report("no good", 10)];
    let refused = node.retries.report(request(bad)).await.expect_err("malformed");
    assert_eq!(refused.named(), ("DEPENDENCY_INVALID", Some("reports[1].dependency")));
    let good = (0..100).map(|number| report(&format!("d{number}"), number)).collect();
    let (reply, took) = measured(node.retries.report(request(good))).await;
    let reply = reply.expect("answered");
    assert!(reply.receipts.len() == 100 && reply.receipts.iter().all(|receipt| receipt.counted));
    assert_eq!(reply.node.len(), 16);
    assert!(took.as_millis() < 1_000, "{took:?}: they are not asked for one after another");
    let nothing = node.budget().await.node.expect("a node");
    assert_eq!(nothing.requests, 0, "the malformed report counted nothing at all");
    for number in [0, 7, 99] {
        let (tenant, dependency) = ("acme".to_owned(), format!("d{number}"));
        let view = node.retries.get(v1::GetBudgetRequest { tenant, dependency }).await;
        assert_eq!(view.expect("answered").node.expect("a node").requests, number);
    }
}

#[tokio::test]
async fn a_reporter_is_told_that_its_report_counts_when_it_does_not() {
    let node = TestNode::start().await;
    let other = v1::Deposits { node: Bytes::from(vec![1; 16]), ..deposits(1, 1, 10) };
    let reply = node.retries.report(report(other)).await.expect("answered");
    assert!(!reply.receipts[0].counted);
    let reply = node.retries.report(report(deposits(1, 1, 10))).await.expect("answered");
    assert!(reply.receipts[0].counted, "nothing was noted of what is not counted");
}
