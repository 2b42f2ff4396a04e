//! A process that dies, and a disk that fails, for real: this test binary runs itself as a child.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

use super::support::*;
use crate::contract::StoreError;

const DIRECTORY: &str = "SEMEL_STORE_TEST_DIRECTORY";
const FIRST: &str = "SEMEL_STORE_TEST_FIRST";

/// Not a test by itself: the child's part. It puts one key after the other, from many callers, and
/// says what came of each.
#[test]
fn child() {
    let (Some(directory), Ok(first)) = (std::env::var_os(DIRECTORY), std::env::var(FIRST)) else {
        return;
    };
    let store = open(Path::new(&directory));
    let first: u64 = first.parse().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for caller in 0..32 {
            let store = store.clone();
            tasks.spawn(async move {
                for number in (first + caller..).step_by(32) {
                    let answer = match put(&store, key(number), value(number)).await {
                        Ok(()) => "acknowledged",
                        Err(StoreError::Unavailable(_)) => "unavailable",
                        Err(StoreError::Unknown(_)) => "unknown",
                        Err(StoreError::Invalid(reason)) => panic!("{reason}"),
                    };
                    println!("{answer} {number} {}", store.healthy());
                }
            });
        }
        while let Some(finished) = tasks.join_next().await {
            finished.unwrap();
        }
    });
}

fn key(number: u64) -> String {
    format!("key {number}")
}

fn value(number: u64) -> Vec<u8> {
    format!("value {number} ").repeat(30).into_bytes()
}

/// A child that puts keys until it is killed.
struct Writer {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    acknowledged: BTreeSet<u64>,
    unavailable: u64,
    unknown: u64,
}

impl Writer {
    fn start(directory: &Path, first: u64) -> Self {
        // A write over the limit of a file's size shall fail, and not kill the process.
        let mut child = Command::new("sh")
            .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
            .arg(std::env::current_exe().unwrap())
            .args(["embedded::tests::crash::child", "--exact", "--nocapture"])
            .env(DIRECTORY, directory)
            .env(FIRST, first.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let acknowledged = BTreeSet::new();
        Self { child, lines, acknowledged, unavailable: 0, unknown: 0 }
    }

    /// Reads one answer; false: there are no more.
    fn step(&mut self) -> bool {
        let Some(line) = self.lines.next() else { return false };
        let line = line.unwrap();
        let mut words = line.split(' ');
        let (answer, number) = (words.next(), words.next().and_then(|word| word.parse().ok()));
        match (answer, number) {
            (Some("acknowledged"), Some(number)) => {
                assert!(self.acknowledged.insert(number), "{number} was answered twice");
            }
            (Some("unavailable"), Some(_)) => self.unavailable += 1,
            (Some("unknown"), Some(_)) => self.unknown += 1,
            // What the test runner itself prints.
            _ => {}
        }
        true
    }

    fn until(&mut self, mut done: impl FnMut(&Self) -> bool) {
        while !done(self) {
            assert!(self.step(), "the child has ended");
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Kills it in the middle of what it does, and takes what it had said before.
    fn kill(mut self) -> BTreeSet<u64> {
        kill_process(self.pid(), Signal::KILL).unwrap();
        while self.step() {}
        self.child.wait().unwrap();
        self.acknowledged
    }

    fn limit_file_size(&self, bytes: Option<u64>) {
        let limit = Rlimit { current: bytes, maximum: None };
        prlimit(Some(self.pid()), Resource::Fsize, limit).unwrap();
    }
}

fn assert_all_there(directory: &Path, acknowledged: &BTreeSet<u64>) {
    let store = open(directory);
    let found = run(records(&store));
    for number in acknowledged {
        let found = found.get(key(*number).as_bytes());
        assert!(found.is_some_and(|found| *found == value(*number)), "{number} is lost");
    }
    let entries = run(rows(&store, crate::contract::Space::Index));
    assert_eq!(entries.len(), found.len(), "records and index entries go together");
}

#[test]
fn a_process_that_is_killed_loses_nothing_that_it_acknowledged() {
    const APART: u64 = 1_000_000;
    let directory = tempfile::tempdir().unwrap();
    let mut acknowledged = BTreeSet::new();
    for round in 0..8 {
        let mut writer = Writer::start(directory.path(), round * APART);
        let enough = usize::try_from(round * 150 + 20).unwrap();
        writer.until(|writer| writer.acknowledged.len() >= enough);
        acknowledged.append(&mut writer.kill());
        assert_all_there(directory.path(), &acknowledged);
    }
}

#[test]
fn a_disk_that_is_full_for_a_while_loses_nothing_and_is_used_again() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = Writer::start(directory.path(), 0);
    let mut acknowledged = 0;
    for _ in 0..3 {
        acknowledged = writer.acknowledged.len();
        writer.until(|writer| writer.acknowledged.len() > acknowledged + 200);
        // The next write but a few stops in the middle.
        let journal = newest_journal(directory.path()).metadata().unwrap().len();
        writer.limit_file_size(Some(journal + 20_000));
        let (unknown, unavailable) = (writer.unknown, writer.unavailable);
        writer.until(|writer| writer.unknown > unknown && writer.unavailable > unavailable + 1_000);
        acknowledged = writer.acknowledged.len();
        writer.limit_file_size(None);
        writer.until(|writer| writer.acknowledged.len() > acknowledged);
    }
    writer.until(|writer| writer.acknowledged.len() > acknowledged + 200);
    assert_all_there(directory.path(), &writer.kill());
}

fn newest_journal(directory: &Path) -> PathBuf {
    let entries = std::fs::read_dir(directory.join("tree")).unwrap();
    let number = |path: &PathBuf| -> Option<u64> {
        path.file_name()?.to_str()?.strip_suffix(".jnl")?.parse().ok()
    };
    entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| number(path).is_some())
        .max_by_key(number)
        .unwrap()
}
