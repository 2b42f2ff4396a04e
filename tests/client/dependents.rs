//! Processes that call a dependency through all layers: the example `dependent` of the client.

use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

pub(crate) const PROCESSES: usize = 3;

/// Ended by themselves after so long, whatever becomes of the test.
const LONGEST_SECONDS: u64 = 600;

/// A change of a process's breaker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) at_ms: u64,
    pub(crate) is_closed: bool,
    /// The process decided it by itself.
    pub(crate) is_local: bool,
}

/// What one process said so far.
#[derive(Default)]
pub(crate) struct Said {
    pub(crate) seconds: Vec<Value>,
    pub(crate) changes: Vec<Change>,
}

impl Said {
    /// When its breaker opened first.
    pub(crate) fn opened(&self) -> Option<Change> {
        self.changes.iter().find(|change| !change.is_closed).copied()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.changes.last().is_none_or(|change| change.is_closed)
    }
}

/// The processes; they end with their handle.
pub(crate) struct Dependents {
    said: Arc<Mutex<Vec<Said>>>,
    more: Arc<Notify>,
    _processes: Vec<Child>,
    _listening: JoinSet<()>,
}

impl Dependents {
    /// Starts them, with so many requests a second in all.
    pub(crate) fn start(node: &str, dependency: &str, rate: u64) -> Self {
        let built = Path::new(env!("CARGO_BIN_EXE_semel")).with_file_name("examples");
        let said = Arc::new(Mutex::new((0..PROCESSES).map(|_| Said::default()).collect()));
        let (more, mut listening) = (Arc::new(Notify::new()), JoinSet::new());
        let own_rate = (rate as f64 / PROCESSES as f64).to_string();
        let start = |number| {
            let mut command = Command::new(built.join("dependent"));
            command.args([node, dependency, &own_rate, &LONGEST_SECONDS.to_string()]);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
            let mut process = command.spawn().expect("tests/run client builds the example");
            let out = process.stdout.take().unwrap();
            listening.spawn(listen(out, number, Arc::clone(&said), Arc::clone(&more)));
            process
        };
        let processes = (0..PROCESSES).map(start).collect();
        Self { said, more, _processes: processes, _listening: listening }
    }

    /// Waits until this is so, at most so long.
    pub(crate) async fn until(&self, what: &str, limit: Duration, is_so: impl Fn(&[Said]) -> bool) {
        let waiting = async {
            loop {
                let more = self.more.notified();
                if is_so(&self.said.lock().unwrap()) {
                    return;
                }
                more.await;
            }
        };
        timeout(limit, waiting).await.unwrap_or_else(|_| panic!("within {limit:?}: {what}"));
    }

    /// Looks at what each of them said.
    pub(crate) fn each<T>(&self, look: impl FnMut(&Said) -> T) -> Vec<T> {
        self.said.lock().unwrap().iter().map(look).collect()
    }
}

async fn listen(out: ChildStdout, number: usize, said: Arc<Mutex<Vec<Said>>>, more: Arc<Notify>) {
    let mut lines = BufReader::new(out).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        let line: Value = serde_json::from_str(&line).unwrap();
        {
            let said = &mut said.lock().unwrap()[number];
            match line["closed"].as_bool() {
                Some(is_closed) => {
                    let at_ms = line["at_ms"].as_u64().unwrap();
                    let is_local = line["local"].as_bool().unwrap();
                    said.changes.push(Change { at_ms, is_closed, is_local });
                }
                None => said.seconds.push(line),
            }
        }
        more.notify_waiters();
    }
}
