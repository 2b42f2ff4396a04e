//! Every command of `semel keys`, for people and for scripts, with its exit code.

use serde_json::Value;

use crate::support::command::{Ran, run, run_at};
use crate::support::node::{Home, Node};

/// A node, and the commands that speak to it.
struct Shell {
    node: Node,
}

impl Shell {
    fn new() -> Self {
        Self { node: Home::new(&["--grant-bodies"]).start() }
    }

    /// `semel keys` with these words, about the tenant of these tests.
    fn keys(&self, words: &str) -> Ran {
        run_at(&self.node.url, &format!("keys {words}"))
    }

    /// The same as a script would ask.
    fn json(&self, words: &str, code: i32) -> Value {
        self.keys(&format!("{words} --json")).ended_with(code).json()
    }

    /// Claims a key, and gives the words that the holder says from then on.
    fn claimed(&self, key: &str, more: &str) -> (u64, String) {
        let claim = self.json(&format!("claim op {key} --payload p{more}"), 0);
        let fence = claim["fence"].as_u64().unwrap();
        let owner = claim["owner"].as_str().unwrap();
        (fence, format!("op {key} --fence {fence} --owner {owner}"))
    }
}

#[test]
fn a_key_from_its_claim_to_its_answer() {
    let shell = Shell::new();
    let claim = shell.json("claim op k --payload p --label region=eu", 0);
    assert_eq!(claim["disposition"], "CLAIMED");
    let (fence, owner) = (claim["fence"].as_u64().unwrap(), claim["owner"].as_str().unwrap());
    let holder = format!("op k --fence {fence} --owner {owner}");

    let repeated = shell.json(&format!("claim op k --payload p --owner {owner}"), 0);
    assert_eq!((&repeated["fence"], &repeated["resumed"]), (&fence.into(), &true.into()));
    let busy = shell.json("claim op k --payload p", 1);
    assert_eq!(busy["disposition"], "IN_PROGRESS");
    assert!(busy["retry_after_ms"].as_u64().is_some());
    assert_eq!(shell.json("replay op k --payload p", 1)["state"], "CLAIMED");

    let renewed = shell.json(&format!("renew {holder} --lease 5m --checkpoint half"), 0);
    assert_eq!(renewed["stale"], false);
    let stale = shell.json(&format!("renew {holder} --renewal 1"), 0);
    assert_eq!(stale["stale"], true);

    let complete = format!("complete {holder} --outcome succeeded --status 201 --body charged");
    let completed = shell.json(&complete, 0);
    assert_eq!(
        (&completed["state"], &completed["already_completed"]),
        (&"SUCCEEDED".into(), &false.into())
    );
    assert_eq!(shell.json(&complete, 0)["already_completed"], true);
    let other = format!("complete {holder} --outcome succeeded --status 201 --body other");
    assert_eq!(shell.json(&other, 1)["error"]["reason"], "COMPLETION_CONFLICT");

    let replay = shell.json("claim op k --payload p", 10);
    assert_eq!(replay["completion"]["response"]["body"], "charged");
    assert_eq!(shell.json("replay op k --payload p", 0)["completion"], replay["completion"]);
    assert_eq!(
        shell.json("claim op k --payload other", 1)["error"]["reason"],
        "KEY_PAYLOAD_MISMATCH"
    );
    assert_eq!(shell.json("replay op k --payload other", 1)["error"]["reason"], "KEY_UNKNOWN");

    let got = shell.json("get op k --include-body", 0);
    assert_eq!(got["key"]["labels"]["region"], "eu");
    assert_eq!(got["key"]["completion"]["response"]["body"], "charged");
    let listed = shell.json("list --state succeeded --label region=eu", 0);
    assert_eq!(listed["keys"][0]["key"], "k");
    assert_eq!(shell.json("list --state claimed", 0)["keys"], Value::Array(Vec::new()));

    let forgotten = shell.json("forget op k --reason asked", 0);
    assert_eq!(forgotten["already_forgotten"], false);
    assert_eq!(shell.json("forget op k --reason asked", 0)["already_forgotten"], true);
    assert_eq!(shell.json("claim op k --payload p", 1)["error"]["reason"], "KEY_EXPIRED");
    assert_eq!(shell.json("get op k", 0)["key"]["audit"][0]["actor"], "tester");
}

#[test]
fn a_claim_given_back_goes_to_the_next() {
    let shell = Shell::new();
    let (first, holder) = shell.claimed("k", "");
    assert_eq!(shell.json(&format!("release {holder}"), 0)["already_released"], false);
    assert_eq!(shell.json(&format!("release {holder}"), 0)["already_released"], true);
    let late = holder.split(' ').next_back().unwrap();
    let copy = shell.json(&format!("claim op k --payload p --owner {late}"), 1);
    assert_eq!(copy["disposition"], "RELEASED");

    let (second, holder) = shell.claimed("k", "");
    assert!(second > first);
    let retryable = shell.json(&format!("complete {holder} --outcome failed-retryable"), 0);
    assert_eq!(retryable["state"], "RELEASED");
    let (third, _) = shell.claimed("k", "");
    assert!(third > second);
    let fenced = shell.json(&format!("complete {holder} --outcome succeeded"), 1);
    assert_eq!(fenced["error"]["reason"], "FENCED");
}

#[test]
fn a_key_whose_outcome_is_unknown_is_settled_by_an_operator() {
    let shell = Shell::new();
    let (fence, holder) = shell.claimed("k", " --on-owner-lost block");
    let settle = format!(
        "reconcile op k --fence {fence} --resolution succeeded --body seen --reason looked"
    );
    assert_eq!(shell.json(&settle, 1)["error"]["reason"], "CLAIM_LIVE");
    assert_eq!(shell.json("forget op k --reason asked", 1)["error"]["reason"], "KEY_NOT_COMPLETED");

    let unknown = shell.json(&format!("complete {holder} --outcome indeterminate"), 0);
    assert_eq!(unknown["state"], "INDETERMINATE");
    assert_eq!(shell.json("claim op k --payload p", 1)["disposition"], "INDETERMINATE");
    assert_eq!(shell.json("stuck", 0)["keys"][0]["key"], "k");
    assert_eq!(shell.json(&settle, 0)["already_settled"], false);
    assert_eq!(shell.json(&settle, 0)["already_settled"], true);
    assert_eq!(shell.json("stuck", 0)["keys"], Value::Array(Vec::new()));
    let replay = shell.json("claim op k --payload p", 10);
    assert_eq!(replay["completion"]["response"]["body"], "seen");
}

#[test]
fn the_next_owner_of_a_lapsed_claim_looks_first() {
    let shell = Shell::new();
    let (lost, _) = shell.claimed("k", " --lease 100ms");
    let next = shell.json("claim op k --payload p --wait 10s", 11);
    assert_eq!(next["disposition"], "RECONCILE_REQUIRED");
    assert!(next["fence"].as_u64() > Some(lost));
    assert_eq!(next["history"][0]["end"], "LAPSED");
}

#[test]
fn people_read_an_answer_a_meaning_and_the_next_command() {
    let shell = Shell::new();
    let claim = shell.keys("claim op k --payload p").ended_with(0);
    assert!(claim.out.starts_with("CLAIMED  "), "{claim:?}");
    let command = claim.out.lines().find(|line| line.contains(" keys complete ")).unwrap();
    let completed = std::process::Command::new("sh").args(["-c", command]).output().unwrap();
    assert!(Ran::from(completed).ended_with(0).out.starts_with("SUCCEEDED  "));

    let cases = [
        ("claim op k --payload p", 10, "REPLAY  "),
        ("replay op k --payload p", 0, "SUCCEEDED  "),
        ("get op k", 0, "SUCCEEDED  k"),
        ("list", 0, "OPERATION  KEY"),
        ("stuck", 0, "no keys"),
        ("forget op k --reason asked", 0, "FORGOTTEN  "),
    ];
    for (words, code, beginning) in cases {
        let ran = shell.keys(words).ended_with(code);
        assert!(ran.out.starts_with(beginning), "{words}: {ran:?}");
        assert!(!ran.out.contains('\u{1b}'), "no colours into a pipe: {ran:?}");
    }

    let (fence, holder) = shell.claimed("l", "");
    let cases = [
        (format!("renew {holder}"), 0, "RENEWED  "),
        (format!("release {holder}"), 0, "RELEASED  "),
        (format!("reconcile op l --fence {fence} --resolution not-done --reason r"), 1, ""),
        ("claim op k --payload p".to_owned(), 1, ""),
    ];
    for (words, code, beginning) in cases {
        let ran = shell.keys(&words).ended_with(code);
        assert!(ran.out.starts_with(beginning), "{words}: {ran:?}");
        let explained = ran.err.starts_with("error: ") && ran.err.contains("next: ");
        assert_eq!(code != 0, explained, "{words}: {ran:?}");
    }
}

#[test]
fn a_command_that_makes_no_sense_says_which_part() {
    let shell = Shell::new();
    let blank = run(&[
        "keys",
        "claim",
        "op",
        " ",
        "--payload",
        "p",
        "--tenant",
        "acme",
        "--json",
        "--target",
        &shell.node.url,
    ]);
    let blank = blank.ended_with(2).json();
    assert_eq!(blank["error"]["reason"], "KEY_INVALID");
    assert_eq!(blank["error"]["fields"][0]["field"], "key");
    for words in ["claim op k", "claim op k --payload p --lease soon", "complete op k", "nonsense"]
    {
        let ran = shell.keys(words).ended_with(2);
        assert!(ran.err.contains("error"), "{words}: {ran:?}");
    }
}

#[test]
fn without_a_node_a_claim_says_how_to_ask_again() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let target = format!("http://127.0.0.1:{port}");
    let arguments =
        ["keys", "claim", "op", "k", "--payload", "p", "--tenant", "t", "--target", &target];
    let ran = run(&arguments).ended_with(3);
    assert!(ran.err.contains("no node answers") && ran.err.contains("serve"), "{ran:?}");
    let json = run(&[&arguments[..], &["--json"]].concat()).ended_with(3).json();
    assert_eq!(json["error"]["code"], "UNREACHABLE");
}
