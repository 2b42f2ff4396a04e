//! The command line as a whole.

use clap::{Parser, Subcommand};

use crate::bench::{BenchArgs, NoopServerArgs};
use crate::breakers::BreakersArgs;
use crate::budgets::BudgetsArgs;
use crate::config::ConfigArgs;
use crate::demo::DemoArgs;
use crate::exit::{EXIT_CODES, Exit};
use crate::failure::Failure;
use crate::keys::KeysArgs;
use crate::migrate::MigrateArgs;
use crate::nodes::NodesArgs;
use crate::output::Output;
use crate::serve::ServeArgs;
use crate::sim::SimArgs;

const ABOUT: &str = "\
Semel makes a write happen once, and keeps a fleet's retries from becoming an outage.

A service claims a key before it does the work, and completes it with the answer. Whoever asks again
with the same key gets that answer, or is told that the work is being done. Before it sends a failed
request again it asks for a token of the fleet's one budget, and the fleet's one breaker says whether
a dependency is worth calling at all.";

const EXAMPLES: &str = "\
Begin here:
  semel demo     watch what retries do without a key, and with one
  semel serve    start a node on this machine
  semel keys claim payments.charge order-8812 --tenant acme --payload 'charge 42.00 EUR'";

/// `semel`
#[derive(Debug, Parser)]
#[command(
    name = "semel",
    version,
    about = "Makes a write happen once, and keeps retries from becoming an outage",
    long_about = ABOUT,
    after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"),
    max_term_width = 100
)]
pub(crate) struct Cli {
    /// Print one JSON value for scripts instead of text for people.
    #[arg(long, global = true, display_order = 100)]
    pub(crate) json: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a node on this machine
    Serve(Box<ServeArgs>),
    /// Check a file of settings, or print one
    Config(ConfigArgs),
    /// Bring a database up to date, or see whether it is
    Migrate(Box<MigrateArgs>),
    /// Claim, complete and look after idempotency keys
    Keys(Box<KeysArgs>),
    /// Look at retry budgets, and set their policies
    Budgets(Box<BudgetsArgs>),
    /// Look at, watch and force circuit breakers, and set their policies
    Breakers(Box<BreakersArgs>),
    /// List the nodes of the cluster, and how each of them is
    Nodes(NodesArgs),
    /// Watch what retries do without a key, and with one
    Demo(DemoArgs),
    /// Measure what a node can do on this machine
    Bench(BenchArgs),
    /// Play a cluster in virtual time: its promises under every fault, and experiments
    Sim(SimArgs),
    /// The reference server of `bench`
    #[command(hide = true)]
    BenchNoopServer(NoopServerArgs),
}

impl Command {
    /// Does it.
    pub(crate) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        match self {
            Self::Serve(args) => args.run(output),
            Self::Config(args) => args.run(output),
            Self::Migrate(args) => args.run(output),
            Self::Demo(args) => args.run(output),
            Self::Bench(args) => args.run(output),
            Self::Sim(args) => args.run(output),
            Self::BenchNoopServer(args) => args.run(output),
            Self::Keys(args) => args.run(output),
            Self::Budgets(args) => args.run(output),
            Self::Breakers(args) => args.run(output),
            Self::Nodes(args) => args.run(output),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_says_what_it_is_for() {
        fn check(command: &clap::Command) {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                let name = argument.get_id();
                assert!(argument.get_help().is_some(), "{} {name}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }
}
