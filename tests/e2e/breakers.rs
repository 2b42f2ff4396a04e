//! Every command of `semel breakers`, for people and for scripts, with its exit code.

use std::io::{BufRead, BufReader, Lines};
use std::process::{ChildStderr, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::support::command::{Ran, run_at, semel};
use crate::support::node::{Home, Node, Process};

fn json_of(node: &Node, words: &str, code: i32) -> Value {
    ran(node, &format!("{words} --json")).ended_with(code).json()
}

fn ran(node: &Node, words: &str) -> Ran {
    run_at(&node.url, &format!("breakers {words}"))
}

/// A watch that is under way.
struct Watch {
    process: Process,
    changes: Lines<BufReader<ChildStdout>>,
    notes: Lines<BufReader<ChildStderr>>,
}

impl Watch {
    fn start(node: &Node, names: &[&str]) -> Self {
        let mut command = semel();
        command.args(["breakers", "watch", "--json", "--tenant", "acme", "--target", &node.url]);
        command.args(names).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Process(command.spawn().unwrap());
        let changes = BufReader::new(process.0.stdout.take().unwrap()).lines();
        let notes = BufReader::new(process.0.stderr.take().unwrap()).lines();
        Self { process, changes, notes }
    }

    /// The next change: the breaker's name, where it stands, and its override.
    fn next(&mut self) -> (String, String, Value) {
        let line = self.changes.next().expect("the watch ended").unwrap();
        let change: Value = serde_json::from_str(&line).unwrap();
        let text = |name: &str| change["breaker"][name].as_str().unwrap().to_owned();
        (text("dependency"), text("condition"), change["breaker"]["override"]["kind"].clone())
    }

    fn note(&mut self) -> String {
        self.notes.next().expect("the watch ended").unwrap()
    }

    /// Ends it as Ctrl-C does.
    fn interrupt(mut self) -> i32 {
        let pid = self.process.0.id().to_string();
        assert!(
            Command::new("sh").args(["-c", "kill -s INT $0", &pid]).status().unwrap().success()
        );
        self.process.0.wait().unwrap().code().unwrap()
    }
}

fn stands(name: &str, condition: &str, force: Value) -> (String, String, Value) {
    (name.to_owned(), condition.to_owned(), force)
}

#[test]
fn what_is_forced_is_watched_listed_and_taken_away() {
    let node = Node::start(&[]);
    let mut watch = Watch::start(&node, &["stripe"]);
    assert_eq!(watch.next(), stands("stripe", "CLOSED", Value::Null));

    let forced = json_of(&node, "force-open stripe --for 10m --reason maintenance", 0);
    assert_eq!(forced["breaker"]["condition"], "OPEN");
    assert_eq!(forced["breaker"]["override"]["actor"], "tester");
    assert!(forced["breaker"]["override"]["expires_at"].is_string());
    assert_eq!(watch.next(), stands("stripe", "OPEN", json!("FORCED_OPEN")));
    let listed = json_of(&node, "list --condition open", 0);
    assert_eq!(listed["breakers"][0]["dependency"], "stripe");
    assert_eq!(json_of(&node, "list --condition half-open", 0)["breakers"], json!([]));

    json_of(&node, "metrics-only stripe --reason looking", 0);
    assert_eq!(watch.next(), stands("stripe", "CLOSED", json!("METRICS_ONLY")));
    json_of(&node, "force-close stripe --reason alarm", 0);
    assert_eq!(watch.next(), stands("stripe", "CLOSED", json!("FORCED_CLOSED")));
    json_of(&node, "reset stripe --reason over", 0);
    assert_eq!(watch.next(), stands("stripe", "CLOSED", Value::Null));
    let got = json_of(&node, "get stripe", 0);
    assert_eq!((&got["breaker"]["condition"], &got["degraded"]), (&json!("CLOSED"), &json!(false)));
    assert_eq!(watch.interrupt(), 0);

    let shown = ran(&node, "force-open stripe --reason again").ended_with(0).out;
    assert!(
        shown.starts_with("OPEN  stripe\n") && shown.contains("until it is taken away"),
        "{shown}"
    );
    let table = ran(&node, "list").ended_with(0).out;
    assert!(table.starts_with("DEPENDENCY  CONDITION"), "{table}");
    let short = json_of(&node, "force-open stripe --for 10ms --reason r", 2);
    assert_eq!(short["error"]["code"], "INVALID_ARGUMENT");
}

#[test]
fn a_watch_outlives_its_node() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut home = Home::new(&[]);
    home.listen = format!("127.0.0.1:{port}");
    let node = home.start();
    let none = json_of(&node, "watch", 2);
    assert!(none["error"]["message"].as_str().unwrap().contains("no breakers"), "{none}");
    json_of(&node, "force-open stripe --reason r", 0);
    json_of(&node, "force-open paypal --reason r", 0);

    let mut watch = Watch::start(&node, &[]);
    assert_eq!(watch.note(), "watching 2 breakers");
    let mut names = [watch.next().0, watch.next().0];
    names.sort();
    assert_eq!(names, ["paypal", "stripe"]);
    let home = node.kill();
    assert!(watch.note().contains("asking again"));
    let node = home.start();
    assert_eq!(watch.note(), "the node is back");
    json_of(&node, "reset stripe --reason over", 0);
    assert_eq!(watch.next(), stands("stripe", "CLOSED", Value::Null));
    assert_eq!(watch.interrupt(), 0);
}

#[test]
fn a_policy_keeps_what_is_not_named_and_never_undoes_anothers_change() {
    let node = Node::start(&[]);
    let default = json_of(&node, "policy get stripe", 0);
    let expected = json!({
        "failure_per_mille": 500, "window_ms": 30_000, "calls_min": 20, "cool_down_ms": 30_000,
        "cool_down_max_ms": 300_000, "probes_max": 1, "successes_to_close": 3,
        "probe_lease_ms": 10_000, "ramp_step_ms": 5_000, "slow_per_mille": 1_000,
    });
    assert_eq!((&default["version"], &default["policy"]), (&json!(0), &expected));
    let words = "policy set stripe --failure-per-mille 300 --slow-call 2s --ramp-step 0s";
    assert_eq!(json_of(&node, words, 0)["version"], 1);
    assert_eq!(json_of(&node, "policy set stripe --slow-call off --calls-min 50", 0)["version"], 2);
    let set = json_of(&node, "policy get stripe", 0);
    assert_eq!((&set["version"], &set["actor"]), (&json!(2), &json!("tester")));
    assert_eq!(set["policy"]["failure_per_mille"], 300);
    assert_eq!(
        (&set["policy"]["calls_min"], &set["policy"]["ramp_step_ms"]),
        (&json!(50), &json!(0))
    );
    assert_eq!(set["policy"].get("slow_call_ms"), None);
    let stale = json_of(&node, "policy set stripe --window 1m --expected-version 1", 1);
    assert_eq!(stale["error"]["reason"], "POLICY_CONFLICT");
    assert_eq!(json_of(&node, "policy get stripe", 0), set, "nothing was written");
}
