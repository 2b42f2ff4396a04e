//! The deadline of a call bounds all that it causes, and a claim outlives its caller's patience.

use std::time::Duration;

use semel_proto::v1;
use semel_store::memory::Fault;
use tokio::task::JoinSet;

use crate::support::*;

#[tokio::test]
async fn a_reply_does_not_say_what_is_left_of_the_deadline() {
    let (node, _clock) = TestNode::manual(|_| {}).await;
    let mut raw = node.keys.raw();
    let minute = Duration::from_secs(60);
    let reply = raw.claim_key(timed(claim("k"), minute)).await.expect("granted");
    assert_eq!(remaining_ms(reply.metadata()), Some(60_000));
    let reply = raw.list_keys(timed(list(), minute)).await.expect("listed");
    assert_eq!(remaining_ms(reply.metadata()), Some(60_000));
    let other = timed(claim("k").payload("y"), minute);
    let status = raw.claim_key(other).await.expect_err("refused");
    assert_eq!(remaining_ms(status.metadata()), Some(60_000), "a refusal is a reply as well");
    let reply = raw.claim_key(claim("k")).await.expect("granted");
    assert_eq!(remaining_ms(reply.metadata()), None, "no deadline, nothing left of it");
}

/// Makes the node learn that its store takes more than 50 ms.
async fn slow_store(node: &TestNode) {
    let slow = Fault::Delay { before: Duration::from_millis(200), after: Duration::ZERO };
    for number in 0..3 {
        node.store.faults().script([slow]);
        node.keys.claim(claim(&format!("slow{number}"))).await.expect("granted");
    }
}

#[tokio::test]
async fn a_call_without_enough_time_is_queued_for_nothing() {
    let node = TestNode::with(|options| options.serving_threads = 1).await;
    let done = claim("done");
    let fence = node.keys.claim(done.clone()).await.expect("granted").fence;
    slow_store(&node).await;
    node.store.faults().script([Fault::Hold]);
    let mut held = JoinSet::new();
    let keys = node.keys.clone();
    held.spawn(async move { keys.claim(claim("held")).await.expect("granted") });
    within(node.store.faults().until_held(1)).await;

    // On a slow machine the client may give up first, but not each time.
    let mut refused = None;
    for _ in 0..50 {
        let brief = timed(claim("brief"), Duration::from_millis(50));
        let status = node.keys.raw().claim_key(brief).await.expect_err("no time");
        if !status.details().is_empty() {
            refused = Some(Refused::of(&status));
            break;
        }
    }
    assert_eq!(refused.expect("refused before its time ran out").reason, "DEADLINE_TOO_SHORT");
    let long = timed(claim("long"), Duration::from_secs(20));
    node.keys.claim(long).await.expect("there is time");
    let last = timed(succeed(&done, fence, "x"), Duration::from_secs(20));
    node.keys.complete(last).await.expect("completed");
    node.store.faults().release();
    within(held.join_all()).await;
    let view = node.keys.get(get(&claim("brief"))).await;
    assert_eq!(view.expect_err("nothing written").reason, "KEY_UNKNOWN");
}

/// Once the store has been slow, a node that sends everybody away never learns that it is fast again.
#[tokio::test]
async fn a_store_that_was_slow_once_counts_as_slow_for_ever() {
    let node = TestNode::with(|options| options.serving_threads = 1).await;
    slow_store(&node).await;
    for number in 0..100 {
        let request = timed(claim(&format!("k{number}")), Duration::from_millis(50));
        // One that is too late by chance tells nothing; all of them would.
        if node.keys.raw().claim_key(request).await.is_ok() {
            return;
        }
    }
    panic!("nobody gets through any more");
}

/// The refusal of a node that answers in the call's time, although the store's answer is held back. On a
/// slow machine the client may give up first, but not each time.
async fn refused_in_time<T>(
    node: &TestNode,
    call: impl AsyncFn() -> Result<T, tonic::Status>,
) -> String {
    for _ in 0..50 {
        node.store.faults().script([Fault::Hold]);
        let status = call().await.err().expect("the store is silent");
        if !status.details().is_empty() {
            return Refused::of(&status).reason;
        }
    }
    panic!("no call was answered in time");
}

#[tokio::test]
async fn a_store_that_hangs_leaves_callers_without_a_word() {
    let node = TestNode::start().await;
    let done = claim("done");
    let fence = node.keys.claim(done.clone()).await.expect("granted").fence;
    let brief = Duration::from_millis(200);
    let claim_key = async || node.keys.raw().claim_key(timed(claim("k"), brief)).await;
    assert_eq!(refused_in_time(&node, claim_key).await, "STORE_UNAVAILABLE");
    let request = succeed(&done, fence, "x");
    let complete_key = async || node.keys.raw().complete_key(timed(request.clone(), brief)).await;
    assert_eq!(refused_in_time(&node, complete_key).await, "STORE_UNAVAILABLE");
    let claim_keys = async || {
        let batch = v1::ClaimKeysRequest { claims: vec![claim("a")] };
        let reply = node.keys.raw().claim_keys(timed(batch, brief)).await?.into_inner();
        match reply.results[0].result.clone().expect("a result") {
            v1::claim_key_result::Result::Error(error) => Err(status_of(&error)),
            v1::claim_key_result::Result::Response(response) => Ok(response),
        }
    };
    assert_eq!(refused_in_time(&node, claim_keys).await, "STORE_UNAVAILABLE");
    node.store.faults().release();
    let again = node.keys.complete(request).await.expect("completed");
    assert!(again.already_completed, "the repeat settles it");
}

#[tokio::test]
async fn a_claim_that_committed_after_its_caller_gave_up_locks_everybody_out() {
    let node = TestNode::start().await;
    node.store.faults().script([Fault::Hold]);
    let request = claim("k").owner(1);
    let mut gives_up = JoinSet::new();
    let (keys, impatient) = (node.keys.clone(), request.clone());
    gives_up.spawn(async move { keys.raw().claim_key(impatient).await });
    within(node.store.faults().until_held(1)).await;
    gives_up.abort_all();
    assert!(within(gives_up.join_next()).await.expect("one").is_err(), "it went away");
    node.store.faults().release();

    let other = node.keys.claim(claim("k").owner(2)).await.expect("answered");
    assert_eq!(other.disposition(), Disposition::InProgress);
    let again = node.keys.claim(request.clone()).await.expect("granted");
    assert_eq!((again.disposition(), again.resumed), (Disposition::Claimed, true));
    assert_eq!(again.attempt, 1);
    node.keys.complete(succeed(&request, again.fence, "x")).await.expect("completed");
}

#[tokio::test]
async fn a_call_whose_time_ran_out_in_the_queue_is_carried_out_all_the_same() {
    let node = TestNode::with(|options| options.serving_threads = 1).await;
    // Two batches may be under way; what comes then is queued.
    node.store.faults().script([Fault::Hold, Fault::Hold]);
    let mut held = JoinSet::new();
    for number in 1..=2 {
        let keys = node.keys.clone();
        held.spawn(async move { keys.claim(claim(&format!("held{number}"))).await });
        within(node.store.faults().until_held(number)).await;
    }
    let late = timed(claim("late"), Duration::from_millis(50));
    node.keys.raw().claim_key(late).await.expect_err("its time ran out");
    // The node has heard of it by the time that it answers what was sent after it.
    for _ in 0..2 {
        node.keys.claim(claim(" ")).await.expect_err("blank");
    }
    node.store.faults().release();
    for answer in within(held.join_all()).await {
        answer.expect("granted");
    }
    let next = node.keys.claim(claim("late").owner(2)).await.expect("answered");
    assert_eq!((next.disposition(), next.attempt), (Disposition::Claimed, 1));
}
