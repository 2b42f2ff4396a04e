//! The order of the repository, where neither the compiler nor a linter keeps it.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Which of our crates a crate may use, dev-dependencies aside.
const ARROWS: [(&str, &[&str]); 10] = [
    ("semel-proto", &[]),
    ("semel-domain", &[]),
    ("semel-store", &[]),
    ("semel-store-postgres", &["semel-store"]),
    ("semel-store-fdb", &["semel-store"]),
    ("semel-server", &["semel-domain", "semel-proto", "semel-store"]),
    ("semel-client", &["semel-proto"]),
    ("semel-public-api", &[]),
    ("semel-sim", &["semel-proto", "semel-server", "semel-store"]),
    (
        "semel-cli",
        &[
            "semel-client",
            "semel-proto",
            "semel-server",
            "semel-sim",
            "semel-store",
            "semel-store-fdb",
            "semel-store-postgres",
        ],
    ),
];

/// All that the rules may use: nothing that has a clock, a thread, a socket or a file in its hands.
const RULES_MAY_USE: [&str; 3] = ["blake3", "bytes", "thiserror"];

/// The longest that one idea should take, in lines of code that is no test.
const FILE_LINES_MAX: usize = 450;

/// Files that are longer, each with its reason.
const LONGER_FILES: [(&str, &str); 0] = [];

/// Words that no file may contain, in two parts so that this one does not.
const UNFINISHED: [(&str, &str); 4] =
    [("to", "do!("), ("unimpl", "emented!("), ("TO", "DO"), ("FIX", "ME")];

/// Beginnings of paths that exist on one machine only.
const OUTSIDE: [(&str, &str); 5] =
    [("/wo", "rk/"), ("/ro", "ot/"), ("/ho", "me/"), ("../sha", "red"), ("/tmp", "/")];

#[test]
fn crates_use_each_other_along_the_arrows_only() {
    let metadata: Value =
        serde_json::from_str(&output("cargo", &["metadata", "--no-deps", "--format-version=1"]))
            .unwrap();
    let found: Vec<(&str, BTreeSet<&str>)> = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|package| (package["name"].as_str().unwrap(), dependencies(package)))
        .collect();
    for (name, used) in &found {
        let arrows = ARROWS.iter().find(|(from, _)| from == name);
        let (_, allowed) = arrows.unwrap_or_else(|| panic!("{name} has no entry in ARROWS"));
        let ours = used.iter().filter(|other| other.starts_with("semel-"));
        let strays: Vec<_> = ours.filter(|other| !allowed.contains(other)).collect();
        assert!(strays.is_empty(), "{name} may not use {strays:?}");
        if *name == "semel-domain" {
            let outer: Vec<_> =
                used.iter().filter(|other| !RULES_MAY_USE.contains(other)).collect();
            assert!(outer.is_empty(), "the rules are pure and may not use {outer:?}");
        }
    }
    assert_eq!(found.len(), ARROWS.len(), "ARROWS names a crate that is no more");
}

fn dependencies(package: &Value) -> BTreeSet<&str> {
    let all = package["dependencies"].as_array().unwrap().iter();
    all.filter(|dependency| dependency["kind"] != "dev")
        .map(|dependency| dependency["name"].as_str().unwrap())
        .collect()
}

#[test]
fn a_file_is_one_idea() {
    let long = sources().into_iter().filter(|file| !is_test(&file.path)).filter_map(|file| {
        // The tests of a file come last in it.
        let code = file.text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or_default();
        let lines = code.lines().count();
        (lines > FILE_LINES_MAX).then_some((file.path, lines))
    });
    let long: Vec<(String, usize)> = long.collect();
    let listed = |path: &str| LONGER_FILES.iter().any(|(listed, _)| *listed == path);
    let strays: Vec<_> = long.iter().filter(|(path, _)| !listed(path)).collect();
    assert!(strays.is_empty(), "over {FILE_LINES_MAX} lines: split, or list why not: {strays:?}");
    for (path, _) in LONGER_FILES {
        assert!(long.iter().any(|(longer, _)| longer == path), "{path} need not be listed");
    }
}

#[test]
fn nothing_is_left_unfinished() {
    assert_none_contains(&UNFINISHED);
}

#[test]
fn no_file_names_a_place_outside_the_repository() {
    assert_none_contains(&OUTSIDE);
}

#[test]
fn a_silenced_lint_has_a_reason() {
    for file in sources() {
        for silenced in file.text.split(concat!("[al", "low(")).skip(1) {
            let attribute = silenced.split(")]").next().unwrap_or_default();
            assert!(attribute.contains("reason ="), "{}: allow({attribute})", file.path);
        }
    }
}

#[test]
fn everything_in_the_contract_says_what_it_means() {
    for file in files(&["proto/semel/*.proto"]) {
        let mut before = "";
        for line in file.text.lines().map(str::trim) {
            let declares = line.ends_with(';')
                && (line.contains(" = ") || line.starts_with("rpc "))
                && !line.starts_with("syntax")
                || line.ends_with('{');
            assert!(
                !declares || before.starts_with("//"),
                "{}: no comment above: {line}",
                file.path
            );
            before = line;
        }
    }
}

#[test]
fn links_in_the_documents_lead_somewhere() {
    for file in files(&["*.md"]) {
        let folder = root().join(&file.path).parent().unwrap().to_owned();
        let prose = parts_by_fence(&file.text).step_by(2);
        let links = prose.flat_map(|part| part.split("](").skip(1));
        for link in links.filter_map(|rest| rest.split(')').next()) {
            let path = link.split('#').next().unwrap_or_default();
            let inside = !path.is_empty() && !path.contains("://");
            assert!(!inside || folder.join(path).exists(), "{}: {link}", file.path);
        }
    }
}

/// Each block is part of a file that tests run, and a comment above it names the file.
#[test]
fn programs_for_other_languages_are_shown_as_they_are_tested() {
    let [document] = &files(&["docs/languages.md"])[..] else { panic!("it is one file") };
    let parts: Vec<&str> = parts_by_fence(&document.text).collect();
    assert!(parts.len() > 2, "no program is shown");
    for pair in parts.chunks_exact(2) {
        let (language, shown) = pair[1].split_once('\n').unwrap();
        let source = pair[0].lines().last().and_then(|line| line.strip_prefix("<!-- "));
        let source = source.and_then(|line| line.strip_suffix(" -->"));
        let source = source.unwrap_or_else(|| panic!("no file is named above {language}: {shown}"));
        let tested = std::fs::read_to_string(root().join(source)).unwrap();
        assert!(tested.contains(shown), "{source} is not shown as it is");
    }
}

/// The prose and the fenced blocks of a document, by turns.
fn parts_by_fence(text: &str) -> impl Iterator<Item = &str> {
    text.split("\n```")
}

/// A file of the repository.
struct File {
    path: String,
    text: String,
}

fn sources() -> Vec<File> {
    files(&["*.rs"])
}

/// The files that are, or would be, committed. Those that are no text are left out.
fn files(patterns: &[&str]) -> Vec<File> {
    let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"];
    let names = output("git", &[&list, patterns].concat());
    let read = |path: &str| {
        let text = std::fs::read_to_string(root().join(path)).ok()?;
        Some(File { path: path.to_owned(), text })
    };
    let found: Vec<File> = names.split_terminator('\0').filter_map(read).collect();
    assert!(!found.is_empty(), "no file is like {patterns:?}");
    found
}

fn is_test(path: &str) -> bool {
    path.split('/').any(|part| part == "tests" || part == "tests.rs")
}

fn assert_none_contains(words: &[(&str, &str)]) {
    let words: Vec<String> = words.iter().map(|(first, rest)| format!("{first}{rest}")).collect();
    for file in files(&["*"]) {
        for (line, number) in file.text.lines().zip(1..) {
            let found = words.iter().find(|word| line.contains(*word));
            assert!(found.is_none(), "{}:{number} has {}", file.path, found.unwrap());
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
