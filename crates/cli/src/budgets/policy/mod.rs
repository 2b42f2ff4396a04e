//! `semel budgets policy get` and `semel budgets policy set`

mod flags;
mod view;

use clap::{Args, Subcommand};
use semel_proto::v1::{
    GetRetryPolicyRequest, GetRetryPolicyResponse, RetryPolicy, SetRetryPolicyRequest,
};

use self::flags::RetryPolicyFlags;
pub(crate) use self::view::PolicyView;
use crate::arguments::DependencyArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::output::Output;
use crate::policies::{InForceView, SetPolicyArgs, SetView};
use crate::target::NodeArgs;
use crate::values::time;

const GET_EXAMPLES: &str = "\
Examples:
  semel budgets policy get stripe --tenant acme
  semel budgets policy get stripe --tenant acme --json";

const SET_EXAMPLES: &str = "\
Examples:
  semel budgets policy set stripe --tenant acme --ratio-per-mille 200 --floor-per-second 5
  semel budgets policy set stripe --tenant acme --cost unknown-outcome=2000 --retry-layer gateway
  semel budgets policy set stripe --tenant acme --enforcement observe --expected-version 3
  semel budgets policy set stripe --tenant acme --from-defaults     back to the defaults

What you don't name stays as it is. In force on every node within 5 s.";

/// The arguments of `semel budgets policy`.
#[derive(Args, Debug)]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    /// Show the policy of a budget: the one that was set, or the default
    Get(GetArgs),
    /// Change the policy of a budget
    Set(Box<SetArgs>),
}

#[derive(Args, Debug)]
#[command(after_help = GET_EXAMPLES)]
struct GetArgs {
    #[command(flatten)]
    budget: DependencyArgs,
}

#[derive(Args, Debug)]
#[command(after_help = SET_EXAMPLES)]
struct SetArgs {
    #[command(flatten)]
    budget: DependencyArgs,

    #[command(flatten)]
    set: SetPolicyArgs,

    #[command(flatten)]
    flags: RetryPolicyFlags,
}

impl PolicyArgs {
    /// Shows it, or sets it.
    pub(crate) async fn run(self, node: &NodeArgs, output: &mut Output) -> Result<Exit, Failure> {
        match self.command {
            PolicyCommand::Get(args) => args.run(node, output).await,
            PolicyCommand::Set(args) => args.run(node, output).await,
        }
    }
}

impl GetArgs {
    async fn run(self, node: &NodeArgs, output: &mut Output) -> Result<Exit, Failure> {
        let response = current(&self.budget, node).await?;
        let policy = response.policy.ok_or_else(no_policy)?;
        output.reply(&InForceView {
            version: response.version,
            actor: (!response.actor.is_empty()).then_some(response.actor),
            set_at: time(response.set_at.as_ref()),
            policy: PolicyView::from(policy),
        })?;
        Ok(Exit::Done)
    }
}

impl SetArgs {
    async fn run(self, node: &NodeArgs, output: &mut Output) -> Result<Exit, Failure> {
        let before = current(&self.budget, node).await?;
        // A policy that nobody set yet is written with its gaps, so that defaults stay defaults.
        let from = if self.set.from_defaults || before.version == 0 {
            RetryPolicy::default()
        } else {
            before.policy.ok_or_else(no_policy)?
        };
        let message = SetRetryPolicyRequest {
            tenant: self.budget.tenant.tenant.clone(),
            dependency: self.budget.dependency.clone(),
            policy: Some(self.flags.onto(from)),
            expected_version: Some(self.set.expected_version.unwrap_or(before.version)),
            actor: self.set.actor.actor,
        };
        let mut retries = node.retries().await?;
        let response = retries
            .set_retry_policy(node.request(message, None))
            .await
            .map_err(|status| Failure::from(status).repeat_with(&Invocation::as_typed()))?
            .into_inner();
        output.reply(&SetView {
            version: response.version,
            replaced_version: before.version,
            look: node
                .to_here(Invocation::new(["budgets", "policy", "get"]))
                .operand(self.budget.dependency)
                .option("--tenant", &self.budget.tenant.tenant),
        })?;
        Ok(Exit::Done)
    }
}

async fn current(
    budget: &DependencyArgs,
    node: &NodeArgs,
) -> Result<GetRetryPolicyResponse, Failure> {
    let message = GetRetryPolicyRequest {
        tenant: budget.tenant.tenant.clone(),
        dependency: budget.dependency.clone(),
    };
    let mut retries = node.retries().await?;
    Ok(retries.get_retry_policy(node.request(message, None)).await?.into_inner())
}

fn no_policy() -> Failure {
    Failure::broken("the node's answer has no policy")
}
