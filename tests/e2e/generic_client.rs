//! Clients that are not ours: one that learns the contract from the node, and the README's own lines.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::node::{Home, Node};
use crate::support::settings::skip;

/// Where the README's examples expect a node.
const README_ADDRESS: &str = "127.0.0.1:7450";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The Python of a virtual environment with a gRPC client, made by `tests/run`.
fn python() -> Option<PathBuf> {
    let python = std::env::var_os("SEMEL_TEST_PYTHON").map(PathBuf::from);
    if python.is_none() {
        skip("a client of Python: there is no SEMEL_TEST_PYTHON; `tests/run e2e` makes it");
    }
    python
}

#[test]
fn a_client_with_no_file_in_hand_learns_the_contract_from_the_node() {
    let Some(python) = python() else { return };
    let node = Node::start(&[]);
    let script = repository().join("tests/e2e/generic_client.py");
    let address = node.url.strip_prefix("http://").unwrap();
    let out = said(Command::new(python).arg(script).arg(address));
    assert_eq!(out.trim(), "claimed, completed, replayed");
    node.assert_calm();
}

#[test]
fn the_lines_of_the_readme_work_as_written() {
    let mut home = Home::new(&[]);
    home.listen = README_ADDRESS.to_owned();
    if std::net::TcpListener::bind(README_ADDRESS).is_err() {
        skip("the README's lines: its port 7450 is taken here");
        return;
    }
    let node = home.start();
    let readme = std::fs::read_to_string(repository().join("README.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(repository().join("proto"), folder.path().join("proto")).unwrap();
    let shell = Shell { folder: folder.path() };

    let claimed = shell.said(block(&readme, "sh", "semel keys claim"));
    assert!(claimed.starts_with("CLAIMED"), "{claimed}");
    let complete = block(&readme, "sh", "semel keys complete")
        .replace("FENCE", field(&claimed, "fence"))
        .replace("OWNER", field(&claimed, "owner"));
    let completed = shell.said(&complete);
    assert!(completed.starts_with("SUCCEEDED"), "{completed}");

    rust_example();
    if python().is_some() {
        let script = block(&readme, "python", "import grpc");
        std::fs::write(folder.path().join("charge.py"), script).unwrap();
        let answer = shell.said(block(&readme, "sh", "pip install"));
        assert!(answer.ends_with("{\"charge\":\"ch_1\"}\n"), "{answer}");
    }
    node.assert_calm();
}

/// The example of the contract's crate, if this build made it.
fn rust_example() {
    let example = Path::new(env!("CARGO_BIN_EXE_semel")).with_file_name("examples").join("claim");
    if example.exists() {
        let out = said(&mut Command::new(example));
        assert!(out.contains("ch_1"), "{out}");
    } else {
        skip("the example in Rust: it was not built; `tests/run unit` builds it");
    }
}

/// A shell where `semel` is this build, as the README has it on the path.
struct Shell<'a> {
    folder: &'a Path,
}

impl Shell<'_> {
    fn said(&self, script: &str) -> String {
        let built = Path::new(env!("CARGO_BIN_EXE_semel")).parent().unwrap();
        let path = format!("{}:{}", built.display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new("sh");
        said(shell.args(["-euc", script]).env("PATH", path).current_dir(self.folder))
    }
}

/// What a command wrote, once it has ended well.
fn said(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{out}\n{err}");
    out.into_owned()
}

/// The fenced block of the README in this language that has these words.
fn block<'a>(readme: &'a str, language: &str, words: &str) -> &'a str {
    let opening = format!("\n```{language}\n");
    let blocks = readme.split(&opening).skip(1).filter_map(|rest| rest.split("```").next());
    blocks.into_iter().find(|block| block.contains(words)).unwrap_or_else(|| {
        panic!("the README has no block of {language} with {words:?}");
    })
}

/// The value of a line such as `  fence          42`.
fn field<'a>(text: &'a str, name: &str) -> &'a str {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(name));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).trim()
}
