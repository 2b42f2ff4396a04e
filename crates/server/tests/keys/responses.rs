//! Stored answers come back byte for byte, or not at all.

use bytes::Bytes;
use prost::Message;
use semel_proto::v1;
use sha2::{Digest, Sha256};

use crate::support::*;

/// Claims `key`, completes it with `response`, and gives what every way of asking for it returns.
async fn stored(node: &TestNode, key: &str, response: Option<v1::Response>) -> Vec<v1::Completion> {
    let request = claim(key);
    let fence = node.keys.claim(request.clone()).await.expect("granted").fence;
    let done = complete(&request, fence, v1::Outcome::Succeeded);
    let done = v1::CompleteKeyRequest { response, ..done };
    node.keys.complete(done).await.expect("completed");
    let mut all = Vec::new();
    // The second of each kind comes from memory.
    for owner in [2, 3] {
        let reply = node.keys.claim(request.clone().owner(owner)).await.expect("answered");
        assert_eq!(reply.disposition(), Disposition::Replay);
        assert_eq!((reply.fence, reply.lease, reply.derived_key.as_str()), (0, None, ""));
        all.push(reply.completion.expect("an answer"));
        let reply = node.keys.replay(replay(&request)).await.expect("answered");
        assert_eq!(reply.state(), v1::KeyState::Succeeded);
        all.push(reply.completion.expect("an answer"));
    }
    let batch = v1::ClaimKeysRequest { claims: vec![request.owner(4)] };
    let results = node.keys.claim_all(batch).await.expect("answered").results;
    let Some(v1::claim_key_result::Result::Response(reply)) = results[0].result.clone() else {
        panic!("a reply: {results:?}");
    };
    all.push(reply.completion.expect("an answer"));
    for completion in &all {
        assert_eq!(completion, &all[0], "the same whoever asks, and however");
        assert_eq!((completion.outcome(), completion.fence), (v1::Outcome::Succeeded, fence));
        assert!(completion.completed_at.is_some() && completion.expires_at.is_some());
    }
    all
}

fn header(name: &str, value: &str) -> v1::MetadataEntry {
    v1::MetadataEntry { name: name.to_owned(), value: value.to_owned() }
}

/// Bytes that no compressor makes smaller.
fn noise(length: usize) -> Bytes {
    let blocks = (0..u32::MAX).flat_map(|block| Sha256::digest(block.to_le_bytes()).to_vec());
    blocks.take(length).collect()
}

#[tokio::test]
async fn a_replayed_answer_differs_from_the_stored_one() {
    let node = TestNode::start().await;
    let every_byte: Vec<u8> = (0..=255).collect();
    let whole = v1::Response {
        status: -7,
        content_type: "application/json; charset=\"ü\"".to_owned(),
        metadata: vec![
            header("x-b", "2"),
            header("X-A", "1"),
            header("x-b", "1"),
            header("x-b", "2"),
            header("leer", ""),
            header("umbruch", "a\r\nb"),
        ],
        content: Some(Content::Body(every_byte.into())),
    };
    let rows = [
        ("whole", whole),
        (
            "default",
            v1::Response { content: Some(Content::Body(Bytes::new())), ..Default::default() },
        ),
        ("small", response("x")),
        ("below the compressor", response("a".repeat(1_023))),
        ("compressed", response("a".repeat(1_024))),
        ("noise", response(noise(70_000))),
        ("large", response("{\"id\":1},".repeat(116_508))),
        ("largest", response(noise(1 << 20))),
        ("status", v1::Response { status: i32::MIN, ..response("x") }),
    ];
    for (key, response) in rows {
        for completion in stored(&node, key, Some(response.clone())).await {
            let replayed = completion.response.expect("a response");
            assert!(replayed.encode_to_vec() == response.encode_to_vec(), "{key}");
            assert!(!completion.omitted_too_large, "{key}");
        }
    }
}

#[tokio::test]
async fn no_response_and_an_empty_body_are_the_same() {
    let node = TestNode::start().await;
    for completion in stored(&node, "none", None).await {
        assert_eq!(completion.response, None);
    }
    let empty = v1::Response { content: None, ..response("") };
    for completion in stored(&node, "empty", Some(empty)).await {
        assert_eq!(completion.response, Some(response("")), "a response without a word");
    }
}

#[tokio::test]
async fn a_body_that_its_caller_kept_is_made_up() {
    let node = TestNode::start().await;
    let kept = v1::OmittedBody { sha256: noise(32), length: u64::MAX };
    let response = v1::Response { content: Some(Content::Omitted(kept)), ..response("") };
    for completion in stored(&node, "k", Some(response.clone())).await {
        assert_eq!(completion.response.as_ref(), Some(&response));
        assert!(!completion.omitted_too_large, "its caller left it out");
    }
}

/// Fault 11: a body over the limit is cut and replayed as a success.
#[tokio::test]
async fn a_body_over_the_limit_is_cut() {
    let node = TestNode::with(|options| options.keys.body_limit_bytes = 1_000).await;
    for completion in stored(&node, "at the limit", Some(response(noise(1_000)))).await {
        assert_eq!(body_of(Some(&completion)), Some(&noise(1_000)));
        assert!(!completion.omitted_too_large);
    }
    // Compressed it would fit, but a limit that depends on luck is none.
    for (key, body) in [("over", noise(1_001)), ("compressible", Bytes::from(vec![b'a'; 1_001]))] {
        let digest = Bytes::copy_from_slice(&Sha256::digest(&body));
        let omitted = v1::OmittedBody { sha256: digest, length: 1_001 };
        for completion in stored(&node, key, Some(response(body))).await {
            assert!(completion.omitted_too_large, "{key}");
            let content = completion.response.expect("a response").content;
            assert_eq!(content, Some(Content::Omitted(omitted.clone())), "{key}");
        }
    }
}

#[tokio::test]
async fn a_repeated_completion_with_an_omitted_body_counts_as_another() {
    let node = TestNode::with(|options| options.keys.body_limit_bytes = 10).await;
    let request = claim("k");
    let fence = node.keys.claim(request.clone()).await.expect("granted").fence;
    let done = succeed(&request, fence, noise(11));
    let first = node.keys.complete(done.clone()).await.expect("completed");
    assert!(first.omitted_too_large && !first.already_completed);
    let again = node.keys.complete(done).await.expect("the same");
    assert!(again.omitted_too_large && again.already_completed);

    let digest = Bytes::copy_from_slice(&Sha256::digest(noise(11)));
    let omitted = v1::OmittedBody { sha256: digest, length: 11 };
    let told = v1::Response { content: Some(Content::Omitted(omitted)), ..response("") };
    let by_digest = v1::CompleteKeyRequest { response: Some(told), ..succeed(&request, fence, "") };
    assert!(node.keys.complete(by_digest).await.expect("says the same").already_completed);
    let other = node.keys.complete(succeed(&request, fence, noise(12))).await;
    assert_eq!(other.expect_err("another body").reason, "COMPLETION_CONFLICT");
}
