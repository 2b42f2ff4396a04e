//! What has outlived its retention goes, in bounded batches, and nothing else does.

use std::time::Duration;

use semel_proto::v1;
use semel_store::{ManualClock, Space};

use crate::support::*;

const DAY_US: u64 = 24 * 60 * 60 * 1_000_000;

async fn sweeping_node() -> (TestNode, ManualClock) {
    TestNode::manual(|options| options.keys.sweep_interval = Duration::from_millis(10)).await
}

/// Waits until the store has so many records, looking each time that it was written to.
async fn until_records(node: &TestNode, count: usize) {
    loop {
        let ended = node.store.seen().ended;
        if node.store.rows(Space::Records).await.len() == count {
            return;
        }
        node.store.until(|seen| seen.ended > ended).await;
    }
}

/// Fault 13: one big purge takes the service down.
#[tokio::test]
async fn a_purge_is_one_big_transaction_or_leaves_something_behind() {
    let (node, clock) = sweeping_node().await;
    let claims: Vec<_> = (0..600).map(|number| claim(&format!("k{number}"))).collect();
    // No single update of the test is larger than what a sweep may take at once.
    for part in claims.chunks(200) {
        let batch = v1::ClaimKeysRequest { claims: part.to_vec() };
        let granted = node.keys.claim_all(batch).await.expect("granted").results;
        let mut completions = Vec::new();
        for (request, result) in part.iter().zip(granted) {
            let Some(v1::claim_key_result::Result::Response(granted)) = result.result else {
                panic!("{result:?}");
            };
            completions.push(succeed(request, granted.fence, "x"));
        }
        let batch = v1::CompleteKeysRequest { completions };
        node.keys.complete_all(batch).await.expect("completed");
    }
    assert_eq!(node.store.rows(Space::Records).await.len(), 600);
    let before = node.store.seen();

    clock.advance_us(DAY_US + 2_000_000 - 1);
    node.keys.claim(claims[0].clone()).await.expect("answered");
    assert_eq!(node.store.rows(Space::Records).await.len(), 600, "not a moment too early");
    clock.advance_us(1);
    until_records(&node, 0).await;
    assert_eq!(node.store.rows(Space::Index).await, [], "and no index entry stays");
    let after = node.store.seen();
    assert!(after.ended - before.ended >= 3, "several batches");
    assert!(after.largest <= 256, "{} at once", after.largest);
}

#[tokio::test]
async fn a_live_stuck_or_indeterminate_key_is_swept_away() {
    let (node, clock) = sweeping_node().await;
    let keys = &node.keys;
    let claimed = async |key: &str, lease_ms| {
        let request = claim(key).lease_ms(lease_ms);
        let fence = keys.claim(request.clone()).await.expect("granted").fence;
        (request, fence)
    };
    claimed("lapsed", 100).await;
    let (unknown, fence) = claimed("unknown", 1_000).await;
    keys.complete(complete(&unknown, fence, v1::Outcome::Indeterminate)).await.expect("declared");
    let (done, fence) = claimed("done", 1_000).await;
    keys.complete(succeed(&done, fence, "x")).await.expect("completed");
    let (failed, fence) = claimed("failed", 1_000).await;
    keys.complete(complete(&failed, fence, v1::Outcome::FailedFinal)).await.expect("completed");
    let (released, fence) = claimed("released", 1_000).await;
    keys.release(release(&released, fence)).await.expect("released");
    let (forgotten, fence) = claimed("forgotten", 1_000).await;
    keys.complete(succeed(&forgotten, fence, "x")).await.expect("completed");
    keys.forget(forget(&forgotten)).await.expect("erased");

    clock.advance_us(10 * DAY_US);
    claimed("live", 60_000).await;
    until_records(&node, 3).await;
    let left = keys.list(list()).await.expect("listed").keys;
    let left: Vec<_> = left.iter().map(|key| (key.key.as_str(), key.state())).collect();
    let expected = [
        ("lapsed", v1::KeyState::Lapsed),
        ("live", v1::KeyState::Claimed),
        ("unknown", v1::KeyState::Indeterminate),
    ];
    assert_eq!(left, expected);
    // However long.
    clock.advance_us(1_000 * DAY_US);
    claimed("newest", 60_000).await;
    let kept = node.store.seen().begun;
    assert_eq!(node.store.rows(Space::Records).await.len(), 4);
    assert_eq!(node.store.seen().begun, kept, "there is nothing to sweep");
}

#[tokio::test]
async fn a_record_that_was_written_anew_is_swept_away_for_the_old_one() {
    let (node, clock) = sweeping_node().await;
    let request = claim("k");
    let first = node.keys.claim(request.clone()).await.expect("granted");
    node.keys.complete(succeed(&request, first.fence, "x")).await.expect("completed");
    let before = node.store.seen();
    let go_on = node.store.hold_back_next();
    clock.advance_us(2 * DAY_US);
    // The sweeper has read the index, and is about to remove what it found.
    node.store.until(|seen| seen.begun > before.begun).await;
    let second = node.keys.claim(request.clone().owner(2)).await.expect("granted");
    assert_eq!(second.disposition(), Disposition::Claimed);
    assert!(second.fence > first.fence);
    go_on.send(()).expect("the sweeper waits");
    node.store.until(|seen| seen.ended >= before.ended + 2).await;
    let view = node.keys.get(get(&request)).await.expect("it stays").key.expect("a key");
    assert_eq!((view.fence, view.state()), (second.fence, v1::KeyState::Claimed));
}

#[tokio::test]
async fn a_sweep_that_failed_is_the_last() {
    let (node, clock) = sweeping_node().await;
    let request = claim("k");
    let fence = node.keys.claim(request.clone()).await.expect("granted").fence;
    node.keys.complete(succeed(&request, fence, "x")).await.expect("completed");
    node.store.faults().script([
        semel_store::memory::Fault::Unavailable,
        semel_store::memory::Fault::Unknown { committed: false },
    ]);
    clock.advance_us(2 * DAY_US);
    until_records(&node, 0).await;
    assert_eq!(node.store.faults().injected(), 2);
}
