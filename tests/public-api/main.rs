//! The public interface of the Rust client is what `crates/client/public-api.txt` lists, all features on: whoever
//! changes it sees so, and says so.
//!
//! # What it does not do
//!
//! It does not judge whether a change breaks anybody: `tests/semver` does, before a release.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says on the standard output how it went"
)]

#[allow(dead_code, reason = "other tests have more to set")]
#[path = "../support/settings.rs"]
mod settings;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use public_api::PublicApi;

use crate::settings::skip;

const LISTED: &str = "crates/client/public-api.txt";
/// What only the compiler can use.
const INTERNAL: [&str; 3] = [
    "core::marker::Freeze for ",
    "core::marker::StructuralPartialEq for ",
    "core::marker::UnsafeUnpin for ",
];
/// Set, it has the list written instead of compared.
const UPDATE: &str = "SEMEL_UPDATE_PUBLIC_API";
const COMMAND: &str =
    "SEMEL_UPDATE_PUBLIC_API=yes cargo test --locked -p semel-public-api --test public-api";

#[test]
fn the_public_interface_is_the_one_that_is_listed() {
    let wanted = env!("CARGO_PKG_RUST_VERSION");
    let found = output("rustc", &["--version"]);
    if !found.starts_with(&format!("rustc {wanted}.")) {
        // Another version writes other JSON, and knows other traits.
        skip(&format!("the list of the client's interface: it takes Rust {wanted}, not {found}"));
        return;
    }
    let api = public_api();
    let path = root().join(LISTED);
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(path, api).unwrap();
        return;
    }
    let listed = std::fs::read_to_string(path).unwrap();
    let changes = changes(&listed, &api);
    assert!(
        changes.is_empty(),
        "the public interface of semel-client is not the one that {LISTED} lists:\n{changes}\n\
         A line with - that users may have relied on breaks them: keep it, or say so in CHANGELOG.md.\n\
         If all of this is meant, list it anew, and commit the list:\n    {COMMAND}\n"
    );
}

#[test]
fn what_went_and_what_came_is_told_apart() {
    assert_eq!(changes("pub fn a\npub fn b\n", "pub fn b\npub fn c\n"), "- pub fn a\n+ pub fn c\n");
    assert_eq!(changes("pub fn a\n", "pub fn a\n"), "");
}

/// What is listed and no longer there, then what is there and not listed.
fn changes(listed: &str, found: &str) -> String {
    let (listed, found): (BTreeSet<&str>, BTreeSet<&str>) =
        (listed.lines().collect(), found.lines().collect());
    let gone = listed.difference(&found).map(|line| format!("- {line}\n"));
    gone.chain(found.difference(&listed).map(|line| format!("+ {line}\n"))).collect()
}

/// The interface as text, an item a line. What every type has by a blanket is left out.
fn public_api() -> String {
    let json = "-Z unstable-options --output-format json --cap-lints allow";
    let client = ["-p", "semel-client", "--lib", "--features", "postgres", "--locked"];
    let arguments: Vec<&str> =
        ["rustdoc"].into_iter().chain(client).chain(["--"]).chain(json.split(' ')).collect();
    output("cargo", &arguments);
    let json = target().join("doc/semel_client.json");
    let api: PublicApi = public_api::Builder::from_rustdoc_json(json)
        .sorted(true)
        .omit_blanket_impls(true)
        .build()
        .expect("public-api in Cargo.toml is the version for the JSON of this Rust");
    let lines = api.items().map(|item| format!("{item}\n"));
    lines.filter(|line| !INTERNAL.iter().any(|internal| line.contains(internal))).collect()
}

/// Where Cargo builds, which the path of this program tells.
fn target() -> PathBuf {
    let this = std::env::current_exe().unwrap();
    this.ancestors().nth(3).unwrap().to_owned()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn output(program: &str, arguments: &[&str]) -> String {
    let rustdoc = Path::new(env!("CARGO_MANIFEST_DIR")).join("rustdoc");
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root()).env("RUSTDOC", rustdoc);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
