//! The settings of a node: the file, what outranks it, and a database as the store.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use semel_proto::v1::claim_key_response::Disposition;
use semel_proto::v1::keys_client::KeysClient;
use serde_json::Value;
use tempfile::TempDir;

use self::postgres::Postgres;
use crate::support::ask::{claim, complete, owner, reason, replayed_body};
use crate::support::command::{Ran, semel};
use crate::support::node::Process;

#[path = "../../crates/store-postgres/tests/support/postgres.rs"]
#[allow(clippy::print_stderr, reason = "it says what it skips")]
mod postgres;

/// A folder to start commands in.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(TempDir::with_prefix("semel-config-").unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).unwrap();
        name.to_owned()
    }

    fn semel(&self, words: &[&str]) -> Command {
        let mut command = semel();
        command.current_dir(self.0.path()).args(words);
        command
    }

    fn run(&self, words: &[&str]) -> Ran {
        Ran::from(self.semel(words).output().unwrap())
    }

    /// A node that is started so, and the lines that it says until it is ready.
    fn serve(&self, words: &[&str]) -> (Process, Vec<String>) {
        started(self.semel(&[&["serve"], words].concat()))
    }
}

fn started(mut serve: Command) -> (Process, Vec<String>) {
    serve.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut node = Process(serve.spawn().unwrap());
    let mut lines = BufReader::new(node.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut said = Vec::new();
    for line in lines.by_ref() {
        let ready = line.contains("Ctrl-C") || line.starts_with('{');
        said.push(line);
        if ready {
            break;
        }
    }
    (node, said)
}

/// What a node said with `--json`.
fn json(said: &[String]) -> Value {
    assert_eq!(said.len(), 1, "{said:?}");
    serde_json::from_str(&said[0]).unwrap()
}

async fn keys(said: &Value) -> KeysClient<tonic::transport::Channel> {
    let address = said["listening"].as_str().unwrap_or_else(|| panic!("it said {said}"));
    KeysClient::connect(format!("http://{address}")).await.unwrap()
}

#[test]
fn the_example_is_a_good_file_and_changes_nothing() {
    let folder = Folder::new();
    let example = folder.run(&["config", "example"]).ended_with(0).out;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/semel.toml");
    assert_eq!(example, std::fs::read_to_string(file).unwrap());

    folder.write("semel.toml", &example);
    let checked = folder.run(&["config", "check"]).ended_with(0);
    assert!(checked.out.starts_with("OK  ./semel.toml sets 44 settings"), "{checked:?}");
    let told = |line: &str| line.split_whitespace().eq(["serve.listen", "127.0.0.1:7450"]);
    assert!(checked.out.lines().any(told), "{checked:?}");
}

#[test]
fn a_good_file_is_told_without_its_password() {
    let folder = Folder::new();
    folder.write(
        "good.toml",
        "[serve]\nstore = \"postgres://semel:hunter2@db.internal/semel\"\nworkers = 3\n",
    );
    let checked = folder.run(&["config", "check", "good.toml"]).ended_with(0);
    assert!(checked.out.contains("PostgreSQL (schema semel)"), "{checked:?}");
    let told = folder.run(&["config", "check", "good.toml", "--json"]).ended_with(0);
    assert_eq!(
        told.json()["settings"],
        serde_json::json!({ "serve.store": "PostgreSQL (schema semel)", "serve.workers": 3 })
    );
    assert!(!format!("{checked:?}{told:?}").contains("hunter2"));
}

#[test]
fn a_bad_file_is_explained_whole_and_starts_nothing() {
    let folder = Folder::new();
    folder.write(
        "bad.toml",
        "[serve]\nlisen = '127.0.0.1:0'\nstore = \"postgres://semel:hunter2@db:port/semel\"\n\n\
         [keys]\nretention = \"1s\"\nwaiters = many\n",
    );
    let told = folder.run(&["config", "check", "bad.toml", "--json"]).ended_with(2);
    let problems = told.json()["error"]["problems"].clone();
    let places: Vec<(u64, u64, &str)> = problems
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| {
            let number = |name: &str| problem[name].as_u64().unwrap();
            (number("line"), number("column"), problem["key"].as_str().unwrap_or_default())
        })
        .collect();
    let expected =
        [(2, 1, "serve.lisen"), (3, 9, "serve.store"), (6, 13, "keys.retention"), (7, 11, "")];
    assert_eq!(places, expected, "{told:?}");
    assert_eq!(problems[0]["did_you_mean"], "listen");
    assert!(problems[2]["allowed"].as_str().unwrap().contains("1m to 720h"), "{problems}");

    for words in [["config", "check", "bad.toml"], ["serve", "--config", "bad.toml"]] {
        let ran = folder.run(&words).ended_with(2);
        assert!(ran.err.contains("bad.toml has 4 problems"), "{ran:?}");
        assert!(ran.err.contains("line 2, column 1: serve.lisen: "), "{ran:?}");
        assert!(!format!("{ran:?}{told:?}").contains("hunter2"));
    }
    assert!(!folder.path("semel-data").exists(), "a refused node leaves nothing behind");
    let missing = folder.run(&["config", "check"]).ended_with(2);
    assert!(missing.err.contains("there is no ./semel.toml"), "{missing:?}");
}

#[test]
fn options_outrank_variables_and_those_the_file() {
    // Whether the file is there, the variables, the options, and where the data is then.
    type Case<'a> = (bool, &'a [(&'a str, &'a str)], &'a [&'a str], &'a str);
    let cases: [Case<'_>; 7] = [
        (false, &[], &[], "./semel-data"),
        (true, &[], &[], "by-file"),
        (true, &[("SEMEL_DATA", "by-variable")], &[], "by-variable"),
        (true, &[("SEMEL_DATA", "by-variable")], &["--data", "by-option"], "by-option"),
        (true, &[("SEMEL_STORE", "embedded:by-store")], &["--data", "by-option"], "by-option"),
        (true, &[("SEMEL_CONFIG", "other.toml")], &[], "by-other"),
        (true, &[("SEMEL_CONFIG", "other.toml")], &["--config", "./semel.toml"], "by-file"),
    ];
    for (has_file, variables, options, expected) in cases {
        let folder = Folder::new();
        folder.write("other.toml", "[serve]\ndata = 'by-other'\n");
        if has_file {
            folder.write("semel.toml", "[serve]\ndata = 'by-file'\n");
        }
        let words = ["serve", "--json", "--listen", "127.0.0.1:0"];
        let mut serve = folder.semel(&[&words, options].concat());
        serve.envs(variables.iter().copied());
        let (_node, said) = started(serve);
        assert_eq!(json(&said)["data"], expected, "{has_file} {variables:?} {options:?}");
        assert!(folder.path(expected).is_dir());
    }
}

#[tokio::test]
async fn a_node_is_as_its_file_says() {
    let folder = Folder::new();
    let file = folder.write(
        "node.toml",
        "[serve]\nlisten = '127.0.0.1:0'\nlog_format = 'json'\n[keys]\nrequire_first_sent = true\n",
    );
    let (_node, said) = folder.serve(&["--json", "--config", &file]);
    let said = json(&said);
    assert_eq!(said["config"], "node.toml");
    let refused = keys(&said).await.claim_key(claim("k", owner(1))).await.unwrap_err();
    assert_eq!(reason(&refused), "FIRST_SENT_INVALID");
}

#[test]
fn a_store_in_a_directory_has_nothing_to_migrate() {
    let folder = Folder::new();
    for words in [&["migrate"][..], &["migrate", "--store", "embedded:data", "--status"]] {
        let refused = folder.run(words).ended_with(2);
        assert!(refused.err.contains("needs no migrations"), "{refused:?}");
        assert!(refused.err.contains("--store postgres://"), "{refused:?}");
    }
}

#[test]
fn a_database_that_does_not_answer_is_told_without_its_password() {
    let folder = Folder::new();
    let url = "postgres://semel:hunter2@127.0.0.1:1/semel";
    for words in [&["migrate", "--status"][..], &["migrate"], &["serve", "--listen", "127.0.0.1:0"]]
    {
        let mut command = folder.semel(words);
        let refused = Ran::from(command.env("SEMEL_STORE", url).output().unwrap()).ended_with(4);
        assert!(refused.err.contains("PostgreSQL (schema semel) would not open"), "{refused:?}");
        assert!(!format!("{refused:?}").contains("hunter2"));
    }
}

#[tokio::test]
async fn nodes_on_machines_of_their_own_share_a_database() {
    let Some(server) = Postgres::start("semel migrate and a cluster of nodes", &[]) else { return };
    let url = server.url().replace("semel@", "semel:hunter2@");
    let folder = Folder::new();
    folder.write("url", &format!("{url}\n"));
    folder.write("by-hand.toml", "[serve]\nstore_file = 'url'\n[postgres]\nmigrate = false\n");

    // The tables are missing, and the node was told not to make them.
    let by_hand = ["--config", "by-hand.toml"];
    let listen = ["--listen", "127.0.0.1:0"];
    let status = folder.run(&[&["migrate", "--status"], &by_hand[..]].concat()).ended_with(1);
    assert!(status.out.starts_with("MIGRATIONS MISSING  "), "{status:?}");
    let refused = folder.run(&[&["serve"], &by_hand[..], &listen].concat()).ended_with(4);
    assert!(refused.err.contains("run the migrations"), "{refused:?}");

    let migrated = folder.run(&["migrate", "--json", "--store", &url]).ended_with(0).json();
    assert_eq!((&migrated["state"], &migrated["schema"]), (&"current".into(), &"semel".into()));
    assert!(!migrated["applied"].as_array().unwrap().is_empty(), "{migrated}");
    let again = folder.run(&[&["migrate"], &by_hand[..]].concat()).ended_with(0);
    assert!(again.out.starts_with("UP TO DATE  "), "{again:?}");
    folder.run(&[&["migrate", "--status"], &by_hand[..]].concat()).ended_with(0);

    // Two nodes, of which each says where it stores.
    let (_first, said) = folder.serve(&[&by_hand[..], &listen].concat());
    assert!(said.contains(&"  stored in      PostgreSQL (schema semel)".to_owned()), "{said:?}");
    assert!(said.contains(&"  settings from  by-hand.toml".to_owned()), "{said:?}");
    let mut words: Vec<String> = ["--json", "--store", &url].map(str::to_owned).to_vec();
    words.extend(listen.map(str::to_owned));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ((_a, one), (_b, other)) = (folder.serve(&words), folder.serve(&words));
    assert!(!format!("{said:?}{one:?}{again:?}{status:?}{refused:?}").contains("hunter2"));
    let (one, other) = (json(&one), json(&other));
    assert_eq!(one["store"], "PostgreSQL (schema semel)");
    assert!(one.get("data").is_none(), "{one}");

    let mut here = keys(&one).await;
    let claimed = here.claim_key(claim("k", owner(1))).await.unwrap().into_inner();
    assert_eq!(claimed.disposition(), Disposition::Claimed);
    here.complete_key(complete("k", owner(1), claimed.fence, b"once")).await.unwrap();
    let there = keys(&other).await.claim_key(claim("k", owner(2))).await.unwrap().into_inner();
    assert_eq!(replayed_body(&there), b"once");
    assert!(!folder.path("semel-data").exists(), "nothing is kept on the machine");
}
