//! Batches: a result for each item, by the same decisions as single calls.

use std::collections::BTreeSet;

use semel_proto::v1;
use semel_proto::v1::claim_key_result::Result as Claimed;
use semel_proto::v1::complete_key_result::Result as Completed;

use crate::support::*;

async fn claim_all(node: &TestNode, claims: Vec<v1::ClaimKeyRequest>) -> Vec<Claimed> {
    let count = claims.len();
    let reply = node.keys.claim_all(v1::ClaimKeysRequest { claims }).await.expect("answered");
    assert_eq!(reply.results.len(), count);
    reply.results.into_iter().map(|item| item.result.expect("one or the other")).collect()
}

async fn complete_all(node: &TestNode, completions: Vec<v1::CompleteKeyRequest>) -> Vec<Completed> {
    let count = completions.len();
    let batch = v1::CompleteKeysRequest { completions };
    let reply = node.keys.complete_all(batch).await.expect("answered");
    assert_eq!(reply.results.len(), count);
    reply.results.into_iter().map(|item| item.result.expect("one or the other")).collect()
}

/// A result in short: its disposition or its reason.
fn in_short(result: &Claimed) -> String {
    match result {
        Claimed::Response(reply) => reply.disposition().as_str_name().to_owned(),
        Claimed::Error(error) => Refused::of_item(error).reason,
    }
}

/// Fault 8: a batch with one duplicate is dropped whole, or the same key twice hangs it.
#[tokio::test]
async fn one_item_that_is_turned_away_takes_the_others_with_it() {
    let (node, clock) = TestNode::manual(|_| {}).await;
    let lapsed = claim("lapsed").owner(9).lease_ms(100).on_owner_lost(v1::OnOwnerLost::TakeOver);
    node.keys.claim(lapsed).await.expect("granted");
    clock.advance_us(200_000);
    node.keys.claim(claim("live").owner(9)).await.expect("granted");
    let done = claim("done").owner(9);
    let fence = node.keys.claim(done.clone()).await.expect("granted").fence;
    node.keys.complete(succeed(&done, fence, "x")).await.expect("completed");

    let results = claim_all(
        &node,
        vec![
            claim("new"),
            claim("live"),
            claim(" "),
            claim("done"),
            claim("done").payload("y"),
            claim("lapsed"),
            claim("twice").owner(1),
            claim("twice").owner(2),
            claim("twice").owner(1),
            claim("old").first_sent_us(0),
            claim("early").first_sent_us(NOON_US + 60_000_000),
        ],
    );
    let results = results.await;
    let expected = [
        "CLAIMED",
        "IN_PROGRESS",
        "KEY_INVALID",
        "REPLAY",
        "KEY_PAYLOAD_MISMATCH",
        "TAKEN_OVER",
        "CLAIMED",
        "IN_PROGRESS",
        "CLAIMED",
        "KEY_EXPIRED",
        "FIRST_SENT_INVALID",
    ];
    assert_eq!(results.iter().map(in_short).collect::<Vec<_>>(), expected);
    let (Claimed::Response(first), Claimed::Response(again)) = (&results[6], &results[8]) else {
        panic!("both are replies");
    };
    assert_eq!((first.fence, first.resumed, again.resumed), (again.fence, false, true));
    let Claimed::Response(replayed) = &results[3] else { panic!("a reply") };
    assert_eq!(body_of(replayed.completion.as_ref()).expect("a body"), "x");
    for (place, field) in [(2, "claims[2].key"), (10, "claims[10].first_sent")] {
        let Claimed::Error(error) = &results[place] else { panic!("an error") };
        assert_eq!(Refused::of_item(error).field.as_deref(), Some(field));
    }
}

#[tokio::test]
async fn one_completion_that_is_turned_away_takes_the_others_with_it() {
    let node = TestNode::with(|options| options.keys.body_limit_bytes = 10).await;
    let mut fences = Vec::new();
    for key in ["a", "b", "c"] {
        fences.push(node.keys.claim(claim(key)).await.expect("granted").fence);
    }
    let results = complete_all(
        &node,
        vec![
            succeed(&claim("a"), fences[0], "1"),
            succeed(&claim("a"), fences[0], "1"),
            succeed(&claim("a"), fences[0], "2"),
            succeed(&claim("b"), fences[1] + 1, "1"),
            succeed(&claim("none"), 1, "1"),
            v1::CompleteKeyRequest { outcome: 0, ..succeed(&claim("b"), fences[1], "1") },
            complete(&claim("b"), fences[1], v1::Outcome::Indeterminate),
            succeed(&claim("c"), fences[2], "more than ten bytes"),
        ],
    )
    .await;
    let in_short = results.iter().map(|result| match result {
        Completed::Response(reply) => format!(
            "{} {} {}",
            reply.state().as_str_name(),
            reply.already_completed,
            reply.omitted_too_large
        ),
        Completed::Error(error) => Refused::of_item(error).reason,
    });
    let expected = [
        "KEY_STATE_SUCCEEDED false false",
        "KEY_STATE_SUCCEEDED true false",
        "COMPLETION_CONFLICT",
        "FENCED",
        "KEY_UNKNOWN",
        "OUTCOME_INVALID",
        "KEY_STATE_INDETERMINATE false false",
        "KEY_STATE_SUCCEEDED false true",
    ];
    assert_eq!(in_short.collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_full_batch_is_refused_or_one_too_many_accepted() {
    let node = TestNode::start().await;
    let claims = |count: usize| (0..count).map(|number| claim(&format!("k{number}"))).collect();
    for count in [0, 1_001] {
        let batch = v1::ClaimKeysRequest { claims: claims(count) };
        let refused = node.keys.claim_all(batch).await.expect_err("too few, too many");
        assert_eq!(refused.named(), ("BATCH_INVALID", Some("claims")));
        let completion = complete(&claim("k0"), 1, v1::Outcome::Succeeded);
        let batch = v1::CompleteKeysRequest { completions: vec![completion; count] };
        let refused = node.keys.complete_all(batch).await.expect_err("too few, too many");
        assert_eq!(refused.named(), ("BATCH_INVALID", Some("completions")));
    }
    assert_eq!(node.keys.list(list()).await.expect("listed").keys, []);

    let granted = claim_all(&node, claims(1_000)).await;
    let mut names = BTreeSet::new();
    let mut completions = Vec::new();
    for (number, result) in granted.iter().enumerate() {
        let Claimed::Response(reply) = result else { panic!("{result:?}") };
        assert_eq!(reply.disposition(), Disposition::Claimed);
        names.insert(reply.derived_key.clone());
        completions.push(succeed(&claim(&format!("k{number}")), reply.fence, format!("{number}")));
    }
    assert_eq!(names.len(), 1_000);
    for result in complete_all(&node, completions).await {
        assert!(matches!(result, Completed::Response(_)), "{result:?}");
    }
    for (number, result) in claim_all(&node, claims(1_000)).await.iter().enumerate() {
        let Claimed::Response(reply) = result else { panic!("{result:?}") };
        let body = body_of(reply.completion.as_ref()).expect("a body");
        assert_eq!(body, &number.to_string(), "in the order of the claims");
    }
}

#[tokio::test]
async fn one_slow_key_holds_up_a_batch() {
    let node = TestNode::start().await;
    node.keys.claim(claim("slow").owner(9)).await.expect("granted");
    let claims = vec![claim("slow").wait_ms(60_000), claim("other"), claim("none").wait_ms(0)];
    let results = claim_all(&node, claims).await;
    let Claimed::Error(error) = &results[0] else { panic!("{results:?}") };
    assert_eq!(Refused::of_item(error).named(), ("DURATION_INVALID", Some("claims[0].wait")));
    assert_eq!(
        (in_short(&results[1]), in_short(&results[2])),
        ("CLAIMED".into(), "CLAIMED".into())
    );
}

#[tokio::test]
async fn stored_bodies_make_a_reply_that_no_client_takes() {
    let node = TestNode::start().await;
    let keys = ["one", "two", "three"].map(|key| claim(key).owner(1));
    for done in &keys {
        let fence = node.keys.claim(done.clone()).await.expect("granted").fence;
        let completion = succeed(done, fence, vec![7; 900 * 1024]);
        node.keys.complete(completion).await.expect("completed");
    }
    let results = claim_all(&node, keys.to_vec()).await;
    let completions = results.iter().map(|result| match result {
        Claimed::Response(reply) => reply.completion.clone().expect("an answer"),
        Claimed::Error(error) => panic!("{error:?}"),
    });
    let completions: Vec<_> = completions.collect();
    let left_out: Vec<_> = completions.iter().map(|done| done.body_left_out).collect();
    assert_eq!(left_out, [false, false, true]);
    let Some(Content::Omitted(omitted)) =
        completions[2].response.clone().and_then(|response| response.content)
    else {
        panic!("a digest stands for the body");
    };
    assert_eq!((omitted.length, omitted.sha256.len()), (900 * 1024, 32));
    let alone = node.keys.replay(replay(&keys[2])).await.expect("answered");
    assert_eq!(body_of(alone.completion.as_ref()).map(bytes::Bytes::len), Some(900 * 1024));
}
