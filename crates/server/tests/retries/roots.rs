//! The cap per root request: carried by the request, and remembered by the node.

use semel_proto::v1;

use crate::support::*;
use crate::words::*;

#[tokio::test]
async fn a_call_tree_makes_more_retries_than_were_carried_to_it() {
    let node = TestNode::start().await;
    let reply = node.ask(ask("a").root("tree", Some(2))).await;
    assert_eq!((reply.verdict(), reply.root_retries_left), (Verdict::Granted, 1));
    let reply = node.ask(ask("b").root("tree", Some(1))).await;
    assert_eq!((reply.verdict(), reply.root_retries_left), (Verdict::Granted, 0));
    let reply = node.ask(ask("c").root("tree", Some(0))).await;
    assert_eq!(reply.verdict(), Verdict::RootExhausted);
}

/// A caller that carries nothing, or lies: the node remembers, across dependencies.
#[tokio::test]
async fn a_call_tree_makes_more_retries_than_the_policy_allows() {
    let node = TestNode::start().await;
    for (number, left) in [(0, 3), (1, 2), (2, 1), (3, 0)] {
        let dependency = format!("d{number}");
        let request = ask("r").root("tree", (number % 2 == 0).then_some(1_000));
        let reply = node.ask(v1::AcquireRetryTokenRequest { dependency, ..request }).await;
        assert_eq!((reply.verdict(), reply.root_retries_left), (Verdict::Granted, left));
    }
    assert_eq!(node.ask(ask("s").root("tree", None)).await.verdict(), Verdict::RootExhausted);
    let other =
        v1::AcquireRetryTokenRequest { tenant: "other".to_owned(), ..ask("s").root("tree", None) };
    assert_eq!(node.ask(other).await.verdict(), Verdict::Granted, "another tenant's tree");
    assert_eq!(node.ask(ask("s").root("tree2", None)).await.verdict(), Verdict::Granted);
    assert_eq!(node.ask(ask("t")).await.verdict(), Verdict::Granted, "of no tree");
}

#[tokio::test]
async fn a_denial_or_a_repeated_question_uses_a_trees_retries_up() {
    let node = TestNode::under(v1::RetryPolicy { retries_per_root: Some(1), ..bare() }).await;
    for number in 0..5 {
        let reply = node.ask(ask(&format!("r{number}")).root("tree", None)).await;
        assert_eq!(reply.verdict(), Verdict::BudgetExhausted);
    }
    node.reports(deposits(1, 1, 100)).await;
    for repeated in [false, true, true] {
        let reply = node.ask(ask("r").root("tree", None)).await;
        assert_eq!((reply.verdict(), reply.repeated), (Verdict::Granted, repeated));
    }
    assert_eq!(node.ask(ask("s").root("tree", None)).await.verdict(), Verdict::RootExhausted);
}

#[tokio::test]
async fn a_policy_of_no_retries_per_root_lets_one_through() {
    let node =
        TestNode::under(v1::RetryPolicy { retries_per_root: Some(0), ..Default::default() }).await;
    let reply = node.ask(ask("r").root("tree", Some(9))).await;
    assert_eq!(reply.verdict(), Verdict::RootExhausted);
}
