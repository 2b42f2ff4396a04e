//! `semel keys`: every call of the Keys service, for people and for scripts.
//!
//! Each command is a file: its arguments, its request, and what it says. What they share is in
//! [`arguments`] (how keys, payloads and answers are written) and [`view`] (how they are shown).

mod arguments;
mod claim;
mod complete;
mod fingerprint;
mod forget;
mod get;
mod list;
mod reconcile;
mod release;
mod renew;
mod replay;
mod view;

use clap::{Args, Subcommand};

use crate::exit::{EXIT_CODES, Exit};
use crate::failure::Failure;
use crate::output::Output;
use crate::stop::current_thread_runtime;
use crate::target::NodeArgs;

const EXAMPLES: &str = "\
Examples:
  semel keys claim payments.charge order-8812 --tenant acme --payload 'charge 42.00 EUR'
  semel keys complete payments.charge order-8812 --tenant acme \\
      --fence F --owner O --outcome succeeded --body 'charged'
  semel keys replay payments.charge order-8812 --tenant acme --payload 'charge 42.00 EUR'
  semel keys stuck --tenant acme --json";

/// The arguments of `semel keys`.
#[derive(Args, Debug)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct KeysArgs {
    #[command(flatten)]
    node: NodeArgs,
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Debug, Subcommand)]
enum KeysCommand {
    /// Ask for the right to do the work of a key, or for its answer
    Claim(claim::ClaimArgs),
    /// Say what the work came to
    Complete(complete::CompleteArgs),
    /// Read the answer of a key; never claims
    Replay(replay::ReplayArgs),
    /// Hold a claim for longer, and save how far the work is
    Renew(renew::RenewArgs),
    /// Give a claim back, the work known not to be done
    Release(release::ReleaseArgs),
    /// Operators: show one key with its history
    Get(get::GetArgs),
    /// Operators: list the keys of a tenant
    List(list::ListArgs),
    /// Operators: list claims whose owner is lost, and keys whose outcome is unknown
    Stuck(list::StuckArgs),
    /// Operators: settle a stuck key, after looking at what really happened
    Reconcile(reconcile::ReconcileArgs),
    /// Operators: erase what a completed key stores
    Forget(forget::ForgetArgs),
}

impl KeysArgs {
    /// Asks the node, and says what it answered.
    pub(crate) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        current_thread_runtime()?.block_on(self.command.run(&self.node, output))
    }
}

impl KeysCommand {
    async fn run(self, node: &NodeArgs, output: &mut Output) -> Result<Exit, Failure> {
        match self {
            Self::Claim(args) => args.run(node, output).await,
            Self::Complete(args) => args.run(node, output).await,
            Self::Replay(args) => args.run(node, output).await,
            Self::Renew(args) => args.run(node, output).await,
            Self::Release(args) => args.run(node, output).await,
            Self::Get(args) => args.run(node, output).await,
            Self::List(args) => args.run(node, output).await,
            Self::Stuck(args) => args.run(node, output).await,
            Self::Reconcile(args) => args.run(node, output).await,
            Self::Forget(args) => args.run(node, output).await,
        }
    }
}
