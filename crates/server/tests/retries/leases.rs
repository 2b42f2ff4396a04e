//! Tokens that clients spend themselves: charged whole, credited once for what comes back.

use std::time::Duration;

use semel_proto::v1;

use crate::store_away::cut_off;
use crate::support::*;
use crate::words::*;

async fn leases(
    node: &TestNode,
    request: v1::LeaseRetryTokensRequest,
) -> v1::LeaseRetryTokensResponse {
    within(node.retries.lease(request)).await.expect("answered")
}

/// Gives back so much of a lease, and wants nothing.
fn back(lessee: u8, seq: u64, of: u64, returned: u32) -> v1::LeaseRetryTokensRequest {
    v1::LeaseRetryTokensRequest { returned_lease: Some(of), returned, ..lease(lessee, seq, 0) }
}

#[tokio::test]
async fn a_lost_reply_leases_twice() {
    let node = TestNode::under(bare()).await;
    node.reports(deposits(1, 1, 100)).await;
    let first = leases(&node, lease(7, 1, 4)).await;
    assert_eq!((first.granted, first.mode()), (4, Mode::Normal));
    assert_eq!((first.node.len(), first.policy_version), (16, 1));
    let policy = first.policy.clone().expect("a policy");
    assert_eq!((policy.floor_per_second, policy.attempts_max), (Some(0), 3));
    let length = duration(first.expires_in).as_millis();
    assert!(length > 0 && length <= 1_000, "{length}");
    let again = leases(&node, lease(7, 1, 9)).await;
    assert_eq!((again.lease, again.granted), (first.lease, 4));
    assert!(duration(again.expires_in) <= duration(first.expires_in));
    assert_eq!(node.balance().await, 6_000);
    let old = leases(&node, lease(7, 2, 1)).await;
    assert_eq!((old.granted, node.balance().await), (1, 5_000));
    assert_eq!(leases(&node, lease(7, 1, 4)).await.granted, 0, "a late copy");
    assert_eq!(node.balance().await, 5_000);
}

#[tokio::test]
async fn what_comes_back_is_credited_twice_or_for_more_than_it_was() {
    let node = TestNode::under(bare()).await;
    node.reports(deposits(1, 1, 100)).await;
    let held = leases(&node, lease(7, 1, 4)).await.lease;
    assert_eq!(node.balance().await, 6_000);
    leases(&node, back(8, 1, held, 4)).await;
    leases(&node, back(7, 2, held + 1, 4)).await;
    assert_eq!(node.balance().await, 6_000, "neither another's lease nor another lease");
    leases(&node, back(7, 3, held, 3)).await;
    assert_eq!(node.balance().await, 9_000);
    leases(&node, back(7, 3, held, 3)).await;
    leases(&node, back(7, 4, held, 3)).await;
    assert_eq!(node.balance().await, 9_000, "once");
    let held = leases(&node, lease(7, 5, 2)).await.lease;
    leases(&node, back(7, 6, held, u32::MAX)).await;
    assert_eq!(node.balance().await, 9_000, "never more than it held");
}

#[tokio::test]
async fn a_lease_is_granted_more_than_there_is() {
    let node = TestNode::under(bare()).await;
    let with =
        v1::LeaseRetryTokensRequest { deposits: Some(deposits(1, 1, 37)), ..lease(7, 1, 100_000) };
    let reply = leases(&node, with.clone()).await;
    assert_eq!((reply.granted, reply.deposits_counted), (3, true));
    let next = leases(&node, v1::LeaseRetryTokensRequest { seq: 2, ..with }).await;
    assert_eq!((next.granted, next.deposits_counted), (0, true), "counted before");
    assert_eq!(node.balance().await, 700);
}

#[tokio::test]
async fn a_fresh_node_leases_one_token_of_a_floor_that_has_many() {
    let node = TestNode::start().await;
    let reply = leases(&node, lease(7, 1, 40)).await;
    assert_eq!(reply.granted, 40);
    assert_eq!(leases(&node, lease(8, 1, 0)).await.granted, 0, "who wants nothing gets nothing");
}

/// A slice that the store gave for a second must not be spent after it, not even by a client.
#[tokio::test]
async fn a_lease_outlives_the_slice_that_it_was_cut_from() {
    let node = TestNode::start().await;
    // It asks ahead: some of the slice is left for the next one.
    assert_eq!(leases(&node, lease(7, 1, 2)).await.granted, 2);
    let left = node.balance().await;
    assert!(left >= 1_000, "{left}");
    let ends = time_us(node.budget().await.budget.expect("a budget").members[0].expires_at);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let reply = leases(&node, lease(8, 1, 1)).await;
    assert_eq!(reply.granted, 1);
    let good_until_us =
        machine_us() + u64::try_from(duration(reply.expires_in).as_micros()).expect("short");
    assert!(good_until_us <= ends + 50_000, "it ends with its slice, not a lease from now");
}

/// Whoever holds it is gone: it counts as spent at its end, and is not granted again for a window.
#[tokio::test]
async fn a_lease_that_never_came_back_is_granted_again() {
    let policy =
        v1::RetryPolicy { floor_per_second: Some(1), lease: Some(milliseconds(200)), ..bare() };
    let node = TestNode::under(policy).await;
    assert_eq!(leases(&node, lease(7, 1, 10)).await.granted, 10);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(leases(&node, lease(8, 1, 1)).await.granted, 0);
    let view = node.budget().await.budget.expect("a budget");
    assert_eq!((view.spent_milli, view.outstanding_milli, view.available_milli), (10_000, 0, 0));
    let late = leases(&node, back(7, 2, 1, 10)).await;
    assert_eq!((late.granted, node.balance().await), (0, 0), "too late to give it back");
}

#[tokio::test]
async fn a_client_is_let_lease_while_the_store_is_away_as_if_unlimited() {
    for fail_mode in [v1::FailMode::Deny, v1::FailMode::Allow] {
        let policy = v1::RetryPolicy { fail_mode: fail_mode.into(), ..bare() };
        let node = cut_off(policy, 100).await;
        let reply = leases(&node, lease(7, 1, 5)).await;
        assert_eq!(reply.granted, 0, "{fail_mode:?}");
        assert_ne!(reply.mode(), Mode::Normal);
    }
}
