//! The command `semel`: a node to start, keys, budgets and breakers to work with, a demonstration, a
//! benchmark, a simulation.
//!
//! # Layout
//!
//! - `args`: the command line as a whole; each command owns its arguments
//! - `serve`, `config`, `migrate`, `keys`, `budgets`, `breakers`, `nodes`, `demo`, `bench`, `sim`: the commands
//! - `config`: also the settings of a node, and what outranks what
//! - `engine`: the stores that a node can have
//! - `arguments`, `paging`, `policies`: what several commands take, show and have in common
//! - `output`, `failure`, `advice`, `exit`: how a command speaks and ends, for people and for scripts
//! - `target`, `invocation`, `values`: nodes, command lines and values as people write them
//! - `logging`, `stop`: the log, runtimes, and the signals that end them
//! - `entropy`, `stopwatch`: where randomness and elapsed time come in
//!
//! # What it does not do
//!
//! It holds no rules: what a claim or a policy means, a node decides.

mod advice;
mod args;
mod arguments;
mod bench;
mod breakers;
mod budgets;
mod config;
mod demo;
mod engine;
mod entropy;
mod exit;
mod failure;
mod invocation;
mod keys;
mod logging;
mod migrate;
mod nodes;
mod output;
mod paging;
mod policies;
mod serve;
mod sim;
mod stop;
mod stopwatch;
mod target;
mod values;

use std::process::ExitCode;

use clap::Parser;

use crate::args::Cli;
use crate::output::Output;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut output = Output::new(cli.json);
    cli.command.run(&mut output).unwrap_or_else(|failure| output.failure(&failure)).into()
}
