//! `semel sim`: a cluster in virtual time, to see what it does when everything goes wrong, and how it
//! does in experiments with a known answer.
//!
//! Nothing here depends on the machine: the same seed gives the same figures everywhere.
//!
//! # Layout
//!
//! - `check`: many seeds against the promises
//! - `storm`: `retry-storm`, with its picture; `experiments`: the others

mod check;
mod experiments;
mod storm;

use clap::{Args, Subcommand};

use self::check::CheckArgs;
use self::experiments::{FleetArgs, LayersArgs, OutageArgs};
use self::storm::StormArgs;
use crate::exit::Exit;
use crate::failure::{Failure, whole};
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  semel sim check --seeds 1000
  semel sim check --first-seed 4711 --seeds 1      the same run again, to be looked at
  semel sim retry-storm --plot storm.svg
  semel sim fleet --json

It needs no node, and leaves nothing behind.";

/// The arguments of `semel sim`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SimArgs {
    #[command(subcommand)]
    command: SimCommand,
}

#[derive(Debug, Subcommand)]
enum SimCommand {
    /// Play many seeds with every fault switched on, and look for a broken promise
    Check(CheckArgs),
    /// 40 clients and a provider that comes back: four ways to retry
    RetryStorm(StormArgs),
    /// 1,000 requests a second for a minute in which each fails: what the budget lets through
    TotalOutage(OutageArgs),
    /// Three layers of three attempts, one inside the other
    Layers(LayersArgs),
    /// One budget of 100 nodes and 10,000 clients, a third of the nodes vanishing
    Fleet(FleetArgs),
}

impl SimArgs {
    /// Plays it, and says what it came to.
    pub(crate) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        match self.command {
            SimCommand::Check(args) => args.run(output),
            SimCommand::RetryStorm(args) => args.run(output),
            SimCommand::TotalOutage(args) => args.run(output),
            SimCommand::Layers(args) => args.run(output),
            SimCommand::Fleet(args) => args.run(output),
        }
    }
}

/// A run that could not be made.
fn broken(error: &std::io::Error) -> Failure {
    Failure::broken(whole(error))
}

/// How an experiment ends whose promise was kept or not.
const fn exit(kept: bool) -> Exit {
    if kept { Exit::Done } else { Exit::No }
}
