//! The examples of the client as processes of their own, killed where it hurts.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use semel_client::local;
use tempfile::TempDir;
use tokio::task::block_in_place;

use crate::local::Database;
use crate::postgres::{Postgres, skip};
use crate::support::node::{Node, Process};

/// An example, and the settings of its processes.
struct Example {
    program: PathBuf,
    settings: Vec<(&'static str, String)>,
}

impl Example {
    /// An example against a node, or `None` and a note of the skip if this build did not make it.
    fn new(name: &str, node: &Node) -> Option<Self> {
        let folder = Path::new(env!("CARGO_BIN_EXE_semel")).with_file_name("examples");
        let program = folder.join(name);
        if !program.exists() {
            skip(&format!("the example {name}: it is not built"));
            return None;
        }
        Some(Self { program, settings: vec![("SEMEL_TARGET", node.url.clone())] })
    }

    fn with(&self, name: &'static str, value: &str) -> Self {
        let mut settings = self.settings.clone();
        settings.push((name, value.to_owned()));
        Self { program: self.program.clone(), settings }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words).envs(self.settings.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs it to its end, and gives what it said.
    fn run(&self, words: &[&str]) -> String {
        let output = self.command(words).output().unwrap();
        let (said, complained) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert!(output.status.success(), "{words:?}: {said}{complained}");
        said
    }

    /// Starts it, and gives the line that it says once it is there.
    fn start(&self, words: &[&str]) -> (Process, String) {
        let mut process = Process(self.command(words).stdout(Stdio::piped()).spawn().unwrap());
        let mut lines = BufReader::new(process.0.stdout.take().unwrap()).lines();
        let mut before = Vec::new();
        while let Some(Ok(line)) = lines.next() {
            if line.starts_with("stopped at ") || line.starts_with("127.0.0.1:") {
                return (process, line);
            }
            before.push(line);
        }
        panic!("{words:?} ended before it was there: {before:?}")
    }

    /// Runs it up to a step, and kills it there.
    fn killed_at(&self, step: &str, words: &[&str]) {
        let (process, line) = self.with("SEMEL_EXAMPLE_STOP_AT", step).start(words);
        assert_eq!(line, format!("stopped at {step}"));
        drop(process);
    }
}

#[test]
fn a_worker_that_is_killed_after_the_provider_answered_leaves_one_charge() {
    let node = Node::start(&[]);
    let Some(example) = Example::new("external_provider", &node) else { return };
    for remembers_s in ["3600", "0"] {
        let (_provider, address) = example.start(&["provider", remembers_s]);
        let worker = example
            .with("SEMEL_EXAMPLE_PROVIDER", &address)
            .with("SEMEL_EXAMPLE_WINDOW_S", remembers_s);
        let order = |name: &str| format!("{name}-{remembers_s}");

        // All are lost, and wait for their leases to lapse together; the last of them lapses last.
        let [recovered, unsent, looked_for] = ["recovered", "unsent", "looked-for"].map(order);
        worker.killed_at("provider-answered", &["worker", &recovered]);
        worker.killed_at("pending-recorded", &["worker", &unsent]);
        worker.killed_at("provider-answered", &["worker", &looked_for]);
        assert_eq!(worker.run(&["count"]), "charges: 2\n");

        // The next worker comes before the recovery: it looks, and asks nobody to charge.
        let next = worker.run(&["worker", &looked_for]);
        assert!(next.contains("looking for") && next.contains("Stored"), "{next}");
        assert_eq!(worker.run(&["count"]), "charges: 2\n");

        // Of what was not sent nobody may know whether a charge still comes, and a second one would count.
        let is_safe = remembers_s != "0";
        let (settled, then, charges) =
            if is_safe { (2, "Ran", 3) } else { (1, "Unknown(WorkSaidSo)", 2) };
        let said = worker.run(&["recovery"]);
        assert!(said.contains(&format!("settled {settled}, unclear {}", 2 - settled)), "{said}");
        let again = worker.run(&["worker", &recovered]);
        assert!(again.contains("Replayed") && again.contains("charge 0"), "{again}");
        let next = worker.run(&["worker", &unsent]);
        assert!(next.contains(then), "{next}");
        assert_eq!(worker.run(&["count"]), format!("charges: {charges}\n"));
    }
    node.assert_calm();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn effects_happen_once_wherever_their_processes_are_killed() {
    let node = block_in_place(|| Node::start(&[]));
    let postgres = block_in_place(|| Postgres::start("the examples", &["fsync=off"]));
    let Some(postgres) = postgres else { return };
    let database = Database::connect(&postgres).await;
    database.client.batch_execute(local::MIGRATION).await.unwrap();
    if let Some(example) = Example::new("queue_consumer", &node) {
        let example = example.with("SEMEL_EXAMPLE_DATABASE", &postgres.url());
        each_event_has_its_effect_once(&example, &database).await;
    }
    if let Some(example) = Example::new("outbox", &node) {
        let example = example.with("SEMEL_EXAMPLE_DATABASE", &postgres.url());
        each_message_is_published_once(&example, &database).await;
    }
    node.assert_calm();
}

async fn each_event_has_its_effect_once(example: &Example, database: &Database) {
    block_in_place(|| example.run(&["fill", "4"]));
    for step in ["fetched", "claimed", "written", "committed", "completed", "acknowledged"] {
        block_in_place(|| example.killed_at(step, &[]));
        let doubles = "SELECT count(*) - count(DISTINCT event) FROM example_effects";
        assert_eq!(database.count(doubles).await, 0, "killed when {step}");
    }
    let said = block_in_place(|| example.run(&[]));
    assert!(said.ends_with("the queue is empty\n"), "{said}");
    assert_eq!(database.count("SELECT count(*) FROM example_effects").await, 4);
    assert_eq!(database.count("SELECT count(DISTINCT event) FROM example_effects").await, 4);
}

async fn each_message_is_published_once(example: &Example, database: &Database) {
    let folder = TempDir::with_prefix("semel-topic-").unwrap();
    let topic = folder.path().join("topic");
    let example = example.with("SEMEL_EXAMPLE_TOPIC", topic.to_str().unwrap());
    block_in_place(|| {
        example.run(&["tables"]);
        example.killed_at("written", &["order", "first"]);
        for (name, said) in [
            ("first", "first is placed\n"),
            ("first", "first was placed before\n"),
            ("second", "second is placed\n"),
            ("third", "third is placed\n"),
        ] {
            assert_eq!(example.run(&["order", name]), said);
        }
        example.killed_at("published", &["relay"]);
        example.killed_at("completed", &["relay"]);
        // Two side by side.
        let mut relay = Process(example.command(&["relay"]).spawn().unwrap());
        let said = example.run(&["relay"]);
        assert!(said.ends_with("the outbox is empty\n"), "{said}");
        assert!(relay.0.wait().unwrap().success());
    });
    for table in ["example_orders", "example_outbox"] {
        assert_eq!(database.count(&format!("SELECT count(*) FROM {table}")).await, 3);
    }
    let topic = std::fs::read_to_string(topic).unwrap();
    let keys: BTreeSet<&str> = topic.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!((topic.lines().count(), keys.len()), (3, 3), "{topic}");
    for name in ["first", "second", "third"] {
        assert!(topic.contains(&format!(" placed {name}\n")), "{topic}");
    }
}

/// Experiment E5: three layers of three attempts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_to_a_model_that_is_down_is_called_27_times() {
    let node = block_in_place(|| Node::start(&[]));
    let Some(example) = Example::new("llm_fanout", &node) else { return };
    let said = block_in_place(|| example.run(&[]));
    println!("{said}");
    assert!(said.contains("a loop of 3 attempts in each layer: 27 calls"), "{said}");
    let calls = said.lines().find_map(|line| {
        line.strip_prefix("behind the layers: ")?.strip_suffix(" calls")?.parse::<u32>().ok()
    });
    assert!((1..=3).contains(&calls.expect("it says how many")), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn around_reqwest_a_bad_answer_is_asked_for_again_and_the_deadline_goes_along() {
    let node = block_in_place(|| Node::start(&[]));
    let Some(example) = Example::new("reqwest", &node) else { return };
    let said = block_in_place(|| example.run(&[]));
    println!("{said}");
    let lines: Vec<&str> = said.lines().collect();
    let [bad, good, call] = lines[..] else { panic!("three lines: {said}") };
    let left = |line: &str, number: u32, status: &str| -> u64 {
        let line = line.strip_prefix(&format!("request {number}: x-deadline-ms: ")).expect(&said);
        line.strip_suffix(&format!(", answered {status}")).expect(&said).parse().expect(&said)
    };
    let limits = 1..=2_000;
    assert!(limits.contains(&left(bad, 61, "502 Bad Gateway")), "{said}");
    assert!(limits.contains(&left(good, 62, "200 OK")), "{said}");
    assert_eq!(call, "call 61: 200 OK: an answer");
}
