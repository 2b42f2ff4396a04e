//! Time in requests: absent is not zero, and an intent that is older than the memory is refused.

use std::time::Duration;

use prost_types::Duration as WireDuration;
use semel_proto::v1;

use crate::support::*;

const SECOND_US: u64 = 1_000_000;
const DAY_S: u64 = 24 * 60 * 60;

/// Fault 3: an absent duration counts as zero, or zero as absent.
#[tokio::test]
async fn a_lease_of_zero_takes_the_default_or_an_absent_one_is_over_at_once() {
    let node = TestNode::start().await;
    let rows = [
        ("absent", None, Ok(30_000)),
        ("zero", Some(milliseconds(0)), Err("lease")),
        ("negative", Some(WireDuration { seconds: -1, nanos: 0 }), Err("lease")),
        ("nearly", Some(WireDuration { seconds: 0, nanos: 1 }), Ok(100)),
        ("short", Some(milliseconds(99)), Ok(100)),
        ("shortest", Some(milliseconds(100)), Ok(100)),
        ("asked for", Some(milliseconds(12_345)), Ok(12_345)),
        ("longest", Some(milliseconds(DAY_S * 1_000)), Ok(DAY_S * 1_000)),
        ("longer", Some(milliseconds(DAY_S * 1_000 + 1)), Ok(DAY_S * 1_000)),
        ("endless", Some(WireDuration { seconds: i64::MAX, nanos: 0 }), Ok(DAY_S * 1_000)),
    ];
    for (key, lease, expected) in rows {
        let request = v1::ClaimKeyRequest { lease, ..claim(key) };
        let reply = node.keys.claim(request).await;
        match expected {
            Ok(lease_ms) => {
                let granted = reply.expect(key);
                assert_eq!(duration(granted.lease), Duration::from_millis(lease_ms), "{key}");
            }
            Err(field) => {
                let refused = reply.expect_err(key);
                assert_eq!(refused.named(), ("DURATION_INVALID", Some(field)), "{key}");
            }
        }
    }
}

#[tokio::test]
async fn a_renewal_of_zero_takes_the_default_or_an_absent_one_is_over_at_once() {
    let (node, _clock) = TestNode::manual(|_| {}).await;
    let rows = [
        ("absent", None, Some(30_000)),
        ("zero", Some(milliseconds(0)), None),
        ("short", Some(milliseconds(1)), Some(100)),
        ("longer", Some(milliseconds(2 * DAY_S * 1_000)), Some(DAY_S * 1_000)),
    ];
    for (key, lease, expected) in rows {
        let request = claim(key).lease_ms(100);
        let fence = node.keys.claim(request.clone()).await.expect("granted").fence;
        let renewal = v1::RenewKeyRequest { lease, ..renew(&request, fence, 1) };
        let reply = node.keys.renew(renewal).await;
        match expected {
            Some(lease_ms) => {
                let end_us = time_us(reply.expect(key).lease_expires_at);
                assert_eq!(end_us, NOON_US + lease_ms * 1_000, "{key}");
            }
            None => {
                let refused = reply.expect_err(key);
                assert_eq!(refused.named(), ("DURATION_INVALID", Some("lease")), "{key}");
            }
        }
    }
}

#[tokio::test]
async fn a_retention_is_shorter_than_the_policy_or_cut_short() {
    let (node, _clock) = TestNode::manual(|_| {}).await;
    let rows = [
        ("absent", None, Some(DAY_S)),
        ("zero", Some(milliseconds(0)), None),
        ("short", Some(milliseconds(60_000)), Some(DAY_S)),
        ("nearly", Some(WireDuration { seconds: 0, nanos: 1 }), Some(DAY_S)),
        ("longer", Some(milliseconds(2 * DAY_S * 1_000)), Some(2 * DAY_S)),
        ("longest", Some(milliseconds(30 * DAY_S * 1_000)), Some(30 * DAY_S)),
        ("too long", Some(milliseconds(30 * DAY_S * 1_000 + 1)), None),
    ];
    for (key, retention, expected) in rows {
        let request = v1::ClaimKeyRequest { retention, ..claim(key) };
        let reply = node.keys.claim(request.clone()).await;
        let Some(kept_s) = expected else {
            let refused = reply.expect_err(key);
            assert_eq!(refused.named(), ("DURATION_INVALID", Some("retention")), "{key}");
            continue;
        };
        let done = succeed(&request, reply.expect(key).fence, "x");
        let expires_us = time_us(node.keys.complete(done).await.expect("completed").expires_at);
        assert_eq!(expires_us, NOON_US + (kept_s + 2) * SECOND_US, "{key}");
    }
}

#[tokio::test]
async fn no_wait_at_all_is_refused_or_waits() {
    let node = TestNode::start().await;
    node.keys.claim(claim("k")).await.expect("granted");
    for wait in [None, Some(milliseconds(0))] {
        let request = v1::ClaimKeyRequest { wait, ..claim("k").owner(2) };
        let answer = node.keys.claim(request).await.expect("answered");
        assert_eq!(answer.disposition(), Disposition::InProgress);
        let read = v1::ReplayKeyRequest { wait, ..replay(&claim("k")) };
        assert_eq!(node.keys.replay(read).await.expect("there").state(), v1::KeyState::Claimed);
    }
    assert_eq!(node.store.seen().watches, 0);
}

#[tokio::test]
async fn an_intent_that_is_older_than_the_memory_is_run_a_second_time() {
    let (node, clock) = TestNode::manual(|_| {}).await;
    let made_us = NOON_US;
    let request = claim("k").first_sent_us(made_us);
    let first = node.keys.claim(request.clone()).await.expect("granted");
    node.keys.complete(succeed(&request, first.fence, "x")).await.expect("completed");

    clock.advance_us((DAY_S + 2) * SECOND_US - 1);
    let last = node.keys.claim(request.clone().owner(2)).await.expect("answered");
    assert_eq!(last.disposition(), Disposition::Replay, "until the very end");
    clock.advance_us(1);
    let refused = node.keys.claim(request.clone().owner(2)).await.expect_err("too old");
    assert_eq!(refused.named(), ("KEY_EXPIRED", None));
    // A longer retention for the next record does not make the old one remembered.
    let longer = request.owner(2).retention_s(30 * DAY_S);
    assert_eq!(node.keys.claim(longer).await.expect_err("too old").reason, "KEY_EXPIRED");

    let unsaid = node.keys.claim(claim("k").owner(2)).await.expect("granted");
    assert_eq!(unsaid.disposition(), Disposition::Claimed, "it did not say how old it is");
    assert!(unsaid.fence > first.fence, "a fence is never used again");
}

#[tokio::test]
async fn an_age_is_measured_wrongly_at_its_bounds() {
    let (node, _clock) = TestNode::manual(|_| {}).await;
    let rows = [
        ("oldest", NOON_US - DAY_S * SECOND_US, Ok(())),
        ("older", NOON_US - DAY_S * SECOND_US - 1, Err(("KEY_EXPIRED", None))),
        ("ancient", 0, Err(("KEY_EXPIRED", None))),
        ("now", NOON_US, Ok(())),
        ("within the skew", NOON_US + SECOND_US, Ok(())),
        ("beyond", NOON_US + SECOND_US + 1, Err(("FIRST_SENT_INVALID", Some("first_sent")))),
    ];
    for (key, made_us, expected) in rows {
        let reply = node.keys.claim(claim(key).first_sent_us(made_us)).await;
        match expected {
            Ok(()) => assert_eq!(reply.expect(key).disposition(), Disposition::Claimed),
            Err(named) => {
                assert_eq!(reply.expect_err(key).named(), named, "{key}");
                let view = node.keys.get(get(&claim(key))).await;
                assert_eq!(view.expect_err("nothing written").reason, "KEY_UNKNOWN");
            }
        }
    }
    // Once there is a record, it alone counts.
    let odd = claim("now").owner(2).first_sent_us(0);
    let answer = node.keys.claim(odd).await.expect("answered");
    assert_eq!(answer.disposition(), Disposition::InProgress);
    let view = node.keys.get(get(&claim("now"))).await.expect("there").key.expect("a key");
    assert_eq!(time_us(view.first_sent), NOON_US, "that of the first claim");
}

#[tokio::test]
async fn a_policy_that_requires_first_sent_lets_a_claim_pass_without() {
    let node = TestNode::with(|options| options.keys.require_first_sent = true).await;
    let refused = node.keys.claim(claim("k")).await.expect_err("required");
    assert_eq!(refused.named(), ("FIRST_SENT_INVALID", Some("first_sent")));
    let request = claim("k").first_sent_us(machine_us());
    let fence = node.keys.claim(request.clone()).await.expect("granted").fence;
    node.keys.complete(succeed(&request, fence, "x")).await.expect("completed");
    node.keys.claim(request.owner(2)).await.expect("answered");
    let refused = node.keys.claim(claim("k").owner(3)).await.expect_err("in memory or not");
    assert_eq!(refused.reason, "FIRST_SENT_INVALID");
}
