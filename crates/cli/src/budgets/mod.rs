//! `semel budgets`: what operators see of retry budgets, and the policies that they set.
//!
//! Each command is a file: its arguments, its request, and what it says. Asking for tokens is for
//! programs, and has no command here.

mod get;
mod list;
mod policy;
mod view;

use clap::{Args, Subcommand};

use crate::exit::{EXIT_CODES, Exit};
use crate::failure::Failure;
use crate::output::Output;
use crate::stop::current_thread_runtime;
use crate::target::NodeArgs;

const EXAMPLES: &str = "\
Examples:
  semel budgets list --tenant acme
  semel budgets get stripe --tenant acme
  semel budgets policy get stripe --tenant acme
  semel budgets policy set stripe --tenant acme --ratio-per-mille 200 --attempts-max 4";

/// The arguments of `semel budgets`.
#[derive(Args, Debug)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct BudgetsArgs {
    #[command(flatten)]
    node: NodeArgs,
    #[command(subcommand)]
    command: BudgetsCommand,
}

#[derive(Debug, Subcommand)]
enum BudgetsCommand {
    /// List the budgets of a tenant
    List(list::ListArgs),
    /// Show one budget: what the store has of it, what the answering node, and its policy
    Get(get::GetArgs),
    /// Show or set the policy of a budget
    Policy(Box<policy::PolicyArgs>),
}

impl BudgetsArgs {
    /// Asks the node, and says what it answered.
    pub(crate) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        current_thread_runtime()?.block_on(self.command.run(&self.node, output))
    }
}

impl BudgetsCommand {
    async fn run(self, node: &NodeArgs, output: &mut Output) -> Result<Exit, Failure> {
        match self {
            Self::List(args) => args.run(node, output).await,
            Self::Get(args) => args.run(node, output).await,
            Self::Policy(args) => args.run(node, output).await,
        }
    }
}
