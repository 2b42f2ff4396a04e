//! One run of the command, and what came of it.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The command, with nothing of this environment that would change its answers.
pub(crate) fn semel() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_semel"));
    let ours =
        ["TARGET", "TENANT", "CONFIG", "DATA", "STORE", "STORE_FILE", "LISTEN", "ADVERTISE", "LOG"];
    for variable in ours {
        command.env_remove(format!("SEMEL_{variable}"));
    }
    command.env("USER", "tester").stdin(Stdio::null());
    command
}

/// What a command said, and how it ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs the command to its end.
pub(crate) fn run(arguments: &[&str]) -> Ran {
    Ran::from(semel().args(arguments).output().unwrap())
}

/// Runs the command with these words against the node at `url`, for the tenant of these tests.
pub(crate) fn run_at(url: &str, words: &str) -> Ran {
    let mut words: Vec<&str> = words.split(' ').collect();
    words.extend(["--tenant", "acme", "--target", url]);
    run(&words)
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ran {
    /// The one JSON value that `--json` promises.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.out.lines().count(), 1, "one line of JSON: {self:?}");
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Checks the exit code.
    pub(crate) fn ended_with(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }
}
