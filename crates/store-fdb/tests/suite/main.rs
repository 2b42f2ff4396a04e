//! The FoundationDB engine against a server of its own, or the cluster that `FDB_CLUSTER_FILE` names.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says how it went"
)]

#[path = "../support/foundationdb.rs"]
mod foundationdb_server;

mod bench;
mod clocks;
mod conformance;
mod failures;
mod heavy;
mod nodes;
mod opening;
mod steps;
mod values;
mod wakes;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::Arguments;

use crate::bench::{Bench, Test};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tests = [
        conformance::tests(),
        clocks::tests(),
        failures::tests(),
        heavy::tests(),
        nodes::tests(),
        opening::tests(),
        values::tests(),
        wakes::tests(),
    ];
    let tests = tests.into_iter().flatten();
    if arguments.list {
        let listed = tests.map(|test| test.trial(None)).collect();
        return libtest_mimic::run(&arguments, listed).exit_code();
    }
    let Some(bench) = Bench::start() else { return ExitCode::SUCCESS };
    let bench = Arc::new(bench);
    let trials = tests.map(|test| Test::trial(test, Some(&bench))).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    bench.end();
    conclusion.exit_code()
}
