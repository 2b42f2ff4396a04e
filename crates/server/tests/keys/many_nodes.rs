//! Several nodes over one store: they share nothing else, and behave as one.

use std::sync::Arc;
use std::time::Duration;

use semel_proto::v1;
use semel_server::NodeOptions;
use semel_store::{Clock, ManualClock, Space, SystemClock};
use tokio::task::JoinSet;

use crate::support::*;

const SECOND_US: u64 = 1_000_000;

/// Another node over the store of a first, on the same clock.
async fn beside(
    first: &TestNode,
    clock: impl Clock + Clone,
    change: impl FnOnce(&mut NodeOptions),
) -> TestNode {
    let clock: Arc<dyn Clock> = Arc::new(clock);
    TestNode::over(first.store.share(Arc::clone(&clock)), clock, change).await
}

#[tokio::test]
async fn what_one_node_did_is_unknown_to_another() {
    let a = TestNode::start().await;
    let b = beside(&a, SystemClock, |_| {}).await;
    let c = beside(&a, SystemClock, |_| {}).await;
    let request = claim("k");
    let granted = a.keys.claim(request.clone()).await.expect("granted");
    let again = c.keys.claim(request.clone()).await.expect("granted");
    assert_eq!((again.fence, again.resumed), (granted.fence, true));
    assert_eq!(again.derived_key, granted.derived_key, "the same on every node");
    b.keys.renew(renew(&request, granted.fence, 1)).await.expect("renewed");
    let done = succeed(&request, granted.fence, "x".repeat(5_000));
    b.keys.complete(done).await.expect("completed");
    let mut answers = Vec::new();
    for node in [&a, &b, &c] {
        let answer = node.keys.claim(request.clone().owner(2)).await.expect("answered");
        assert_eq!(answer.disposition(), Disposition::Replay);
        answers.push(answer);
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]), "the same bytes");
    assert_eq!(body_of(answers[0].completion.as_ref()).expect("a body").len(), 5_000);
}

#[tokio::test]
async fn a_completion_on_one_node_leaves_a_waiter_on_another_asleep() {
    let a = TestNode::start().await;
    let b = beside(&a, SystemClock, |_| {}).await;
    let owner = claim("k").owner(1);
    let fence = a.keys.claim(owner.clone()).await.expect("granted").fence;
    let mut waiters = JoinSet::new();
    for number in 2..12 {
        let keys = b.keys.clone();
        let request = claim("k").owner(number).wait_ms(60_000);
        waiters.spawn(async move { keys.claim(request).await.expect("answered") });
    }
    b.store.until(|seen| seen.watches >= 10).await;
    a.keys.complete(succeed(&owner, fence, "x")).await.expect("completed");
    for answer in within(waiters.join_all()).await {
        assert_eq!(body_of(answer.completion.as_ref()).expect("a body"), "x");
    }
}

#[tokio::test]
async fn an_erased_answer_is_given_for_longer_than_the_published_bound() {
    let (a, clock) = TestNode::manual(|_| {}).await;
    let b = beside(&a, clock.clone(), |_| {}).await;
    let request = claim("k");
    let fence = a.keys.claim(request.clone()).await.expect("granted").fence;
    a.keys.complete(succeed(&request, fence, "secret")).await.expect("completed");
    for node in [&a, &b] {
        node.keys.replay(replay(&request)).await.expect("and kept in memory");
    }
    a.keys.forget(forget(&request)).await.expect("erased");
    let refused = a.keys.replay(replay(&request)).await.expect_err("at once where it was erased");
    assert_eq!(refused.reason, "KEY_EXPIRED");

    clock.advance_us(5 * SECOND_US - 1);
    let kept = b.keys.replay(replay(&request)).await.expect("the bound is not reached");
    assert_eq!(body_of(kept.completion.as_ref()).expect("a body"), "secret");
    clock.advance_us(1);
    let refused = b.keys.replay(replay(&request)).await.expect_err("within 5 s everywhere");
    assert_eq!(refused.reason, "KEY_EXPIRED");
    let refused = b.keys.claim(request.owner(2)).await.expect_err("never run again");
    assert_eq!(refused.reason, "KEY_EXPIRED");
}

/// A node that is cut off from the store can't confirm what it has in memory.
#[tokio::test]
async fn an_answer_in_memory_outlives_its_bound_while_the_store_is_away() {
    let (a, clock) = TestNode::manual(|_| {}).await;
    let b = beside(&a, clock.clone(), |_| {}).await;
    let request = claim("k");
    let fence = a.keys.claim(request.clone()).await.expect("granted").fence;
    a.keys.complete(succeed(&request, fence, "x")).await.expect("completed");
    b.keys.replay(replay(&request)).await.expect("and kept in memory");
    b.store.faults().set_down(true);
    for _ in 0..9 {
        clock.advance_us(SECOND_US / 2);
        b.keys.replay(replay(&request)).await.expect("reading it does not confirm it");
    }
    clock.advance_us(SECOND_US / 2);
    let refused = b.keys.replay(replay(&request)).await.expect_err("not confirmed for 5 s");
    assert_eq!(refused.reason, "STORE_UNAVAILABLE");
}

#[tokio::test]
async fn two_nodes_grant_the_same_key() {
    let a = TestNode::start().await;
    let b = beside(&a, SystemClock, |_| {}).await;
    let mut racers = JoinSet::new();
    for (owner, node) in [(1, &a), (2, &b)] {
        for part in 0..20 {
            let keys = node.keys.clone();
            racers.spawn(async move {
                let mut granted = Vec::new();
                for number in 0..50 {
                    let key = format!("k{}", part * 50 + number);
                    let answer = keys.claim(claim(&key).owner(owner)).await.expect("answered");
                    match answer.disposition() {
                        Disposition::Claimed => granted.push(key),
                        other => assert_eq!(other, Disposition::InProgress),
                    }
                }
                granted
            });
        }
    }
    let granted: Vec<String> = within(racers.join_all()).await.concat();
    let keys: std::collections::BTreeSet<&String> = granted.iter().collect();
    assert_eq!((granted.len(), keys.len()), (1_000, 1_000), "one each");
}

/// Fault 10: expiry is judged by each node's own configuration.
#[tokio::test]
async fn a_node_with_a_shorter_retention_drops_the_answers_of_others() {
    let (a, clock) = TestNode::manual(|_| {}).await;
    let b = beside(&a, clock.clone(), |options| {
        options.keys.retention = Duration::from_secs(60);
        options.keys.allowed_skew = Duration::ZERO;
        options.keys.sweep_interval = Duration::from_millis(10);
    })
    .await;
    let (long, short) = (claim("long"), claim("short"));
    let fence = a.keys.claim(long.clone()).await.expect("granted").fence;
    // Frozen at completion, from what the claim's node promised.
    let done = b.keys.complete(succeed(&long, fence, "x")).await.expect("completed");
    assert_eq!(time_us(done.expires_at), NOON_US + 86_402 * SECOND_US);
    let fence = b.keys.claim(short.clone()).await.expect("granted").fence;
    let done = a.keys.complete(succeed(&short, fence, "x")).await.expect("completed");
    assert_eq!(time_us(done.expires_at), NOON_US + 60 * SECOND_US);

    clock.advance_us(61 * SECOND_US);
    for node in [&a, &b] {
        let answer = node.keys.claim(long.clone().owner(2)).await.expect("answered");
        assert_eq!(answer.disposition(), Disposition::Replay);
        assert_eq!(node.keys.replay(replay(&short)).await.expect_err("over").reason, "KEY_UNKNOWN");
    }
}

/// Time inside a record never goes back, whatever the clocks of the nodes do.
#[tokio::test]
async fn a_node_whose_clock_is_behind_takes_a_live_claim_for_a_new_one() {
    let (a, clock) = TestNode::manual(|_| {}).await;
    let behind = ManualClock::new(NOON_US - SECOND_US);
    // One that allows for that, or it would decide nothing.
    let b = beside(&a, behind, |options| options.keys.allowed_skew = Duration::from_secs(60)).await;
    clock.advance_us(10 * SECOND_US);
    let request = claim("k").lease_ms(1_000);
    let granted = a.keys.claim(request.clone()).await.expect("granted");
    let answer = b.keys.claim(request.clone().owner(2)).await.expect("answered");
    assert_eq!(answer.disposition(), Disposition::InProgress);
    assert!(duration(answer.retry_after).as_millis() <= 1_000);
    b.keys.complete(succeed(&request, granted.fence, "x")).await.expect("completed");
    let view = a.keys.get(get(&request)).await.expect("there").key.expect("a key");
    assert!(time_us(view.touched_at) >= granted.fence);
}

/// Fault: nodes that sweep the same store race each other for every page of it.
#[tokio::test]
async fn three_nodes_look_three_times_at_all_that_expired() {
    const PARTS: u64 = 40;
    const PART: u64 = 200;
    let (first, clock) = TestNode::manual(|_| {}).await;
    for part in 0..PARTS {
        let claims = (0..PART).map(|number| claim(&format!("k{part}-{number}"))).collect();
        let granted = first.keys.claim_all(v1::ClaimKeysRequest { claims }).await.expect("granted");
        let completions = granted.results.into_iter().enumerate().map(|(number, result)| {
            let Some(v1::claim_key_result::Result::Response(granted)) = result.result else {
                panic!("{result:?}");
            };
            succeed(&claim(&format!("k{part}-{number}")), granted.fence, "x")
        });
        let completions = completions.collect();
        first.keys.complete_all(v1::CompleteKeysRequest { completions }).await.expect("completed");
        clock.advance_us(SECOND_US);
    }
    let mut sweepers = Vec::new();
    for _ in 0..3 {
        let sweeps = |options: &mut NodeOptions| {
            options.keys.sweep_interval = Duration::from_millis(10);
        };
        let sweeper = beside(&first, clock.clone(), sweeps).await;
        sweeper.store.move_away(Duration::from_millis(5));
        sweepers.push(sweeper);
    }
    clock.advance_us(2 * 24 * 60 * 60 * SECOND_US);
    while !first.store.rows(Space::Records).await.is_empty() {
        tokio::task::yield_now().await;
    }
    let looked: Vec<usize> = sweepers.iter().map(|node| node.store.seen().items).collect();
    let records = usize::try_from(PARTS * PART).expect("small");
    println!("{records} expired records; looked at by the nodes: {looked:?}");
    assert!(looked.iter().sum::<usize>() < records * 2, "{looked:?} of {records}");
}
