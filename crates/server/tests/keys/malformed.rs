//! Malformed input of every field of every request: refused by its field's name, and nothing written.

use bytes::Bytes;
use prost_types::{Duration as WireDuration, Timestamp as WireTimestamp};
use semel_proto::v1;
use semel_store::Space;

use crate::support::*;

/// What is done to a valid request, and how it is refused.
struct Row<R> {
    change: Box<dyn Fn(&mut R)>,
    reason: &'static str,
    field: &'static str,
}

fn row<R>(reason: &'static str, field: &'static str, change: impl Fn(&mut R) + 'static) -> Row<R> {
    Row { change: Box::new(change), reason, field }
}

/// Sends each row's request, and finds it refused for what the row says.
async fn check<R: Clone + std::fmt::Debug>(
    valid: &R,
    rows: Vec<Row<R>>,
    call: impl AsyncFn(R) -> Result<(), Refused>,
) {
    for Row { change, reason, field } in rows {
        let mut request = valid.clone();
        change(&mut request);
        let refused = call(request.clone()).await.expect_err(&format!("{field}: {request:?}"));
        assert_eq!(refused.named(), (reason, Some(field)), "{request:?}");
        assert!(refused.message.contains(field), "{}", refused.message);
    }
}

/// The rows of the three names, which nearly every request has.
macro_rules! names {
    ($request:ty) => {{
        let mut rows: Vec<Row<$request>> = Vec::new();
        for bad in ["".to_owned(), "a".repeat(129), "a b".to_owned(), "ä".to_owned()] {
            let (tenant, operation) = (bad.clone(), bad);
            rows.push(row("TENANT_INVALID", "tenant", move |r: &mut $request| {
                r.tenant = tenant.clone();
            }));
            rows.push(row("OPERATION_INVALID", "operation", move |r: &mut $request| {
                r.operation = operation.clone();
            }));
        }
        // Fault 9: empty and blank keys are treated as no key.
        for bad in ["", " ", "\u{2003}\u{a0}", "a\nb", "\u{0}", "\u{7f}"] {
            rows.push(row("KEY_INVALID", "key", move |r: &mut $request| r.key = bad.to_owned()));
        }
        rows.push(row("KEY_INVALID", "key", |r: &mut $request| r.key = "ä".repeat(128)));
        rows
    }};
}

macro_rules! fence_and_owner {
    ($request:ty) => {{
        let mut rows: Vec<Row<$request>> =
            vec![row("FENCE_INVALID", "fence", |r: &mut $request| r.fence = 0)];
        for length in [0, 15, 17, 1_000] {
            rows.push(row("OWNER_ID_INVALID", "owner_id", move |r: &mut $request| {
                r.owner_id = Bytes::from(vec![1; length]);
            }));
        }
        rows
    }};
}

fn wire(seconds: i64, nanos: i32) -> Option<WireDuration> {
    Some(WireDuration { seconds, nanos })
}

/// What no duration may be.
fn negative() -> [Option<WireDuration>; 5] {
    [wire(-1, 0), wire(0, -1), wire(i64::MIN, i32::MIN), wire(1, 1_000_000_000), wire(1, -1)]
}

fn fingerprints(request: &mut Vec<v1::Fingerprint>, case: usize) {
    let one = request[0].clone();
    let with = |algorithm: String, length: usize| v1::Fingerprint {
        algorithm,
        digest: Bytes::from(vec![1; length]),
    };
    *request = match case {
        0 => Vec::new(),
        1 => (0..5).map(|number| with(format!("a{number}"), 32)).collect(),
        2 => vec![one.clone(), one],
        3 => vec![one, with(String::new(), 32)],
        4 => vec![one, with("a".repeat(65), 32)],
        5 => vec![one, with("a b".to_owned(), 32)],
        6 => vec![one, with("a".to_owned(), 15)],
        _ => vec![one, with("a".to_owned(), 65)],
    };
}

fn claim_rows() -> Vec<Row<v1::ClaimKeyRequest>> {
    type R = v1::ClaimKeyRequest;
    let mut rows = names!(R);
    for case in 0..8 {
        let change = move |r: &mut R| fingerprints(&mut r.fingerprints, case);
        rows.push(row("FINGERPRINT_INVALID", "fingerprints", change));
    }
    for length in [0, 15, 17] {
        let change = move |r: &mut R| r.owner_id = Bytes::from(vec![1; length]);
        rows.push(row("OWNER_ID_INVALID", "owner_id", change));
    }
    for bad in negative() {
        rows.push(row("DURATION_INVALID", "lease", move |r: &mut R| r.lease = bad));
        rows.push(row("DURATION_INVALID", "retention", move |r: &mut R| r.retention = bad));
        rows.push(row("DURATION_INVALID", "wait", move |r: &mut R| r.wait = bad));
    }
    rows.extend([
        row("DURATION_INVALID", "lease", |r: &mut R| r.lease = wire(0, 0)),
        row("DURATION_INVALID", "retention", |r: &mut R| r.retention = wire(0, 0)),
        row("DURATION_INVALID", "retention", |r: &mut R| r.retention = wire(30 * 86_400, 1)),
        row("DURATION_INVALID", "wait", |r: &mut R| r.wait = wire(86_400, 1)),
        row("DURATION_INVALID", "wait", |r: &mut R| r.wait = wire(i64::MAX, 0)),
    ]);
    for (seconds, nanos) in [(-1, 0), (0, -1), (0, 1_000_000_000), (i64::MAX, 0), (i64::MIN, 0)] {
        let first_sent = Some(WireTimestamp { seconds, nanos });
        let change = move |r: &mut R| r.first_sent = first_sent;
        rows.push(row("FIRST_SENT_INVALID", "first_sent", change));
    }
    for unknown in [4, -1, i32::MAX] {
        let change = move |r: &mut R| r.on_owner_lost = unknown;
        rows.push(row("ENUM_INVALID", "on_owner_lost", change));
    }
    for (name, value) in bad_labels() {
        let change = move |r: &mut R| drop(r.labels.insert(name.clone(), value.clone()));
        rows.push(row("LABEL_INVALID", "labels", change));
    }
    rows.push(row("LABEL_INVALID", "labels", |r: &mut R| {
        r.labels = (0..17).map(|number| (format!("l{number}"), String::new())).collect();
    }));
    rows
}

fn bad_labels() -> Vec<(String, String)> {
    vec![
        (String::new(), "x".to_owned()),
        ("a".repeat(64), "x".to_owned()),
        ("a b".to_owned(), "x".to_owned()),
        ("ä".to_owned(), "x".to_owned()),
        ("a".to_owned(), "x".repeat(256)),
    ]
}

/// What is wrong with a response: its field, and how it gets there.
fn bad_responses() -> Vec<(&'static str, v1::Response)> {
    let good = response("x");
    let entries =
        |count: usize, name: String, value: String| vec![v1::MetadataEntry { name, value }; count];
    let metadata = |metadata| v1::Response { metadata, ..good.clone() };
    let omitted = |length: usize| v1::Response {
        content: Some(Content::Omitted(v1::OmittedBody {
            sha256: Bytes::from(vec![1; length]),
            length: 1,
        })),
        ..good.clone()
    };
    vec![
        ("response.content_type", v1::Response { content_type: "a".repeat(256), ..good.clone() }),
        ("response.metadata", metadata(entries(65, "a".to_owned(), String::new()))),
        ("response.metadata", metadata(entries(1, String::new(), "x".to_owned()))),
        ("response.metadata", metadata(entries(1, "a".repeat(256), "x".to_owned()))),
        ("response.metadata", metadata(entries(1, "a".to_owned(), "x".repeat(8_193)))),
        ("response.metadata", metadata(entries(2, "a".to_owned(), "x".repeat(8_192)))),
        ("response.omitted.sha256", omitted(0)),
        ("response.omitted.sha256", omitted(31)),
        ("response.omitted.sha256", omitted(33)),
    ]
}

fn complete_rows() -> Vec<Row<v1::CompleteKeyRequest>> {
    type R = v1::CompleteKeyRequest;
    let mut rows = names!(R);
    rows.extend(fence_and_owner!(R));
    rows.push(row("OUTCOME_INVALID", "outcome", |r: &mut R| r.outcome = 0));
    for unknown in [5, -1] {
        rows.push(row("ENUM_INVALID", "outcome", move |r: &mut R| r.outcome = unknown));
    }
    for (field, bad) in bad_responses() {
        let change = move |r: &mut R| r.response = Some(bad.clone());
        rows.push(row("RESPONSE_INVALID", field, change));
    }
    for outcome in [v1::Outcome::FailedRetryable, v1::Outcome::Indeterminate] {
        let change = move |r: &mut R| r.outcome = outcome.into();
        rows.push(row("RESPONSE_INVALID", "response", change));
    }
    rows
}

#[tokio::test]
async fn a_malformed_claim_is_taken_for_another_or_leaves_something_behind() {
    let node = TestNode::start().await;
    let valid = claim("k").label("team", "billing").first_sent_us(machine_us());
    check(&valid, claim_rows(), async |request| node.keys.claim(request).await.map(drop)).await;
    nothing_written(&node).await;
    node.keys.claim(valid).await.expect("valid but for those changes");
}

#[tokio::test]
async fn a_malformed_completion_is_taken_for_another() {
    let node = TestNode::start().await;
    let valid = succeed(&claim("k"), 1, "x");
    let call = async |request| node.keys.complete(request).await.map(drop);
    check(&valid, complete_rows(), &call).await;
    nothing_written(&node).await;
    let refused = call(valid).await.expect_err("no such key");
    assert_eq!(refused.reason, "KEY_UNKNOWN", "valid but for those changes");
}

#[tokio::test]
async fn a_malformed_item_of_a_batch_is_not_named_by_its_place() {
    let node = TestNode::start().await;
    let valid = claim("k").label("team", "billing").first_sent_us(machine_us());
    for Row { change, reason, field } in claim_rows() {
        let mut malformed = valid.clone();
        change(&mut malformed);
        let claims = vec![malformed; 2];
        let results = node.keys.claim_all(v1::ClaimKeysRequest { claims }).await.expect("answered");
        for (place, result) in results.results.into_iter().enumerate() {
            let Some(v1::claim_key_result::Result::Error(error)) = result.result else {
                panic!("{field}: {result:?}");
            };
            let (refused, path) = (Refused::of_item(&error), format!("claims[{place}].{field}"));
            assert_eq!(refused.named(), (reason, Some(path.as_str())));
        }
    }
    for Row { change, reason, field } in complete_rows() {
        let mut malformed = succeed(&claim("k"), 1, "x");
        change(&mut malformed);
        let batch = v1::CompleteKeysRequest { completions: vec![malformed; 2] };
        let results = node.keys.complete_all(batch).await.expect("answered");
        for (place, result) in results.results.into_iter().enumerate() {
            let Some(v1::complete_key_result::Result::Error(error)) = result.result else {
                panic!("{field}: {result:?}");
            };
            let (refused, path) =
                (Refused::of_item(&error), format!("completions[{place}].{field}"));
            assert_eq!(refused.named(), (reason, Some(path.as_str())));
        }
    }
    nothing_written(&node).await;
}

#[tokio::test]
async fn a_malformed_replay_renewal_or_release_is_taken_for_another() {
    let node = TestNode::start().await;
    let mut rows = names!(v1::ReplayKeyRequest);
    for case in 0..8 {
        let change = move |r: &mut v1::ReplayKeyRequest| fingerprints(&mut r.fingerprints, case);
        rows.push(row("FINGERPRINT_INVALID", "fingerprints", change));
    }
    for bad in negative().into_iter().chain([wire(86_400, 1)]) {
        let change = move |r: &mut v1::ReplayKeyRequest| r.wait = bad;
        rows.push(row("DURATION_INVALID", "wait", change));
    }
    let read = async |request| node.keys.replay(request).await.map(drop);
    check(&replay(&claim("k")), rows, read).await;

    type Renew = v1::RenewKeyRequest;
    let mut rows = names!(Renew);
    rows.extend(fence_and_owner!(Renew));
    rows.push(row("RENEWAL_INVALID", "renewal", |r: &mut Renew| r.renewal = 0));
    for bad in negative().into_iter().chain([wire(0, 0)]) {
        rows.push(row("DURATION_INVALID", "lease", move |r: &mut Renew| r.lease = bad));
    }
    rows.push(row("CHECKPOINT_INVALID", "checkpoint", |r: &mut Renew| {
        r.checkpoint = Some(Bytes::from(vec![0; 64 * 1024 + 1]));
    }));
    let renewed = async |request| node.keys.renew(request).await.map(drop);
    check(&renew(&claim("k"), 1, 1), rows, renewed).await;

    let mut rows = names!(v1::ReleaseKeyRequest);
    rows.extend(fence_and_owner!(v1::ReleaseKeyRequest));
    let released = async |request| node.keys.release(request).await.map(drop);
    check(&release(&claim("k"), 1), rows, released).await;
    nothing_written(&node).await;
}

#[tokio::test]
async fn a_malformed_look_of_an_operator_shows_something() {
    let node = TestNode::start().await;
    let looked = async |request| node.keys.get(request).await.map(drop);
    check(&get(&claim("k")), names!(v1::GetKeyRequest), looked).await;

    type List = v1::ListKeysRequest;
    let mut rows = vec![
        row("TENANT_INVALID", "tenant", |r: &mut List| r.tenant = String::new()),
        row("OPERATION_INVALID", "operation", |r: &mut List| r.operation = "a b".to_owned()),
        row("ENUM_INVALID", "state", |r: &mut List| r.state = 8),
        row("ENUM_INVALID", "state", |r: &mut List| r.state = -1),
        row("PAGE_INVALID", "page_size", |r: &mut List| r.page_size = 1_001),
        row("PAGE_INVALID", "page_size", |r: &mut List| r.page_size = u32::MAX),
    ];
    for (name, value) in bad_labels() {
        let change = move |r: &mut List| drop(r.labels.insert(name.clone(), value.clone()));
        rows.push(row("LABEL_INVALID", "labels", change));
    }
    for token in bad_tokens() {
        let change = move |r: &mut List| r.page_token = token.clone();
        rows.push(row("PAGE_INVALID", "page_token", change));
    }
    check(&list(), rows, async |request| node.keys.list(request).await.map(drop)).await;

    type Stuck = v1::ListStuckKeysRequest;
    let mut rows = vec![
        row("TENANT_INVALID", "tenant", |r: &mut Stuck| r.tenant = "a\0".to_owned()),
        row("OPERATION_INVALID", "operation", |r: &mut Stuck| r.operation = "ä".to_owned()),
        row("PAGE_INVALID", "page_size", |r: &mut Stuck| r.page_size = 1_001),
    ];
    for bad in negative() {
        let change = move |r: &mut Stuck| r.stuck_for = bad;
        rows.push(row("DURATION_INVALID", "stuck_for", change));
    }
    for token in bad_tokens() {
        let change = move |r: &mut Stuck| r.page_token = token.clone();
        rows.push(row("PAGE_INVALID", "page_token", change));
    }
    check(&list_stuck(), rows, async |request| node.keys.list_stuck(request).await.map(drop)).await;
}

/// No text that a page ends with, or one of another listing.
fn bad_tokens() -> Vec<String> {
    let foreign = ["k\u{5}other\u{2}opkey", "s\u{5}other", "k", "\u{7f}"];
    let odd = ["0", "zz", "+1", "ää", " "].map(str::to_owned);
    let foreign = foreign.map(|key| key.bytes().map(|byte| format!("{byte:02x}")).collect());
    odd.into_iter().chain(foreign).chain(["61".repeat(10_000)]).collect()
}

#[tokio::test]
async fn a_malformed_act_of_an_operator_changes_something() {
    let node = TestNode::start().await;
    let text =
        |max: usize| [String::new(), " \u{a0}".to_owned(), "a\nb".to_owned(), "a".repeat(max + 1)];
    type Settle = v1::ReconcileKeyRequest;
    let mut rows = names!(Settle);
    rows.push(row("FENCE_INVALID", "fence", |r: &mut Settle| r.fence = 0));
    rows.push(row("OUTCOME_INVALID", "resolution", |r: &mut Settle| r.resolution = 0));
    for unknown in [4, -1] {
        rows.push(row("ENUM_INVALID", "resolution", move |r: &mut Settle| r.resolution = unknown));
    }
    for (field, bad) in bad_responses() {
        let change = move |r: &mut Settle| r.response = Some(bad.clone());
        rows.push(row("RESPONSE_INVALID", field, change));
    }
    rows.push(row("RESPONSE_INVALID", "response", |r: &mut Settle| {
        r.resolution = v1::reconcile_key_request::Resolution::NotDone.into();
        r.response = Some(response("x"));
    }));
    for bad in text(128) {
        rows.push(row("AUDIT_INVALID", "actor", move |r: &mut Settle| r.actor = bad.clone()));
    }
    for bad in text(512) {
        rows.push(row("AUDIT_INVALID", "reason", move |r: &mut Settle| r.reason = bad.clone()));
    }
    let done = v1::reconcile_key_request::Resolution::Succeeded;
    let settled = async |request| node.keys.reconcile(request).await.map(drop);
    check(&reconcile(&claim("k"), 1, done), rows, settled).await;

    type Forget = v1::ForgetKeyRequest;
    let mut rows = names!(Forget);
    for bad in text(128) {
        rows.push(row("AUDIT_INVALID", "actor", move |r: &mut Forget| r.actor = bad.clone()));
    }
    for bad in text(512) {
        rows.push(row("AUDIT_INVALID", "reason", move |r: &mut Forget| r.reason = bad.clone()));
    }
    let erased = async |request| node.keys.forget(request).await.map(drop);
    check(&forget(&claim("k")), rows, erased).await;
    nothing_written(&node).await;
}

#[tokio::test]
async fn what_is_just_within_its_bounds_is_refused() {
    let node = TestNode::start().await;
    let fingerprint = |number: usize| v1::Fingerprint {
        algorithm: format!("{}{number}", "a".repeat(63)),
        digest: Bytes::from(vec![1; if number == 0 { 16 } else { 64 }]),
    };
    let label = |number: usize| (format!("{number:a>63}"), "ä".repeat(127));
    let request = v1::ClaimKeyRequest {
        tenant: "t".repeat(128),
        operation: "AZaz09._:/-".to_owned(),
        key: format!(" {}", "k".repeat(254)),
        fingerprints: (0..4).map(fingerprint).collect(),
        labels: (0..16).map(label).collect(),
        ..claim("").retention_s(30 * 86_400)
    };
    let fence = node.keys.claim(request.clone()).await.expect("granted").fence;
    let saved = v1::RenewKeyRequest {
        checkpoint: Some(Bytes::from(vec![0; 64 * 1024])),
        ..renew(&request, fence, u64::MAX)
    };
    node.keys.renew(saved).await.expect("renewed");
    let metadata = v1::MetadataEntry { name: "n".repeat(255), value: "v".repeat(7_937) };
    let whole = v1::Response {
        content_type: "c".repeat(255),
        metadata: vec![metadata; 2],
        ..response("x")
    };
    let done = v1::CompleteKeyRequest { response: Some(whole), ..succeed(&request, fence, "") };
    node.keys.complete(done).await.expect("completed");
    let erasure =
        v1::ForgetKeyRequest {
            actor: "ä".repeat(64), reason: "r".repeat(512), ..forget(&request)
        };
    node.keys.forget(erasure).await.expect("erased");
}

pub(crate) async fn nothing_written(node: &TestNode) {
    assert_eq!(node.keys.list(list()).await.expect("listed").keys, []);
    for space in [Space::Records, Space::Index] {
        assert_eq!(node.store.rows(space).await, []);
    }
}
