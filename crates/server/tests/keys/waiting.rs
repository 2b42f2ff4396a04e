//! Waiting for somebody else's claim to end: who is woken, who gets the claim, and who never does.

use std::time::Duration;

use semel_proto::v1;
use semel_proto::v1::attempt::End;
use tokio::task::JoinSet;

use crate::support::*;

type Answers = JoinSet<Result<v1::ClaimKeyResponse, Refused>>;

/// Starts a waiter for each owner.
fn wait_all(node: &TestNode, key: &str, owners: std::ops::Range<u32>, wait_ms: u64) -> Answers {
    let mut waiters = JoinSet::new();
    for owner in owners {
        let keys = node.keys.clone();
        let request = claim(key).owner(owner).wait_ms(wait_ms);
        waiters.spawn(async move { keys.claim(request).await });
    }
    waiters
}

async fn next(waiters: &mut Answers) -> v1::ClaimKeyResponse {
    let answer = within(waiters.join_next()).await.expect("a waiter");
    answer.expect("no panic").expect("answered")
}

#[tokio::test]
async fn a_completion_leaves_some_waiter_asleep_or_tells_them_different_things() {
    let node = TestNode::start().await;
    let owner = claim("k").owner(1);
    let fence = node.keys.claim(owner.clone()).await.expect("granted").fence;
    let mut waiters = wait_all(&node, "k", 2..102, 60_000);
    let mut readers = JoinSet::new();
    for _ in 0..10 {
        let keys = node.keys.clone();
        let read = v1::ReplayKeyRequest { wait: Some(milliseconds(60_000)), ..replay(&claim("k")) };
        readers.spawn(async move { keys.replay(read).await.expect("answered") });
    }
    node.store.until(|seen| seen.watches >= 110).await;
    let began_us = machine_us();
    node.keys.complete(succeed(&owner, fence, "done")).await.expect("completed");

    let first = next(&mut waiters).await;
    assert!(machine_us() - began_us < 1_000_000, "woken, not found when it looked again by itself");
    assert_eq!(first.disposition(), Disposition::Replay);
    assert_eq!(body_of(first.completion.as_ref()).expect("a body"), "done");
    while !waiters.is_empty() {
        assert_eq!(next(&mut waiters).await, first);
    }
    for read in within(readers.join_all()).await {
        assert_eq!(read.completion, first.completion);
    }
}

#[tokio::test]
async fn a_release_is_given_to_several_waiters_or_wakes_none() {
    let node = TestNode::start().await;
    let owner = claim("k").owner(1);
    let fence = node.keys.claim(owner.clone()).await.expect("granted").fence;
    let mut waiters = wait_all(&node, "k", 2..22, 60_000);
    node.store.until(|seen| seen.watches >= 20).await;
    node.keys.release(release(&owner, fence)).await.expect("released");

    let winner = next(&mut waiters).await;
    assert_eq!((winner.disposition(), winner.fence), (Disposition::Claimed, fence + 1));
    assert_eq!((winner.attempt, winner.history[0].end()), (2, End::Released));
    // All others have looked again, and gone back to wait.
    node.store.until(|seen| seen.watches >= 39).await;
    assert!(waiters.try_join_next().is_none());

    let view = node.keys.get(get(&owner)).await.expect("there").key.expect("a key");
    let winner = v1::ClaimKeyRequest { owner_id: view.owner_id, ..owner };
    node.keys.complete(succeed(&winner, fence + 1, "done")).await.expect("completed");
    while !waiters.is_empty() {
        assert_eq!(next(&mut waiters).await.disposition(), Disposition::Replay);
    }
}

#[tokio::test]
async fn a_lapsed_claim_is_given_to_several_waiters_or_to_none() {
    let node = TestNode::start().await;
    let rows = [
        ("a", v1::OnOwnerLost::TakeOver, Disposition::TakenOver),
        ("b", v1::OnOwnerLost::Reconcile, Disposition::ReconcileRequired),
    ];
    for (key, policy, expected) in rows {
        let lost = claim(key).owner(1).lease_ms(200).on_owner_lost(policy);
        let fence = node.keys.claim(lost.clone()).await.expect("granted").fence;
        let mut waiters = wait_all(&node, key, 2..22, 60_000);
        let winner = next(&mut waiters).await;
        assert_eq!((winner.disposition(), winner.fence), (expected, fence + 1));
        let late_us = machine_us().saturating_sub(fence + 200_000);
        assert!(late_us < 2_000_000, "{late_us} µs after the lapse: it was found by chance");

        let view = node.keys.get(get(&lost)).await.expect("there").key.expect("a key");
        assert_eq!((view.attempts, view.state()), (2, v1::KeyState::Claimed));
        let winner = v1::ClaimKeyRequest { owner_id: view.owner_id, ..lost };
        node.keys.complete(succeed(&winner, fence + 1, "done")).await.expect("completed");
        while !waiters.is_empty() {
            assert_eq!(next(&mut waiters).await.disposition(), Disposition::Replay);
        }
    }
}

#[tokio::test]
async fn who_waits_for_a_blocked_key_waits_in_vain() {
    let node = TestNode::start().await;
    let lost = claim("k").owner(1).lease_ms(200).on_owner_lost(v1::OnOwnerLost::Block);
    node.keys.claim(lost).await.expect("granted");
    let mut waiters = wait_all(&node, "k", 2..5, 60_000);
    while !waiters.is_empty() {
        assert_eq!(next(&mut waiters).await.disposition(), Disposition::Indeterminate);
    }
    let declared = claim("d").owner(1).on_owner_lost(v1::OnOwnerLost::Block);
    let fence = node.keys.claim(declared.clone()).await.expect("granted").fence;
    let armed = node.store.seen().watches;
    let mut waiters = wait_all(&node, "d", 2..5, 60_000);
    node.store.until(|seen| seen.watches >= armed + 3).await;
    let unknown = complete(&declared, fence, v1::Outcome::Indeterminate);
    node.keys.complete(unknown).await.expect("declared");
    while !waiters.is_empty() {
        assert_eq!(next(&mut waiters).await.disposition(), Disposition::Indeterminate);
    }
}

#[tokio::test]
async fn a_claim_is_given_to_a_waiter_that_is_gone() {
    let node = TestNode::with(|options| options.keys.waiters_per_key_max = 1).await;
    let owner = claim("k").owner(1);
    let fence = node.keys.claim(owner.clone()).await.expect("granted").fence;
    let mut gone = wait_all(&node, "k", 2..3, 60_000);
    node.store.until(|seen| seen.watches >= 1).await;
    let staying = claim("k").owner(3).wait_ms(60_000);
    let refused = node.keys.claim(staying.clone()).await.expect_err("one may wait");
    assert_eq!(refused.reason, "WAITERS_FULL");

    gone.abort_all();
    // Its place is free as soon as the node has noticed.
    let keys = node.keys.clone();
    let mut stays = JoinSet::new();
    stays.spawn(async move {
        loop {
            match keys.claim(staying.clone()).await {
                Err(refused) if refused.reason == "WAITERS_FULL" => {}
                answer => break answer,
            }
        }
    });
    node.store.until(|seen| seen.watches >= 2).await;
    node.keys.release(release(&owner, fence)).await.expect("released");
    let answer = next(&mut stays).await;
    assert_eq!((answer.disposition(), answer.fence), (Disposition::Claimed, fence + 1));
    assert_eq!(answer.attempt, 2, "the one that is gone never had it");
}

#[tokio::test]
async fn a_claim_is_given_to_a_waiter_with_no_time_left_to_use_it() {
    let (node, clock) = TestNode::manual(|_| {}).await;
    let owner = claim("k").owner(1).lease_ms(60_000);
    let fence = node.keys.claim(owner.clone()).await.expect("granted").fence;
    let mut waiters = wait_all(&node, "k", 2..3, 10_000);
    node.store.until(|seen| seen.watches >= 1).await;
    clock.advance_us(9_901_000);
    node.keys.release(release(&owner, fence)).await.expect("released");
    // It has looked again, with 99 ms left.
    node.store.until(|seen| seen.watches >= 2).await;
    clock.advance_us(99_000);
    let answer = next(&mut waiters).await;
    assert_eq!(answer.disposition(), Disposition::InProgress);
    assert!(!duration(answer.retry_after).is_zero());

    // From the start.
    let brief = claim("k").owner(3).wait_ms(99);
    let other = claim("k").owner(4).lease_ms(60_000);
    let fence = node.keys.claim(other.clone()).await.expect("granted").fence;
    let armed = node.store.seen().watches;
    let keys = node.keys.clone();
    let mut waiters = JoinSet::new();
    waiters.spawn(async move { keys.claim(brief).await });
    node.store.until(|seen| seen.watches > armed).await;
    node.keys.release(release(&other, fence)).await.expect("released");
    node.store.until(|seen| seen.watches > armed + 1).await;
    clock.advance_us(99_000);
    assert_eq!(next(&mut waiters).await.disposition(), Disposition::InProgress);
    let view = node.keys.get(get(&other)).await.expect("there").key.expect("a key");
    assert_eq!((view.state(), view.attempts), (v1::KeyState::Released, 2));
}

#[tokio::test]
async fn a_waiter_with_time_left_is_refused_the_claim() {
    let (node, clock) = TestNode::manual(|_| {}).await;
    let owner = claim("k").owner(1).lease_ms(60_000);
    let fence = node.keys.claim(owner.clone()).await.expect("granted").fence;
    let mut waiters = wait_all(&node, "k", 2..3, 10_000);
    node.store.until(|seen| seen.watches >= 1).await;
    clock.advance_us(9_900_000);
    node.keys.release(release(&owner, fence)).await.expect("released");
    assert_eq!(next(&mut waiters).await.disposition(), Disposition::Claimed);
}

#[tokio::test]
async fn a_wait_ends_with_an_error_or_before_its_time() {
    let node = TestNode::start().await;
    node.keys.claim(claim("k").owner(1)).await.expect("granted");
    let began_us = machine_us();
    let answer = node.keys.claim(claim("k").owner(2).wait_ms(150)).await.expect("answered");
    assert_eq!(answer.disposition(), Disposition::InProgress);
    let hint = duration(answer.retry_after);
    assert!(!hint.is_zero() && hint < Duration::from_secs(30), "{hint:?}");
    let read = v1::ReplayKeyRequest { wait: Some(milliseconds(150)), ..replay(&claim("k")) };
    let read = node.keys.replay(read).await.expect("answered");
    assert_eq!(read.state(), v1::KeyState::Claimed);
    assert!(machine_us() - began_us >= 300_000);
}

#[tokio::test]
async fn a_deadline_that_is_shorter_than_the_wait_cuts_the_answer_off() {
    let (node, clock) = TestNode::manual(|_| {}).await;
    let owner = claim("k").owner(1).lease_ms(3_600_000);
    let fence = node.keys.claim(owner.clone()).await.expect("granted").fence;
    let mut raw = node.keys.raw();
    let mut waiters = JoinSet::new();
    let request = timed(claim("k").owner(2).wait_ms(600_000), Duration::from_secs(60));
    waiters.spawn(async move { raw.claim_key(request).await.expect("answered") });
    node.store.until(|seen| seen.watches >= 1).await;
    clock.advance_us(59_980_000);
    // Whatever wakes it: it sees that its time is over, and leaves some for the answer to travel.
    node.keys.renew(renew(&owner, fence, 1)).await.expect("renewed");
    let reply = within(waiters.join_next()).await.expect("a waiter").expect("no panic");
    assert_eq!(remaining_ms(reply.metadata()), Some(20));
    assert_eq!(reply.into_inner().disposition(), Disposition::InProgress);
}

#[tokio::test]
async fn waiters_pile_up_without_bound() {
    let node = TestNode::with(|options| {
        options.keys.waiters_per_key_max = 2;
        options.keys.waiters_per_tenant_max = 3;
        options.keys.waiters_max = 4;
    });
    let node = node.await;
    let other = v1::ClaimKeyRequest { tenant: "other".to_owned(), ..claim("k") };
    let third = v1::ClaimKeyRequest { tenant: "third".to_owned(), ..claim("k") };
    for held in [claim("a"), claim("b"), claim("c"), other.clone(), third.clone()] {
        node.keys.claim(held).await.expect("granted");
    }
    let mut waiters = JoinSet::new();
    let mut enter = |request: v1::ClaimKeyRequest| {
        let keys = node.keys.clone();
        waiters.spawn(async move { keys.claim(request.owner(2).wait_ms(60_000)).await });
    };
    let full = async |request: v1::ClaimKeyRequest, bound: &str| {
        let waits = request.clone().owner(3).wait_ms(1);
        let refused = node.keys.claim(waits).await.expect_err("full");
        assert_eq!(refused.named(), ("WAITERS_FULL", None));
        assert!(refused.message.contains(bound), "{}", refused.message);
        let read = v1::ReplayKeyRequest { wait: Some(milliseconds(1)), ..replay(&request) };
        assert_eq!(node.keys.replay(read).await.expect_err("full").reason, "WAITERS_FULL");
        let answer =
            node.keys.claim(request.owner(3)).await.expect("who does not wait is answered");
        assert_eq!(answer.disposition(), Disposition::InProgress);
    };
    enter(claim("a"));
    enter(claim("a"));
    node.store.until(|seen| seen.watches >= 2).await;
    full(claim("a"), "this key").await;
    enter(claim("b"));
    node.store.until(|seen| seen.watches >= 3).await;
    full(claim("c"), "this tenant").await;
    enter(other);
    node.store.until(|seen| seen.watches >= 4).await;
    full(third, "this node").await;
}

#[tokio::test]
async fn hundreds_of_waiters_for_one_key_are_too_many() {
    let node = TestNode::start().await;
    let owner = claim("k").owner(1);
    let fence = node.keys.claim(owner.clone()).await.expect("granted").fence;
    let mut waiters = wait_all(&node, "k", 2..502, 60_000);
    node.store.until(|seen| seen.watches >= 500).await;
    let other = node.keys.claim(claim("other")).await.expect("they hold nobody up");
    assert_eq!(other.disposition(), Disposition::Claimed);
    node.keys.complete(succeed(&owner, fence, "done")).await.expect("completed");
    let first = next(&mut waiters).await;
    assert_eq!(first.disposition(), Disposition::Replay);
    while !waiters.is_empty() {
        assert_eq!(next(&mut waiters).await, first);
    }
}
