//! More than a node can take: it says so, and what ends claimed work still gets through.

use semel_proto::v1;
use semel_store::memory::Fault;
use tokio::task::JoinSet;
use tonic::Code;

use crate::support::*;

#[tokio::test]
async fn a_full_queue_turns_completions_away_or_grows_without_bound() {
    let node = TestNode::with(|options| {
        options.serving_threads = 1;
        options.queued_calls_max = 1;
    })
    .await;
    let mut owned = Vec::new();
    for key in ["complete", "renew", "release"] {
        owned.push((claim(key), node.keys.claim(claim(key)).await.expect("granted").fence));
    }
    node.store.faults().script([Fault::Hold, Fault::Hold]);
    let mut held = JoinSet::new();
    for number in 1..=2 {
        let keys = node.keys.clone();
        held.spawn(async move { keys.claim(claim(&format!("held{number}"))).await });
        within(node.store.faults().until_held(number)).await;
    }
    // One of these is queued and waits; the other finds the queue full.
    let mut more = JoinSet::new();
    for number in 1..=2 {
        let keys = node.keys.clone();
        more.spawn(async move { keys.claim(claim(&format!("more{number}"))).await });
    }
    let overloaded = within(more.join_next()).await.expect("one").expect("no panic");
    assert_eq!(overloaded.expect_err("no place").reason, "OVERLOADED");
    let read = node.keys.replay(replay(&claim("complete"))).await;
    assert_eq!(read.expect_err("no place").reason, "OVERLOADED");

    let mut required: JoinSet<Result<(), Refused>> = JoinSet::new();
    for (number, (request, fence)) in owned.into_iter().enumerate() {
        let keys = node.keys.clone();
        required.spawn(async move {
            match number {
                0 => keys.complete(succeed(&request, fence, "x")).await.map(drop),
                1 => keys.renew(renew(&request, fence, 1)).await.map(drop),
                _ => keys.release(release(&request, fence)).await.map(drop),
            }
        });
    }
    // They are in the queue by the time that this, sent after them, is turned away.
    let late = node.keys.claim(claim("late")).await;
    assert_eq!(late.expect_err("no place").reason, "OVERLOADED");
    assert!(required.try_join_next().is_none(), "not refused");
    node.store.faults().release();
    for done in within(required.join_all()).await {
        done.expect("never shed");
    }
    for granted in within(held.join_all()).await {
        granted.expect("granted");
    }
    within(more.join_next()).await.expect("one").expect("no panic").expect("granted");
    node.keys.claim(claim("late")).await.expect("there is place again");
}

#[tokio::test]
async fn too_many_batches_at_once_turn_completions_away() {
    let node = TestNode::with(|options| options.serving_threads = 1).await;
    let request = claim("done");
    let fence = node.keys.claim(request.clone()).await.expect("granted").fence;
    node.store.faults().script([Fault::Hold; 16]);
    let mut held = JoinSet::new();
    for number in 0..16 {
        let keys = node.keys.clone();
        let claims = vec![claim(&format!("k{number}"))];
        held.spawn(async move { keys.claim_all(v1::ClaimKeysRequest { claims }).await });
    }
    within(node.store.faults().until_held(16)).await;
    let batch = v1::ClaimKeysRequest { claims: vec![claim("more")] };
    assert_eq!(node.keys.claim_all(batch).await.expect_err("full").reason, "OVERLOADED");
    let mut completes = JoinSet::new();
    let keys = node.keys.clone();
    let completions = vec![succeed(&request, fence, "x")];
    completes
        .spawn(async move { keys.complete_all(v1::CompleteKeysRequest { completions }).await });
    node.keys.claim(claim("single")).await.expect("single calls are not held up");
    assert!(completes.try_join_next().is_none(), "not refused");
    node.store.faults().release();
    let done = within(completes.join_next()).await.expect("one").expect("no panic");
    assert_eq!(done.expect("never shed").results.len(), 1);
    for answer in within(held.join_all()).await {
        answer.expect("granted");
    }
}

#[tokio::test]
async fn a_message_that_is_too_large_ends_the_connection() {
    let node = TestNode::start().await;
    let request = claim("k");
    let fence = node.keys.claim(request.clone()).await.expect("granted").fence;
    let mut raw = node.keys.raw();
    for _ in 0..3 {
        let large = succeed(&request, fence, vec![0; 9 << 20]);
        let status = within(raw.complete_key(large)).await.expect_err("too large");
        assert_eq!(status.code(), Code::OutOfRange, "{status:?}");
        assert!(status.message().contains("too large"), "{status:?}");
        let read = raw.replay_key(replay(&request)).await.expect("on the same connection");
        assert_eq!(read.into_inner().state(), v1::KeyState::Claimed);
    }
    // Just below the limit of a message, and far above that of a body.
    let omitted = node.keys.complete(succeed(&request, fence, vec![0; 8_000_000])).await;
    assert!(omitted.expect("accepted").omitted_too_large);
}

#[tokio::test]
async fn one_connection_too_many_is_refused_for_good() {
    let node = TestNode::with(|options| options.connections_max = 1).await;
    let address = node.address();
    let mut waiting = JoinSet::new();
    waiting.spawn(async move { Caller::connect(address).await.claim(claim("b")).await });
    node.keys.claim(claim("a")).await.expect("granted");
    assert!(waiting.try_join_next().is_none(), "it waits for a place");
    let TestNode { keys, retries, .. } = node;
    drop((keys, retries));
    within(waiting.join_next()).await.expect("one").expect("no panic").expect("its turn came");
}
