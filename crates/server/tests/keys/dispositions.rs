//! Whose work it is: every answer to a claim, in every state of its key.

use std::time::Duration;

use semel_proto::v1;
use semel_proto::v1::attempt::End;
use tokio::task::JoinSet;

use crate::support::*;

const MS: u64 = 1_000;

#[tokio::test]
async fn a_first_claim_is_granted_with_all_that_its_owner_needs() {
    let node = TestNode::start().await;
    let before_us = machine_us();
    let granted = node.keys.claim(claim("k")).await.expect("granted");
    let after_us = machine_us();

    assert_eq!(granted.disposition(), Disposition::Claimed);
    assert!((before_us..=after_us).contains(&granted.fence), "the first fence is its commit time");
    assert_eq!(duration(granted.lease), Duration::from_secs(30), "the default");
    assert_eq!(time_us(granted.lease_expires_at), granted.fence + 30_000 * MS);
    assert!(!granted.resumed);
    assert_eq!((granted.attempt, granted.checkpoint.len()), (1, 0));
    assert!(granted.history.is_empty());
    assert_eq!((granted.completion, granted.retry_after), (None, None));
    let digits = granted.derived_key.strip_prefix("semel-").expect("a name of ours");
    assert!(digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
}

/// Fault 1: the error path of a duplicate that was turned away deletes the lock of the owner.
#[tokio::test]
async fn a_duplicate_that_was_turned_away_takes_the_owners_claim_with_it() {
    let node = TestNode::start().await;
    let (owner, duplicate) = (claim("k").owner(1), claim("k").owner(2));
    let fence = node.keys.claim(owner.clone()).await.expect("granted").fence;

    let turned_away = node.keys.claim(duplicate.clone()).await.expect("answered");
    assert_eq!(turned_away.disposition(), Disposition::InProgress);
    assert_eq!((turned_away.fence, turned_away.lease), (0, None), "nothing of the claim is shown");
    let hint = duration(turned_away.retry_after);
    assert!(!hint.is_zero() && hint <= Duration::from_secs(30), "{hint:?}");

    let current = fence.to_string();
    let fenced = |refused: Refused| {
        assert_eq!(refused.named(), ("FENCED", None));
        assert_eq!(refused.metadata.get("current_fence"), Some(&current));
    };
    fenced(node.keys.release(release(&duplicate, fence)).await.expect_err("not its own"));
    fenced(node.keys.renew(renew(&duplicate, fence, 1)).await.expect_err("not its own"));
    fenced(node.keys.complete(succeed(&duplicate, fence, "2")).await.expect_err("not its own"));
    let undone = complete(&duplicate, fence, v1::Outcome::FailedRetryable);
    fenced(node.keys.complete(undone).await.expect_err("not its own"));

    let done = node.keys.complete(succeed(&owner, fence, "1")).await.expect("still its own");
    assert_eq!(done.state(), v1::KeyState::Succeeded);
}

/// Fault 6: two identical racers read back the same payload, and both think that they won.
#[tokio::test]
async fn identical_racers_all_think_that_they_won() {
    let node = TestNode::start().await;
    for round in 0..20 {
        let mut racers = JoinSet::new();
        for owner in 0..50 {
            let keys = node.keys.clone();
            let request = claim(&format!("k{round}")).owner(owner);
            racers.spawn(async move { keys.claim(request).await.expect("answered").disposition() });
        }
        let answers = within(racers.join_all()).await;
        let count = |wanted| answers.iter().filter(|&&answer| answer == wanted).count();
        assert_eq!(count(Disposition::Claimed), 1);
        assert_eq!(count(Disposition::InProgress), 49);
    }
}

#[tokio::test]
async fn an_owner_whose_reply_was_lost_is_locked_out_of_its_own_claim() {
    let (node, clock) = TestNode::manual(|_| {}).await;
    let request = claim("k");
    let first = node.keys.claim(request.clone()).await.expect("granted");
    clock.advance_us(10_000 * MS);
    let again = node.keys.claim(request.clone()).await.expect("granted");
    assert_eq!(again.disposition(), Disposition::Claimed);
    assert!(again.resumed);
    assert_eq!((again.fence, again.attempt), (first.fence, 1));
    assert_eq!(again.derived_key, first.derived_key);
    assert_eq!(
        duration(again.lease),
        Duration::from_secs(30),
        "it is alive: the lease begins anew"
    );

    clock.advance_us(31_000 * MS);
    let lapsed = node.keys.claim(request).await.expect("granted");
    assert_eq!((lapsed.fence, lapsed.resumed), (first.fence, true), "nobody took over");
}

/// Faults 4 and 12: the fingerprint is not checked on some path, or is lost on the way, or a
/// mismatch is hidden behind "in progress".
#[tokio::test]
async fn a_key_that_stands_for_something_else_is_answered_as_if_it_were_the_same() {
    let (node, clock) = TestNode::manual(|_| {}).await;
    let keys = &node.keys;
    let claimed = async |key: &str| {
        let request = claim(key).owner(1).lease_ms(1_000);
        let fence = keys.claim(request.clone()).await.expect("granted").fence;
        (request, fence)
    };
    let (lapsed, fence) = claimed("lapsed").await;
    keys.renew(renew(&lapsed, fence, 1)).await.expect("renewed");
    clock.advance_us(31_000 * MS);
    claimed("live").await;
    let (released, fence) = claimed("released").await;
    keys.release(release(&released, fence)).await.expect("released");
    let (failed, fence) = claimed("failed").await;
    keys.complete(complete(&failed, fence, v1::Outcome::FailedFinal)).await.expect("completed");
    let (unknown, fence) = claimed("unknown").await;
    keys.complete(complete(&unknown, fence, v1::Outcome::Indeterminate)).await.expect("declared");
    let (forgotten, fence) = claimed("forgotten").await;
    keys.complete(succeed(&forgotten, fence, "x")).await.expect("completed");
    keys.forget(forget(&forgotten)).await.expect("erased");
    let (done, fence) = claimed("done").await;
    keys.complete(succeed(&done, fence, "x")).await.expect("completed");
    let remembered = keys.claim(done).await.expect("answered");
    assert_eq!(remembered.disposition(), Disposition::Replay, "and kept in memory");

    for key in ["lapsed", "live", "released", "failed", "unknown", "forgotten", "done"] {
        // The owner itself is no exception.
        for owner in [1, 2] {
            let other = claim(key).owner(owner).payload("y");
            let refused = keys.claim(other.clone()).await.expect_err(key);
            assert_eq!(refused.named(), ("KEY_PAYLOAD_MISMATCH", None), "{key}");
            let refused = keys.replay(replay(&other)).await.expect_err(key);
            assert_eq!(refused.named(), ("KEY_UNKNOWN", None), "{key}");
            let incomparable = claim(key).owner(owner).fingerprints(&[("md5", 1)]);
            let refused = keys.claim(incomparable).await.expect_err(key);
            assert_eq!(refused.named(), ("FINGERPRINT_INCOMPARABLE", None), "{key}");
        }
    }
}

/// The answer in memory was given for some of the key's fingerprints: others must go to the store.
#[tokio::test]
async fn an_answer_in_memory_hides_a_mismatch_that_the_store_would_find() {
    let node = TestNode::start().await;
    let keys = &node.keys;
    let first = claim("k").fingerprints(&[("a", 1), ("b", 2)]);
    let fence = keys.claim(first.clone()).await.expect("granted").fence;
    keys.complete(succeed(&first, fence, "x")).await.expect("completed");
    let wider = claim("k").fingerprints(&[("a", 1), ("c", 9)]);
    for _ in 0..2 {
        let replayed = keys.claim(wider.clone()).await.expect("they agree on what they share");
        assert_eq!(replayed.disposition(), Disposition::Replay);
    }
    let mismatch = claim("k").fingerprints(&[("a", 1), ("b", 3)]);
    assert_eq!(keys.claim(mismatch.clone()).await.expect_err("b").reason, "KEY_PAYLOAD_MISMATCH");
    assert_eq!(keys.replay(replay(&mismatch)).await.expect_err("b").reason, "KEY_UNKNOWN");
    let foreign = claim("k").fingerprints(&[("c", 9)]);
    assert_eq!(keys.claim(foreign).await.expect_err("c").reason, "FINGERPRINT_INCOMPARABLE");
}

#[tokio::test]
async fn a_lapsed_claim_goes_to_the_next_by_the_policy_of_another_request() {
    use v1::OnOwnerLost::{Block, Reconcile, TakeOver, Unspecified};
    let (node, clock) = TestNode::manual(|_| {}).await;
    let rows = [
        ("a", TakeOver, Disposition::TakenOver),
        ("b", Reconcile, Disposition::ReconcileRequired),
        ("c", Unspecified, Disposition::ReconcileRequired),
        ("d", Block, Disposition::Indeterminate),
    ];
    for (key, policy, expected) in rows {
        let first = claim(key).owner(1).lease_ms(1_000).on_owner_lost(policy);
        let granted = node.keys.claim(first.clone()).await.expect("granted");
        let saved = v1::RenewKeyRequest {
            lease: Some(milliseconds(1_000)),
            checkpoint: Some("step 3".into()),
            ..renew(&first, granted.fence, 1)
        };
        node.keys.renew(saved).await.expect("renewed");
        clock.advance_us(1_000 * MS);

        // Its own policy does not count.
        let next = claim(key).owner(2).on_owner_lost(TakeOver);
        let answer = node.keys.claim(next).await.expect("answered");
        assert_eq!(answer.disposition(), expected, "{key}");
        if expected == Disposition::Indeterminate {
            assert_eq!(
                answer,
                v1::ClaimKeyResponse { disposition: expected.into(), ..Default::default() }
            );
            continue;
        }
        assert_eq!((answer.fence, answer.attempt), (granted.fence + 1, 2));
        assert_eq!(answer.checkpoint, "step 3");
        assert_eq!(answer.derived_key, granted.derived_key);
        let [lost] = &answer.history[..] else { panic!("one attempt: {:?}", answer.history) };
        assert_eq!(
            (lost.end(), lost.fence, &lost.owner_id),
            (End::Lapsed, granted.fence, &owner_id(1))
        );
        assert_eq!(time_us(lost.claimed_at), granted.fence);
        assert_eq!(time_us(lost.ended_at), time_us(answer.lease_expires_at) - 30_000 * MS);

        let late = node.keys.complete(succeed(&first, granted.fence, "late")).await;
        assert_eq!(late.expect_err("another took over").reason, "FENCED");
    }
}

#[tokio::test]
async fn work_of_which_nobody_knows_the_outcome_is_simply_run_again() {
    use v1::OnOwnerLost::{Block, Reconcile, TakeOver};
    let node = TestNode::start().await;
    let rows = [
        ("a", TakeOver, Disposition::ReconcileRequired),
        ("b", Reconcile, Disposition::ReconcileRequired),
        ("c", Block, Disposition::Indeterminate),
    ];
    for (key, policy, expected) in rows {
        let first = claim(key).owner(1).on_owner_lost(policy);
        let fence = node.keys.claim(first.clone()).await.expect("granted").fence;
        let unknown = complete(&first, fence, v1::Outcome::Indeterminate);
        node.keys.complete(unknown).await.expect("declared");
        let answer = node.keys.claim(claim(key).owner(2)).await.expect("answered");
        assert_eq!(answer.disposition(), expected, "{key}");
        if expected == Disposition::ReconcileRequired {
            assert_eq!(answer.fence, fence + 1);
            assert_eq!(answer.history[0].end(), End::Indeterminate);
        }
    }
}

#[tokio::test]
async fn a_late_copy_of_a_request_runs_work_that_its_owner_gave_back() {
    let node = TestNode::start().await;
    let (first, second) = (claim("k").owner(1), claim("k").owner(2));
    let fence = node.keys.claim(first.clone()).await.expect("granted").fence;
    node.keys.release(release(&first, fence)).await.expect("released");

    let late = node.keys.claim(first.clone()).await.expect("answered");
    let nothing =
        v1::ClaimKeyResponse { disposition: Disposition::Released.into(), ..Default::default() };
    assert_eq!(late, nothing);

    let next = node.keys.claim(second.clone()).await.expect("granted");
    assert_eq!((next.disposition(), next.fence), (Disposition::Claimed, fence + 1));
    assert_eq!((next.attempt, next.history[0].end()), (2, End::Released));

    let undone = complete(&second, next.fence, v1::Outcome::FailedRetryable);
    let state = node.keys.complete(undone).await.expect("accepted").state();
    assert_eq!(state, v1::KeyState::Released);
    let third = node.keys.claim(claim("k").owner(3)).await.expect("granted");
    assert_eq!((third.disposition(), third.fence), (Disposition::Claimed, fence + 2));
    let ends: Vec<End> = third.history.iter().map(v1::Attempt::end).collect();
    assert_eq!(ends, [End::Released, End::FailedRetryable], "oldest first");
}

#[tokio::test]
async fn the_name_for_a_provider_changes_between_attempts_or_is_shared_by_intents() {
    let node = TestNode::start().await;
    let mut names = std::collections::BTreeSet::new();
    for attempt in 1..=12 {
        let request = claim("k").owner(attempt);
        let granted = node.keys.claim(request.clone()).await.expect("granted");
        assert_eq!(granted.attempt, attempt);
        let remembered = usize::try_from(attempt - 1).expect("small").min(8);
        assert_eq!(granted.history.len(), remembered, "the last 8");
        names.insert(granted.derived_key);
        node.keys.release(release(&request, granted.fence)).await.expect("released");
    }
    assert_eq!(names.len(), 1);
    // Fault 14: concatenated, these would all be the same.
    let tail = [("ab", "c", "d"), ("a", "bc", "d"), ("a", "b", "cd")];
    for (tenant, operation, key) in tail {
        let request = v1::ClaimKeyRequest {
            tenant: tenant.to_owned(),
            operation: operation.to_owned(),
            ..claim(key)
        };
        let granted = node.keys.claim(request).await.expect("granted");
        assert_eq!(granted.disposition(), Disposition::Claimed);
        names.insert(granted.derived_key);
    }
    assert_eq!(names.len(), 4);
}

#[tokio::test]
async fn labels_and_policy_of_a_later_request_replace_those_of_the_first() {
    let node = TestNode::start().await;
    let first = claim("k")
        .label("team", "billing")
        .label("region", "")
        .on_owner_lost(v1::OnOwnerLost::Block);
    let fence = node.keys.claim(first.clone()).await.expect("granted").fence;
    node.keys.release(release(&first, fence)).await.expect("released");
    let second = claim("k").owner(2).label("team", "shipping");
    node.keys.claim(second.clone()).await.expect("granted");

    let view = node.keys.get(get(&first)).await.expect("there").key.expect("a key");
    assert_eq!(view.labels, first.labels);
    assert_eq!(view.on_owner_lost(), v1::OnOwnerLost::Block);
    assert_eq!(view.owner_id, owner_id(2));
    assert_eq!(view.fingerprints, first.fingerprints);
}
