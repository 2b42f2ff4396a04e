//! What operators see, settle and erase.

use std::collections::BTreeMap;

use semel_proto::v1;
use semel_proto::v1::reconcile_key_request::Resolution;

use crate::support::*;

const SECOND_US: u64 = 1_000_000;

#[tokio::test]
async fn a_look_at_a_key_leaves_something_out_or_shows_the_body() {
    let (node, clock) = TestNode::manual(|_| {}).await;
    let request = claim("k").label("team", "billing").first_sent_us(NOON_US - 5);
    let fence = node.keys.claim(request.clone()).await.expect("granted").fence;
    let saved =
        v1::RenewKeyRequest { checkpoint: Some("step 3".into()), ..renew(&request, fence, 1) };
    clock.advance_us(SECOND_US);
    node.keys.renew(saved).await.expect("renewed");
    let view = node.keys.get(get(&request)).await.expect("there").key.expect("a key");
    let expected = v1::KeyView {
        tenant: "acme".to_owned(),
        operation: "payments.charge".to_owned(),
        key: "k".to_owned(),
        state: v1::KeyState::Claimed.into(),
        fence,
        fingerprints: request.fingerprints.clone(),
        on_owner_lost: v1::OnOwnerLost::Reconcile.into(),
        labels: request.labels.clone(),
        created_at: Some(wire_time(NOON_US)),
        touched_at: Some(wire_time(NOON_US + SECOND_US)),
        first_sent: Some(wire_time(NOON_US - 5)),
        lease_expires_at: Some(wire_time(NOON_US + 31 * SECOND_US)),
        owner_id: request.owner_id.clone(),
        expires_at: None,
        attempts: 1,
        history: Vec::new(),
        completion: None,
        checkpoint_bytes: 6,
        audit: Vec::new(),
        derived_key: view.derived_key.clone(),
    };
    assert_eq!(view, expected);

    node.keys.complete(succeed(&request, fence, "secret")).await.expect("completed");
    let view = node.keys.get(get(&request)).await.expect("there").key.expect("a key");
    assert_eq!(view.state(), v1::KeyState::Succeeded);
    assert_eq!((view.lease_expires_at, view.checkpoint_bytes), (None, 0));
    assert_eq!(time_us(view.expires_at), NOON_US + 86_403 * SECOND_US);
    let completion = view.completion.expect("an answer");
    assert_eq!(body_of(Some(&completion)), None);
    let Some(Content::Omitted(omitted)) = completion.response.expect("a response").content else {
        panic!("the digest stands for the body");
    };
    assert_eq!((omitted.length, omitted.sha256.len()), (6, 32));
}

#[tokio::test]
async fn bodies_are_shown_without_the_grant_or_refused_with_it() {
    let bodies = |key: &str| v1::GetKeyRequest { include_body: true, ..get(&claim(key)) };
    for grant in [false, true] {
        let node = TestNode::with(|options| options.keys.grant_bodies = grant).await;
        let request = claim("k");
        let fence = node.keys.claim(request.clone()).await.expect("granted").fence;
        node.keys.complete(succeed(&request, fence, "secret")).await.expect("completed");
        let looked = node.keys.get(bodies("k")).await;
        let absent = node.keys.get(bodies("none")).await.expect_err("there is none");
        if grant {
            let view = looked.expect("granted").key.expect("a key");
            assert_eq!(body_of(view.completion.as_ref()).expect("a body"), "secret");
            assert_eq!(absent.reason, "KEY_UNKNOWN");
        } else {
            assert_eq!(looked.expect_err("denied").named(), ("BODY_DENIED", None));
            assert_eq!(absent.reason, "BODY_DENIED", "and not whether there is such a key");
        }
        let view = node.keys.get(get(&request)).await.expect("there").key.expect("a key");
        assert_eq!(body_of(view.completion.as_ref()), None);
        let listed = node.keys.list(list()).await.expect("listed").keys;
        assert_eq!((&listed[0].completion, listed[0].history.len()), (&None, 0));
    }
}

/// Every key of a listing, page by page.
async fn all_pages(node: &TestNode, mut request: v1::ListKeysRequest) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        let page = node.keys.list(request.clone()).await.expect("listed");
        assert!(page.keys.len() <= usize::try_from(request.page_size).expect("small"));
        all.extend(page.keys.into_iter().map(|view| format!("{}/{}", view.operation, view.key)));
        if page.next_page_token.is_empty() {
            return all;
        }
        request.page_token = page.next_page_token;
    }
}

#[tokio::test]
async fn a_page_repeats_a_key_or_leaves_one_out() {
    let node = TestNode::start().await;
    let mut expected = Vec::new();
    // Names that begin alike, so that a range which is not framed would mix them up.
    for (tenant, operation) in
        [("acme", "a"), ("acme", "ab"), ("acme", "b"), ("acm", "a"), ("acmea", "a")]
    {
        for number in 0..25 {
            let request = v1::ClaimKeyRequest {
                tenant: tenant.to_owned(),
                operation: operation.to_owned(),
                ..claim(&format!("k{number:02}"))
            };
            node.keys.claim(request).await.expect("granted");
            if tenant == "acme" {
                expected.push(format!("{operation}/k{number:02}"));
            }
        }
    }
    let of = |operation: &str| {
        let begins = format!("{operation}/");
        expected.iter().filter(|name| name.starts_with(&begins)).cloned().collect::<Vec<_>>()
    };
    for page_size in [1, 7, 25, 75, 1_000] {
        let mut all = all_pages(&node, v1::ListKeysRequest { page_size, ..list() }).await;
        for operation in ["a", "ab", "b"] {
            let request =
                v1::ListKeysRequest { page_size, operation: operation.to_owned(), ..list() };
            assert_eq!(all_pages(&node, request).await, of(operation), "{page_size}");
        }
        // Shorter names come first; within an operation the keys are in order.
        assert!(all.is_sorted_by_key(|name| (name.find('/'), name.clone())));
        all.sort();
        assert_eq!(all, expected, "{page_size}");
    }
    let first = node.keys.list(list()).await.expect("listed");
    assert_eq!((first.keys.len(), first.next_page_token.as_str()), (75, ""), "100 by default");
}

#[tokio::test]
async fn a_page_token_leads_into_another_listing() {
    let node = TestNode::start().await;
    for tenant in ["acme", "other"] {
        for number in 0..3 {
            let request =
                v1::ClaimKeyRequest { tenant: tenant.to_owned(), ..claim(&format!("k{number}")) };
            node.keys.claim(request).await.expect("granted");
        }
    }
    let one = v1::ListKeysRequest { page_size: 1, ..list() };
    let page_token = node.keys.list(one).await.expect("listed").next_page_token;
    assert!(!page_token.is_empty());
    let other = v1::ListKeysRequest {
        tenant: "other".to_owned(),
        page_token: page_token.clone(),
        ..list()
    };
    let refused = node.keys.list(other).await.expect_err("of another tenant");
    assert_eq!(refused.named(), ("PAGE_INVALID", Some("page_token")));
    let stuck = v1::ListStuckKeysRequest { page_token, ..list_stuck() };
    let refused = node.keys.list_stuck(stuck).await.expect_err("of another listing");
    assert_eq!(refused.named(), ("PAGE_INVALID", Some("page_token")));
}

/// One key in each state, with labels.
async fn one_of_each(node: &TestNode) -> BTreeMap<&'static str, u64> {
    let mut fences = BTreeMap::new();
    for key in ["lapsed", "unknown", "live", "released", "done", "failed", "forgotten"] {
        let lease_ms = if key == "live" { 3_600_000 } else { 1_000 };
        let request = claim(key).lease_ms(lease_ms).label("kind", key).label("team", "billing");
        let fence = node.keys.claim(request.clone()).await.expect("granted").fence;
        fences.insert(key, fence);
        let outcome = match key {
            "unknown" => v1::Outcome::Indeterminate,
            "released" => v1::Outcome::FailedRetryable,
            "done" | "forgotten" => v1::Outcome::Succeeded,
            "failed" => v1::Outcome::FailedFinal,
            _ => continue,
        };
        node.keys.complete(complete(&request, fence, outcome)).await.expect("completed");
    }
    node.keys.forget(forget(&claim("forgotten"))).await.expect("erased");
    fences
}

#[tokio::test]
async fn a_filter_shows_too_much_or_too_little() {
    let (node, clock) = TestNode::manual(|_| {}).await;
    one_of_each(&node).await;
    clock.advance_us(10 * SECOND_US);
    let listed = async |state: v1::KeyState, labels: &[(&str, &str)]| {
        let labels = labels.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        let request =
            v1::ListKeysRequest { state: state.into(), labels: labels.collect(), ..list() };
        let page = node.keys.list(request).await.expect("listed");
        let keys: Vec<String> = page.keys.into_iter().map(|view| view.key).collect();
        keys.join(" ")
    };
    let rows = [
        (v1::KeyState::Claimed, "live"),
        (v1::KeyState::Lapsed, "lapsed"),
        (v1::KeyState::Released, "released"),
        (v1::KeyState::Succeeded, "done"),
        (v1::KeyState::FailedFinal, "failed"),
        (v1::KeyState::Indeterminate, "unknown"),
        (v1::KeyState::Forgotten, "forgotten"),
        (v1::KeyState::Unspecified, "done failed forgotten lapsed live released unknown"),
    ];
    for (state, expected) in rows {
        assert_eq!(listed(state, &[]).await, expected, "{state:?}");
    }
    let any = v1::KeyState::Unspecified;
    let billing = listed(any, &[("team", "billing")]).await;
    assert_eq!(billing, "done failed lapsed live released unknown", "erased with its labels");
    assert_eq!(listed(any, &[("team", "billing"), ("kind", "live")]).await, "live");
    assert_eq!(listed(any, &[("team", "shipping")]).await, "");
    assert_eq!(listed(any, &[("team", "")]).await, "");
    assert_eq!(listed(v1::KeyState::Lapsed, &[("kind", "live")]).await, "");

    // What has outlived its retention is gone, whether or not it was swept.
    clock.advance_us(2 * 86_400 * SECOND_US);
    assert_eq!(listed(any, &[]).await, "lapsed live unknown");
}

#[tokio::test]
async fn the_work_list_of_a_recovery_job_is_wrong() {
    let (node, clock) = TestNode::manual(|_| {}).await;
    for (number, key) in ["third", "first", "second"].into_iter().enumerate() {
        let lease_ms = [3_000, 1_000, 2_000][number];
        node.keys.claim(claim(key).lease_ms(lease_ms)).await.expect("granted");
    }
    let fences = one_of_each(&node).await;
    let other = v1::ClaimKeyRequest { operation: "other".to_owned(), ..claim("k").lease_ms(500) };
    node.keys.claim(other).await.expect("granted");
    let stuck = async |change: &dyn Fn(&mut v1::ListStuckKeysRequest)| {
        let mut request = list_stuck();
        change(&mut request);
        let page = node.keys.list_stuck(request).await.expect("listed");
        page.keys.into_iter().map(|view| view.key).collect::<Vec<_>>()
    };
    assert_eq!(stuck(&|_| {}).await, ["unknown"], "indeterminate from the start");
    clock.advance_us(10 * SECOND_US);
    let all = stuck(&|_| {}).await;
    assert_eq!(all[..2], ["unknown", "k"], "the one stuck longest first");
    let mut next = all[2..4].to_vec();
    next.sort();
    assert_eq!(next, ["first", "lapsed"], "both at the same time");
    assert_eq!(all[4..], ["second", "third"]);
    let charges = stuck(&|request| "payments.charge".clone_into(&mut request.operation)).await;
    assert!(!charges.contains(&"k".to_owned()) && charges.len() == 5, "{charges:?}");
    let long = stuck(&|request| request.stuck_for = Some(milliseconds(8_000))).await;
    assert_eq!(long.len(), 5, "{long:?}: not the third, which is stuck for 7 s");

    let mut request = v1::ListStuckKeysRequest { page_size: 1, ..list_stuck() };
    let mut paged = Vec::new();
    loop {
        let page = node.keys.list_stuck(request.clone()).await.expect("listed");
        paged.extend(page.keys.into_iter().map(|view| view.key));
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    assert_eq!(paged, all, "every one once");

    let resolution = Resolution::NotDone;
    let settled = reconcile(&claim("lapsed"), fences["lapsed"], resolution);
    node.keys.reconcile(settled).await.expect("settled");
    node.keys.claim(claim("first").owner(2)).await.expect("taken over");
    let left = stuck(&|_| {}).await;
    assert_eq!(left, ["unknown", "k", "second", "third"], "done is done");
}

#[tokio::test]
async fn a_stuck_key_is_settled_by_who_looked_at_something_else() {
    let (node, clock) = TestNode::manual(|_| {}).await;
    let keys = &node.keys;
    let fences = one_of_each(&node).await;
    let settle = |key: &str, resolution| reconcile(&claim(key), fences[key], resolution);
    let live = keys.reconcile(settle("live", Resolution::NotDone)).await.expect_err("at work");
    assert_eq!(live.reason, "CLAIM_LIVE");
    assert_eq!(live.retry_after.expect("a time").as_secs(), 3_600);
    clock.advance_us(10 * SECOND_US);

    let moved = reconcile(&claim("lapsed"), fences["lapsed"] - 1, Resolution::NotDone);
    let refused = keys.reconcile(moved).await.expect_err("looked at something else");
    assert_eq!(refused.named(), ("FENCED", None));
    assert_eq!(refused.metadata["current_fence"], fences["lapsed"].to_string());
    for (key, reason) in
        [("done", "COMPLETION_CONFLICT"), ("released", "FENCED"), ("forgotten", "KEY_EXPIRED")]
    {
        let refused = keys.reconcile(settle(key, Resolution::NotDone)).await.expect_err(key);
        assert_eq!(refused.reason, reason, "{key}");
    }

    let done = v1::ReconcileKeyRequest {
        response: Some(response("found in the ledger")),
        ..settle("lapsed", Resolution::Succeeded)
    };
    let settled = keys.reconcile(done.clone()).await.expect("settled");
    assert_eq!((settled.already_settled, settled.state()), (false, v1::KeyState::Succeeded));
    assert!(keys.reconcile(done).await.expect("the same").already_settled);
    let other = keys.reconcile(settle("lapsed", Resolution::FailedFinal)).await;
    assert_eq!(other.expect_err("the first stands").reason, "COMPLETION_CONFLICT");
    let answer = keys.claim(claim("lapsed").owner(2)).await.expect("answered");
    assert_eq!(body_of(answer.completion.as_ref()).expect("a body"), "found in the ledger");

    let settled = keys.reconcile(settle("unknown", Resolution::NotDone)).await.expect("settled");
    assert_eq!(settled.state(), v1::KeyState::Released);
    let again = keys.reconcile(settle("unknown", Resolution::NotDone)).await.expect("the same");
    assert!(again.already_settled);
    let owner = complete(&claim("unknown"), fences["unknown"], v1::Outcome::Succeeded);
    assert_eq!(keys.complete(owner).await.expect_err("too late").reason, "FENCED");
    let next = keys.claim(claim("unknown").owner(2)).await.expect("granted");
    assert_eq!(next.disposition(), Disposition::Claimed, "known not done");
    assert_eq!(next.history[0].end(), v1::attempt::End::Reconciled);

    let view = keys.get(get(&claim("lapsed"))).await.expect("there").key.expect("a key");
    let [act] = &view.audit[..] else { panic!("one act: {:?}", view.audit) };
    assert_eq!((act.actor.as_str(), act.action.as_str()), ("olga", "reconcile"));
    assert_eq!(act.reason, "looked at the ledger");
    assert_eq!(time_us(act.at), NOON_US + 10 * SECOND_US);
}

#[tokio::test]
async fn erasing_a_key_lets_it_run_again_or_leaves_something_of_it() {
    let (node, clock) = TestNode::manual(|options| options.keys.grant_bodies = true).await;
    let keys = &node.keys;
    one_of_each(&node).await;
    clock.advance_us(10 * SECOND_US);
    for (key, state) in [
        ("live", "KEY_STATE_CLAIMED"),
        ("lapsed", "KEY_STATE_LAPSED"),
        ("unknown", "KEY_STATE_INDETERMINATE"),
        ("released", "KEY_STATE_RELEASED"),
    ] {
        let refused = keys.forget(forget(&claim(key))).await.expect_err(key);
        assert_eq!(refused.named(), ("KEY_NOT_COMPLETED", None), "{key}");
        assert_eq!(refused.metadata["state"], state);
    }
    let request = claim("k").label("customer", "ada");
    let fence = keys.claim(request.clone()).await.expect("granted").fence;
    let done = keys.complete(succeed(&request, fence, "secret")).await.expect("completed");
    keys.claim(request.clone().owner(2)).await.expect("and kept in memory");
    let erased = keys.forget(forget(&request)).await.expect("erased");
    assert_eq!((erased.already_forgotten, erased.expires_at), (false, done.expires_at));
    let again = keys.forget(forget(&request)).await.expect("the same");
    assert!(again.already_forgotten);

    assert_eq!(
        keys.claim(request.clone().owner(2)).await.expect_err("erased").reason,
        "KEY_EXPIRED"
    );
    let late = keys.complete(succeed(&request, fence, "secret")).await;
    assert_eq!(late.expect_err("erased").reason, "KEY_EXPIRED");
    let look = v1::GetKeyRequest { include_body: true, ..get(&request) };
    let view = keys.get(look).await.expect("a tombstone").key.expect("a key");
    assert_eq!((view.state(), &view.completion), (v1::KeyState::Forgotten, &None));
    assert!(view.labels.is_empty() && view.owner_id.is_empty(), "{view:?}");
    assert_eq!(view.audit.len(), 1);
    assert_eq!(view.audit[0].reason, "asked for by the customer");
    let rows = node.store.rows(semel_store::Space::Records).await;
    let found = rows.iter().any(|row| row.value.windows(6).any(|bytes| bytes == b"secret"));
    assert!(!found, "nothing of the body is stored");

    // The tombstone stays until the retention ends, and no longer.
    clock.advance_us(86_402 * SECOND_US);
    let next = keys.claim(request.owner(2)).await.expect("granted");
    assert!(next.fence > fence);
}
