//! One token for one attempt, whoever asks, however often: and charged once.

use std::collections::BTreeSet;

use tokio::task::JoinSet;

use crate::support::*;
use crate::words::*;

#[tokio::test]
async fn a_lost_reply_yields_two_tokens_or_is_charged_twice() {
    let node = TestNode::under(bare()).await;
    node.reports(deposits(1, 1, 30)).await;
    let first = node.ask(ask("r").root("root", Some(3))).await;
    let again = node.ask(ask("r").root("root", Some(3))).await;
    assert_eq!((first.repeated, again.repeated), (false, true));
    assert_eq!((&again.token, again.delay), (&first.token, first.delay));
    assert_eq!((first.root_retries_left, again.root_retries_left), (2, 2));
    assert_eq!((first.balance_milli, again.balance_milli), (2_000, 2_000));
    let next = node.ask(ask("r").attempt(2)).await;
    assert_ne!(next.token, first.token);
    assert_eq!(next.balance_milli, 1_000);
    assert_eq!(node.budget().await.node.expect("a node").granted, 2);
}

#[tokio::test]
async fn questions_asked_at_once_are_charged_more_than_once() {
    let node = TestNode::under(bare()).await;
    node.reports(deposits(1, 1, 1_000)).await;
    let mut racers = JoinSet::new();
    for _ in 0..20 {
        let retries = node.retries.clone();
        racers.spawn(async move { retries.acquire(ask("r")).await.expect("answered") });
    }
    let replies = within(racers.join_all()).await;
    assert!(replies.iter().all(|reply| reply.token == replies[0].token));
    assert_eq!(replies.iter().filter(|reply| !reply.repeated).count(), 1);
    assert_eq!(node.balance().await, 99_000);
}

#[tokio::test]
async fn two_nodes_give_two_tokens_for_one_attempt() {
    let a = TestNode::start().await;
    let b = a.beside().await;
    let (one, other) = (a.ask(ask("r")).await, b.ask(ask("r")).await);
    assert_eq!(one.token, other.token);
    assert_ne!(one.node, other.node);
    let all = [a.ask(ask("s")).await, b.ask(ask("t")).await, a.ask(ask("r").attempt(2)).await];
    let tokens: BTreeSet<_> = all.iter().map(|reply| &reply.token).chain([&one.token]).collect();
    assert_eq!(tokens.len(), 4);
}
