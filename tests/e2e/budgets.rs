//! Every command of `semel budgets`, for people and for scripts, with its exit code.

use semel_proto::v1::retries_client::RetriesClient;
use semel_proto::v1::{AcquireRetryTokenRequest, Deposits, Failure, FailureKind, RetryVerdict};
use serde_json::{Value, json};

use crate::support::command::{Ran, run_at};
use crate::support::node::Node;

fn json_of(node: &Node, words: &str, code: i32) -> Value {
    ran(node, &format!("{words} --json")).ended_with(code).json()
}

fn ran(node: &Node, words: &str) -> Ran {
    run_at(&node.url, &format!("budgets {words}"))
}

#[test]
fn a_policy_keeps_what_is_not_named_and_never_undoes_anothers_change() {
    let node = Node::start(&[]);
    let default = json_of(&node, "policy get stripe", 0);
    assert_eq!((&default["version"], default.get("actor")), (&json!(0), None));
    let expected = json!({
        "ratio_per_mille": 100, "floor_per_second": 10, "window_ms": 10_000, "carry_over_ms": 0,
        "attempts_max": 3, "retries_per_root": 4, "retry_layer": "", "backoff": "FULL_JITTER",
        "backoff_base_ms": 50, "backoff_base_throttled_ms": 1_000, "backoff_cap_ms": 20_000,
        "deposit_on": "REQUEST", "fail_mode": "LOCAL_BOUNDED", "reserve_per_mille": 0,
        "enforcement": "ENFORCE", "lease_ms": 1_000,
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(default["policy"][name], *value, "{name}");
    }

    let words = "policy set stripe --ratio-per-mille 200 --cost unknown-outcome=2000 --lease 500ms";
    assert_eq!(json_of(&node, words, 0), json!({ "version": 1, "replaced_version": 0 }));
    assert_eq!(json_of(&node, "policy set stripe --retry-layer edge", 0)["version"], 2);
    let set = json_of(&node, "policy get stripe", 0);
    assert_eq!((&set["version"], &set["actor"]), (&json!(2), &json!("tester")));
    assert_eq!(set["policy"]["ratio_per_mille"], 200);
    assert_eq!(set["policy"]["costs_milli"]["UNKNOWN_OUTCOME"], 2_000);
    assert_eq!(set["policy"]["retry_layer"], "edge");
    assert_eq!(set["policy"]["lease_ms"], 500);

    let stale = "policy set stripe --retries-per-root 0 --expected-version 1";
    assert_eq!(json_of(&node, stale, 1)["error"]["reason"], "POLICY_CONFLICT");
    let wrong = json_of(&node, "policy set stripe --ratio-per-mille 1001", 2);
    assert_eq!(wrong["error"]["reason"], "POLICY_INVALID");
    assert_eq!(json_of(&node, "policy get stripe", 0), set, "nothing was written");

    assert_eq!(json_of(&node, "policy set stripe --from-defaults", 0)["version"], 3);
    assert_eq!(json_of(&node, "policy get stripe", 0)["policy"], default["policy"]);
}

#[test]
fn budgets_come_page_by_page() {
    let node = Node::start(&[]);
    assert_eq!(json_of(&node, "list", 0), json!({ "budgets": [], "next_page_token": "" }));
    for name in ["a", "b", "c"] {
        json_of(&node, &format!("policy set {name} --floor-per-second 7"), 0);
    }
    let names = |page: &Value| -> Vec<String> {
        let budgets = page["budgets"].as_array().unwrap().iter();
        budgets.map(|budget| budget["dependency"].as_str().unwrap().to_owned()).collect()
    };
    let first = json_of(&node, "list --limit 2", 0);
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first["budgets"][0]["policy_version"], 1);
    let token = first["next_page_token"].as_str().unwrap();
    let rest = json_of(&node, &format!("list --page-token {token}"), 0);
    assert_eq!((names(&rest), &rest["next_page_token"]), (vec!["c".to_owned()], &json!("")));

    let table = ran(&node, "list --limit 2").ended_with(0).out;
    assert!(table.starts_with("DEPENDENCY  AVAILABLE"), "{table}");
    assert!(table.contains("--page-token"), "{table}");
}

#[tokio::test]
async fn a_budget_shows_what_its_node_granted() {
    let node = Node::start(&[]);
    let mut retries = RetriesClient::new(node.connect().await);
    let deposits =
        Deposits { reporter: vec![1; 16].into(), seq: 1, requests: 50, ..<_>::default() };
    let request = AcquireRetryTokenRequest {
        tenant: "acme".to_owned(),
        dependency: "stripe".to_owned(),
        request_id: vec![7; 16].into(),
        failure: Some(Failure { kind: FailureKind::NotSent.into(), server_delay: None }),
        attempt: 1,
        deposits: Some(deposits),
        ..<_>::default()
    };
    let reply = retries.acquire_retry_token(request.clone()).await.unwrap().into_inner();
    assert_eq!(reply.verdict(), RetryVerdict::Granted);
    let unsafe_one = AcquireRetryTokenRequest {
        request_id: vec![8; 16].into(),
        failure: Some(Failure { kind: FailureKind::UnknownOutcome.into(), server_delay: None }),
        deposits: None,
        ..request
    };
    let reply = retries.acquire_retry_token(unsafe_one).await.unwrap().into_inner();
    assert_eq!(reply.verdict(), RetryVerdict::Unsafe);

    let got = json_of(&node, "get stripe", 0);
    assert_eq!(got["budget"]["dependency"], "stripe");
    assert_eq!((&got["node"]["granted"], &got["node"]["requests"]), (&json!(1), &json!(50)));
    assert_eq!(got["node"]["denials"], json!({ "UNSAFE": 1 }));
    assert_eq!(
        (&got["node"]["mode"], &got["policy"]["attempts_max"]),
        (&json!("NORMAL"), &json!(3))
    );
    let shown = ran(&node, "get stripe").ended_with(0).out;
    assert!(
        shown.contains("AVAILABLE  stripe") && shown.contains("10 % of first attempts"),
        "{shown}"
    );
}

#[test]
fn a_command_that_makes_no_sense_or_reaches_nobody_says_so_by_its_code() {
    let node = Node::start(&[]);
    for words in ["get", "policy", "policy set stripe --window soon", "list --limit x"] {
        let ran = ran(&node, words).ended_with(2);
        assert!(ran.err.contains("error") || ran.err.contains("Usage"), "{words}: {ran:?}");
    }
    let invalid = json_of(&node, "get stri/pe?", 2);
    assert_eq!(invalid["error"]["reason"], "DEPENDENCY_INVALID");
    let url = node.url.clone();
    drop(node);
    let gone = run_at(&url, "budgets list --json").ended_with(3).json();
    assert_eq!(gone["error"]["code"], "UNREACHABLE");
}
