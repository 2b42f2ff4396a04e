//! A program in one language, and what it reports.
//!
//! Whatever it does is bounded in time; with its handle, it ends.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::support::settings::skip;

/// All that should be there; each is a folder beside this file.
const LANGUAGES: [&str; 4] = ["python", "go", "java", "node"];

/// The list of scenarios that every program is held to.
const SCENARIOS: &str = include_str!("scenarios.md");

/// The longest that a program may take. All scenarios wait for about 3 s together.
const LIMIT: Duration = Duration::from_secs(120);

/// A program that was built.
pub(crate) struct Program {
    pub(crate) language: String,
    run: PathBuf,
}

/// The programs that `tests/run polyglot` built. It says which of them it could not.
pub(crate) fn programs() -> Vec<Program> {
    let built = built();
    let program = |language: &str| {
        let folder = built.iter().find(|folder| folder.ends_with(language))?;
        Some(Program { language: language.to_owned(), run: folder.join("run") })
    };
    LANGUAGES.into_iter().filter_map(program).collect()
}

/// The folders where `tests/run polyglot` built something.
fn built() -> Vec<PathBuf> {
    let Some(built) = std::env::var_os("SEMEL_TEST_POLYGLOT") else {
        skip("other languages: there is no SEMEL_TEST_POLYGLOT; `tests/run polyglot` makes it");
        return Vec::new();
    };
    std::env::split_paths(&built).collect()
}

/// A shell with grpcurl at hand, if that was built.
pub(crate) fn shell_with_grpcurl() -> Option<Command> {
    let folder = built().into_iter().find(|folder| folder.ends_with("grpcurl"))?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = [folder.join("bin")].into_iter().chain(std::env::split_paths(&path));
    let mut shell = Command::new("sh");
    shell.arg("-euc").env("PATH", std::env::join_paths(paths).unwrap());
    shell.stdin(Stdio::null()).kill_on_drop(true);
    Some(shell)
}

impl Program {
    /// All that it reports, whether it ends well or not.
    pub(crate) async fn said(&self, address: &str, more: &[&str]) -> String {
        let mut command = self.command(address);
        let output = tokio::time::timeout(LIMIT, command.args(more).output()).await;
        let output =
            output.unwrap_or_else(|_| panic!("{}: over {LIMIT:?}", self.language)).unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let well = said.lines().all(|line| line.starts_with("ok "));
        let remarks = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), well, "{}: {said}\n{remarks}", self.language);
        said
    }

    /// Does a part, and returns what it found.
    pub(crate) async fn part(&self, address: &str, part: &str, with: &[&str]) -> String {
        let said = self.said(address, &[&["--scenario", part], with].concat()).await;
        let found = said.trim_end().strip_prefix("ok ").and_then(|rest| rest.strip_prefix(part));
        found.unwrap_or_else(|| panic!("{}: {said}", self.language)).trim_start().to_owned()
    }

    /// Begins a part that asks to be told when to go on.
    pub(crate) fn ask(&self, address: &str, part: &str, key: &str) -> Asking {
        let mut command = self.command(address);
        command.args(["--scenario", part, &format!("key={key}")]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Asking { input: process.stdin.take().unwrap(), lines, _process: process }
    }

    fn command(&self, address: &str) -> Command {
        assert!(self.run.exists(), "{} is not built", self.run.display());
        let mut command = Command::new(&self.run);
        command.arg(address).stdin(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }
}

/// A program under way.
pub(crate) struct Asking {
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    _process: Child,
}

impl Asking {
    pub(crate) async fn line(&mut self) -> String {
        let line = tokio::time::timeout(LIMIT, self.lines.next_line()).await;
        line.expect("it says nothing").unwrap().expect("it ended")
    }

    pub(crate) async fn go_on(&mut self) {
        self.input.write_all(b"\n").await.unwrap();
    }
}

/// What a report of all scenarios lacks, has too often, or tells as failed.
pub(crate) fn wrong_with(report: &str) -> Vec<String> {
    let mut told: BTreeMap<&str, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for line in report.lines() {
        match line.strip_prefix("ok ") {
            Some(name) => *told.entry(name).or_default() += 1,
            None => wrong.push(line.to_owned()),
        }
    }
    for name in scenarios() {
        match told.remove(name) {
            Some(1) => {}
            times => wrong.push(format!("{name} is ok {} times", times.unwrap_or_default())),
        }
    }
    wrong.extend(told.into_keys().map(|name| format!("{name} is not in the list")));
    wrong
}

/// The names of the list: rows whose first cell has nothing but a name. Parts have parameters.
fn scenarios() -> impl Iterator<Item = &'static str> {
    let cells = SCENARIOS.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    cells.filter(|cell| !cell.contains(' '))
}

#[test]
fn a_report_is_wrong_unless_each_scenario_is_ok_once() {
    let names: Vec<&str> = scenarios().collect();
    assert!(names.len() >= 10 && names.contains(&"claim") && names.contains(&"deadline"));
    let all: String = names.iter().map(|name| format!("ok {name}\n")).collect();
    assert_eq!(wrong_with(&all), Vec::<String>::new());
    let failed = "FAILED claim: it was late";
    assert_eq!(wrong_with(&all.replace("ok claim", failed)), [failed, "claim is ok 0 times"]);
    assert_eq!(wrong_with(&all.replace("ok wait\n", "")), ["wait is ok 0 times"]);
    assert_eq!(wrong_with(&format!("{all}ok wait\n")), ["wait is ok 2 times"]);
    assert_eq!(wrong_with(&format!("{all}ok waiting\n")), ["waiting is not in the list"]);
}

#[test]
fn each_language_has_a_folder_that_can_be_built_and_run() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/polyglot");
    for language in LANGUAGES {
        for script in ["build", "run"] {
            assert!(here.join(language).join(script).is_file(), "{language}/{script}");
        }
    }
}
