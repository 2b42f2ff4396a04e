//! What was not sent comes back: once, and only to where it came from.

use bytes::Bytes;
use semel_proto::v1;
use v1::refund_retry_token_response::Disposition::{self, AlreadyRefunded, Refunded, UnknownToken};

use crate::support::*;
use crate::words::*;

async fn refunds(node: &TestNode, request: v1::RefundRetryTokenRequest) -> Disposition {
    node.retries.refund(request).await.expect("answered").disposition()
}

#[tokio::test]
async fn a_refund_is_credited_twice() {
    let node = TestNode::under(bare()).await;
    node.reports(deposits(1, 1, 10)).await;
    let granted = node.ask(ask("r")).await;
    assert_eq!(granted.balance_milli, 0);
    for expected in [Refunded, AlreadyRefunded, AlreadyRefunded] {
        assert_eq!(refunds(&node, refund(&granted)).await, expected);
        assert_eq!(node.balance().await, 1_000);
    }
}

/// It was given back, so it was not paid for any more.
#[tokio::test]
async fn a_token_that_came_back_is_given_again_for_nothing() {
    let node = TestNode::under(bare()).await;
    node.reports(deposits(1, 1, 20)).await;
    let granted = node.ask(ask("r")).await;
    assert_eq!(refunds(&node, refund(&granted)).await, Refunded);
    let again = node.ask(ask("r")).await;
    assert_eq!((&again.token, again.repeated), (&granted.token, false));
    assert_eq!(again.balance_milli, 1_000, "charged anew");
    // A late copy of the first refund looks just like a second one.
    assert_eq!(refunds(&node, refund(&granted)).await, AlreadyRefunded);
    let third = node.ask(ask("r")).await;
    assert_eq!((third.repeated, third.balance_milli), (true, 1_000));
    assert_eq!(refunds(&node, refund(&granted)).await, AlreadyRefunded);
    assert_eq!(node.balance().await, 1_000);
}

#[tokio::test]
async fn a_refund_of_what_this_node_did_not_grant_is_credited() {
    let a = TestNode::under(bare()).await;
    let b = a.beside().await;
    a.reports(deposits(1, 1, 10)).await;
    let granted = a.ask(ask("r")).await;
    let unknown = Bytes::from(vec![9; 16]);
    let right = refund(&granted);
    for wrong in [
        v1::RefundRetryTokenRequest { token: unknown.clone(), ..right.clone() },
        v1::RefundRetryTokenRequest { node: unknown.clone(), ..right.clone() },
        v1::RefundRetryTokenRequest { dependency: "adyen".to_owned(), ..right.clone() },
        v1::RefundRetryTokenRequest { tenant: "other".to_owned(), ..right.clone() },
    ] {
        assert_eq!(refunds(&a, wrong).await, UnknownToken);
    }
    assert_eq!(refunds(&b, right.clone()).await, UnknownToken, "it names another node");
    assert_eq!((a.balance().await, b.balance().await), (0, 0));
    assert_eq!(refunds(&a, right).await, Refunded, "none of them used it up");
}
