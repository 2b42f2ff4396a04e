//! `semel breakers`: what operators see of circuit breakers, what they force, and their policies.
//!
//! Each command is a file: its arguments, its request, and what it says. Reporting outcomes and probing
//! are for programs, and have no command here.

mod force;
mod get;
mod list;
mod policy;
mod view;
mod watch;

use clap::{Args, Subcommand};
use semel_proto::v1::BreakerOverride;

use crate::exit::{EXIT_CODES, Exit};
use crate::failure::Failure;
use crate::output::Output;
use crate::stop::current_thread_runtime;
use crate::target::NodeArgs;

const EXAMPLES: &str = "\
Examples:
  semel breakers list --tenant acme --condition open
  semel breakers watch --tenant acme
  semel breakers force-open stripe --tenant acme --for 30m --reason 'their maintenance'
  semel breakers reset stripe --tenant acme --reason 'they are back'
  semel breakers policy set stripe --tenant acme --failure-per-mille 300 --calls-min 50";

/// The arguments of `semel breakers`.
#[derive(Args, Debug)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct BreakersArgs {
    #[command(flatten)]
    node: NodeArgs,
    #[command(subcommand)]
    command: BreakersCommand,
}

#[derive(Debug, Subcommand)]
enum BreakersCommand {
    /// List the breakers of a tenant
    List(list::ListArgs),
    /// Show one breaker
    Get(get::GetArgs),
    /// Show breakers now, and each change of their state as it happens
    Watch(watch::WatchArgs),
    /// Open a breaker, whatever the outcomes; no probes
    ForceOpen(force::ForceArgs),
    /// Close a breaker, whatever the outcomes
    ForceClose(force::ForceArgs),
    /// Close a breaker; outcomes are counted, and never open it
    MetricsOnly(force::ForceArgs),
    /// Take the force away, forget all counts, and close
    Reset(force::ResetArgs),
    /// Show or set the policy of a breaker
    Policy(Box<policy::PolicyArgs>),
}

impl BreakersArgs {
    /// Asks the node, and says what it answered.
    pub(crate) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        current_thread_runtime()?.block_on(self.command.run(&self.node, output))
    }
}

impl BreakersCommand {
    async fn run(self, node: &NodeArgs, output: &mut Output) -> Result<Exit, Failure> {
        match self {
            Self::List(args) => args.run(node, output).await,
            Self::Get(args) => args.run(node, output).await,
            Self::Watch(args) => args.run(node, output).await,
            Self::ForceOpen(args) => args.run(BreakerOverride::ForcedOpen, node, output).await,
            Self::ForceClose(args) => args.run(BreakerOverride::ForcedClosed, node, output).await,
            Self::MetricsOnly(args) => args.run(BreakerOverride::MetricsOnly, node, output).await,
            Self::Reset(args) => args.run(node, output).await,
            Self::Policy(args) => args.run(node, output).await,
        }
    }
}
