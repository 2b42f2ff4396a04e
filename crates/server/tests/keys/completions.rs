//! What the work came to: completing, renewing, giving back, reading.

use std::time::Duration;

use semel_proto::v1;

use crate::support::*;

const MS: u64 = 1_000;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[tokio::test]
async fn a_repeated_completion_is_refused_or_a_different_one_accepted() {
    let (node, clock) = TestNode::manual(|_| {}).await;
    let request = claim("k");
    let fence = node.keys.claim(request.clone()).await.expect("granted").fence;
    let first = node.keys.complete(succeed(&request, fence, "x")).await.expect("completed");
    assert!(!first.already_completed && !first.omitted_too_large);
    assert_eq!(first.state(), v1::KeyState::Succeeded);
    let kept_us = u64::try_from((DAY + Duration::from_secs(2)).as_micros()).expect("small");
    assert_eq!(time_us(first.expires_at), NOON_US + kept_us, "retention, and twice the skew");

    clock.advance_us(5_000 * MS);
    let again = node.keys.complete(succeed(&request, fence, "x")).await.expect("the same");
    assert_eq!(again, v1::CompleteKeyResponse { already_completed: true, ..first });

    let conflicts = [
        succeed(&request, fence, "y"),
        complete(&request, fence, v1::Outcome::Succeeded),
        v1::CompleteKeyRequest {
            outcome: v1::Outcome::FailedFinal.into(),
            ..succeed(&request, fence, "x")
        },
        complete(&request, fence, v1::Outcome::FailedRetryable),
        complete(&request, fence, v1::Outcome::Indeterminate),
    ];
    for conflict in conflicts {
        let refused = node.keys.complete(conflict.clone()).await.expect_err("the first stands");
        assert_eq!(refused.named(), ("COMPLETION_CONFLICT", None), "{conflict:?}");
    }
    for stranger in [claim("k").owner(2)] {
        let refused = node.keys.complete(succeed(&stranger, fence, "x")).await;
        assert_eq!(refused.expect_err("not its own").reason, "FENCED");
    }
    let kept = node.keys.replay(replay(&request)).await.expect("kept").completion;
    assert_eq!(body_of(kept.as_ref()).expect("a body"), "x");
}

/// Fault 2: B reads A as in progress, A completes, and B "recovers" over the completed record.
#[tokio::test]
async fn a_completed_key_is_recovered_by_who_saw_it_in_progress() {
    let node = TestNode::start().await;
    let (first, second) = (claim("k").owner(1), claim("k").owner(2));
    let fence = node.keys.claim(first.clone()).await.expect("granted").fence;
    let seen = node.keys.claim(second.clone()).await.expect("answered");
    assert_eq!(seen.disposition(), Disposition::InProgress);
    node.keys.complete(succeed(&first, fence, "1")).await.expect("completed");

    for guess in [fence, fence + 1] {
        let recovery = node.keys.complete(succeed(&second, guess, "2")).await;
        assert_eq!(recovery.expect_err("not its own").reason, "FENCED");
        let recovery = node.keys.release(release(&second, guess)).await;
        assert_eq!(recovery.expect_err("not its own").reason, "FENCED");
    }
    let answer = node.keys.claim(second).await.expect("answered");
    assert_eq!(answer.disposition(), Disposition::Replay);
    assert_eq!(body_of(answer.completion.as_ref()).expect("a body"), "1");
}

/// Fault 5: the handler changed its input, so that the key computed anew completes another record.
#[tokio::test]
async fn a_completion_by_another_key_completes_another_record() {
    let node = TestNode::start().await;
    let (mine, other) = (claim("k1").owner(1), claim("k2").owner(2));
    let fence = node.keys.claim(mine.clone()).await.expect("granted").fence;
    node.keys.claim(other.clone()).await.expect("granted");
    let astray = v1::CompleteKeyRequest { key: "k2".to_owned(), ..succeed(&mine, fence, "1") };
    assert_eq!(node.keys.complete(astray.clone()).await.expect_err("astray").reason, "FENCED");
    let nowhere = v1::CompleteKeyRequest { key: "k3".to_owned(), ..astray };
    assert_eq!(node.keys.complete(nowhere).await.expect_err("nowhere").reason, "KEY_UNKNOWN");
    let state = node.keys.replay(replay(&other)).await.expect("there").state();
    assert_eq!(state, v1::KeyState::Claimed);
}

#[tokio::test]
async fn an_owner_that_came_late_loses_work_that_nobody_took_over() {
    let (node, clock) = TestNode::manual(|_| {}).await;
    let request = claim("k").lease_ms(1_000);
    let fence = node.keys.claim(request.clone()).await.expect("granted").fence;
    clock.advance_us(3_600_000 * MS);
    let done = node.keys.complete(succeed(&request, fence, "x")).await.expect("accepted");
    assert_eq!(done.state(), v1::KeyState::Succeeded);
}

#[tokio::test]
async fn an_unknown_outcome_can_not_be_settled_by_who_declared_it() {
    let node = TestNode::start().await;
    let settlements = [
        (v1::Outcome::Succeeded, v1::KeyState::Succeeded),
        (v1::Outcome::FailedFinal, v1::KeyState::FailedFinal),
        (v1::Outcome::FailedRetryable, v1::KeyState::Released),
    ];
    for (outcome, state) in settlements {
        let request = claim(outcome.as_str_name());
        let fence = node.keys.claim(request.clone()).await.expect("granted").fence;
        let unknown = complete(&request, fence, v1::Outcome::Indeterminate);
        let declared = node.keys.complete(unknown.clone()).await.expect("declared");
        assert_eq!((declared.state(), declared.expires_at), (v1::KeyState::Indeterminate, None));
        assert!(node.keys.complete(unknown).await.expect("the same").already_completed);
        let renewal = node.keys.renew(renew(&request, fence, 1)).await;
        assert_eq!(renewal.expect_err("nothing to renew").reason, "FENCED");

        let settled =
            node.keys.complete(complete(&request, fence, outcome)).await.expect("settled");
        assert_eq!((settled.state(), settled.already_completed), (state, false));
        assert!(settled.expires_at.is_some(), "its retention runs");
        let again = node.keys.complete(complete(&request, fence, outcome)).await.expect("the same");
        assert!(again.already_completed);
    }
}

#[tokio::test]
async fn a_late_renewal_shortens_a_lease_or_takes_a_checkpoint_back() {
    let (node, clock) = TestNode::manual(|_| {}).await;
    let request = claim("k").lease_ms(60_000).on_owner_lost(v1::OnOwnerLost::TakeOver);
    let fence = node.keys.claim(request.clone()).await.expect("granted").fence;
    let renewal = |number, lease_ms, checkpoint: Option<&'static str>| v1::RenewKeyRequest {
        lease: Some(milliseconds(lease_ms)),
        checkpoint: checkpoint.map(Into::into),
        ..renew(&request, fence, number)
    };
    let expected = async |request, stale, after_ms| {
        let renewed = node.keys.renew(request).await.expect("renewed");
        assert_eq!(
            (renewed.stale, time_us(renewed.lease_expires_at)),
            (stale, NOON_US + after_ms * MS)
        );
    };
    expected(renewal(1, 1_000, Some("one")), false, 60_000).await;
    expected(renewal(3, 120_000, Some("three")), false, 120_000).await;
    expected(renewal(2, 240_000, Some("two")), true, 120_000).await;
    expected(renewal(3, 360_000, Some("3")), false, 120_000).await;
    expected(renewal(4, 120_000, None), false, 120_000).await;
    expected(v1::RenewKeyRequest { lease: None, ..renewal(5, 1, None) }, false, 120_000).await;

    clock.advance_us(120_000 * MS);
    let next = node.keys.claim(claim("k").owner(2)).await.expect("taken over");
    assert_eq!(next.checkpoint, "three");
    let empty = v1::RenewKeyRequest {
        checkpoint: Some(bytes::Bytes::new()),
        ..renew(&claim("k").owner(2), next.fence, 1)
    };
    node.keys.renew(empty).await.expect("renewed");
    clock.advance_us(120_000 * MS);
    let last = node.keys.claim(claim("k").owner(3)).await.expect("taken over");
    assert_eq!(last.checkpoint, "", "an empty checkpoint is not an absent one");
}

#[tokio::test]
async fn a_lapsed_claim_that_is_still_its_owners_can_not_be_renewed() {
    let (node, clock) = TestNode::manual(|_| {}).await;
    let request = claim("k").lease_ms(1_000);
    let fence = node.keys.claim(request.clone()).await.expect("granted").fence;
    clock.advance_us(5_000 * MS);
    node.keys.renew(renew(&request, fence, 1)).await.expect("renewed");
    let other = node.keys.claim(claim("k").owner(2)).await.expect("answered");
    assert_eq!(other.disposition(), Disposition::InProgress);
}

#[tokio::test]
async fn a_claim_is_given_back_twice_or_by_who_does_not_hold_it() {
    let node = TestNode::start().await;
    let request = claim("k");
    let fence = node.keys.claim(request.clone()).await.expect("granted").fence;
    let older = node.keys.release(release(&request, fence - 1)).await;
    assert_eq!(older.expect_err("an older fence").reason, "FENCED");
    assert!(!node.keys.release(release(&request, fence)).await.expect("released").already_released);
    assert!(node.keys.release(release(&request, fence)).await.expect("released").already_released);
    let finished = node.keys.complete(succeed(&request, fence, "x")).await;
    let refused = finished.expect_err("given back");
    assert_eq!(refused.reason, "FENCED");
    assert_eq!(refused.metadata["current_fence"], (fence + 1).to_string());

    node.keys.claim(claim("k").owner(2)).await.expect("granted");
    let late = node.keys.release(release(&request, fence)).await;
    assert!(late.expect("released, and claimed since").already_released);
    let read = node.keys.replay(replay(&request)).await.expect("answered");
    assert_eq!(
        read.state(),
        v1::KeyState::Claimed,
        "the late copy took nothing from the next owner"
    );
}

#[tokio::test]
async fn a_key_that_does_not_exist_is_completed_renewed_or_given_back() {
    let node = TestNode::start().await;
    let request = claim("k");
    let unknown = |refused: Refused| assert_eq!(refused.named(), ("KEY_UNKNOWN", None));
    unknown(node.keys.complete(succeed(&request, 1, "x")).await.expect_err("unknown"));
    unknown(node.keys.renew(renew(&request, 1, 1)).await.expect_err("unknown"));
    unknown(node.keys.release(release(&request, 1)).await.expect_err("unknown"));
    unknown(node.keys.replay(replay(&request)).await.expect_err("unknown"));
    unknown(node.keys.get(get(&request)).await.expect_err("unknown"));
    unknown(node.keys.forget(forget(&request)).await.expect_err("unknown"));
    let resolution = v1::reconcile_key_request::Resolution::NotDone;
    unknown(node.keys.reconcile(reconcile(&request, 1, resolution)).await.expect_err("unknown"));
    let claimed = node.keys.claim(request).await.expect("granted");
    assert_eq!((claimed.disposition(), claimed.attempt), (Disposition::Claimed, 1));
}

#[tokio::test]
async fn reading_claims_a_key_or_shows_a_guesser_that_it_exists() {
    let (node, clock) = TestNode::manual(|_| {}).await;
    let keys = &node.keys;
    let request = claim("k").lease_ms(1_000);
    let nothing = keys.replay(replay(&request)).await.expect_err("no such key");
    let fence = keys.claim(request.clone()).await.expect("granted").fence;

    let guess = keys.replay(replay(&claim("k").payload("y"))).await.expect_err("a guess");
    assert_eq!(guess, nothing, "word for word");
    let incomparable = claim("k").fingerprints(&[("md5", 1)]);
    assert_eq!(keys.replay(replay(&incomparable)).await.expect_err("a guess"), nothing);

    let read = keys.replay(replay(&request)).await.expect("there");
    assert_eq!((read.state(), &read.completion), (v1::KeyState::Claimed, &None));
    let hint = duration(read.retry_after);
    assert!(!hint.is_zero() && hint <= Duration::from_secs(1), "{hint:?}");

    clock.advance_us(1_000 * MS);
    let lapsed = v1::ReplayKeyResponse {
        state: v1::KeyState::Lapsed.into(),
        completion: None,
        retry_after: None,
    };
    assert_eq!(keys.replay(replay(&request)).await.expect("there"), lapsed);
    let unknown = complete(&request, fence, v1::Outcome::Indeterminate);
    keys.complete(unknown).await.expect("declared");
    let state = keys.replay(replay(&request)).await.expect("there").state();
    assert_eq!(state, v1::KeyState::Indeterminate);
    keys.complete(complete(&request, fence, v1::Outcome::FailedRetryable)).await.expect("settled");
    let state = keys.replay(replay(&request)).await.expect("there").state();
    assert_eq!(state, v1::KeyState::Released);

    let fence = keys.claim(claim("k").owner(2)).await.expect("granted").fence;
    let failed = complete(&claim("k").owner(2), fence, v1::Outcome::FailedFinal);
    keys.complete(failed).await.expect("completed");
    let read = keys.replay(replay(&request)).await.expect("there");
    assert_eq!(read.state(), v1::KeyState::FailedFinal);
    let completion = read.completion.expect("an answer");
    assert_eq!((completion.outcome(), completion.fence), (v1::Outcome::FailedFinal, fence));

    keys.forget(forget(&request)).await.expect("erased");
    assert_eq!(keys.replay(replay(&request)).await.expect_err("erased").reason, "KEY_EXPIRED");
}
