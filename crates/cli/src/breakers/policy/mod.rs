//! `semel breakers policy get` and `semel breakers policy set`

mod flags;
mod view;

use clap::{Args, Subcommand};
use semel_proto::v1::{
    BreakerPolicy, GetBreakerPolicyRequest, GetBreakerPolicyResponse, SetBreakerPolicyRequest,
};

use self::flags::BreakerPolicyFlags;
use self::view::PolicyView;
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
  semel breakers policy get stripe --tenant acme
  semel breakers policy get stripe --tenant acme --json";

const SET_EXAMPLES: &str = "\
Examples:
  semel breakers policy set stripe --tenant acme --failure-per-mille 300 --calls-min 50
  semel breakers policy set stripe --tenant acme --slow-call 2s --slow-per-mille 800
  semel breakers policy set stripe --tenant acme --ramp-step 0s --expected-version 3
  semel breakers policy set stripe --tenant acme --from-defaults     back to the defaults

What you don't name stays as it is. In force on every node within 5 s.";

/// The arguments of `semel breakers policy`.
#[derive(Args, Debug)]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    /// Show the policy of a breaker: the one that was set, or the default
    Get(GetArgs),
    /// Change the policy of a breaker
    Set(Box<SetArgs>),
}

#[derive(Args, Debug)]
#[command(after_help = GET_EXAMPLES)]
struct GetArgs {
    #[command(flatten)]
    breaker: DependencyArgs,
}

#[derive(Args, Debug)]
#[command(after_help = SET_EXAMPLES)]
struct SetArgs {
    #[command(flatten)]
    breaker: DependencyArgs,

    #[command(flatten)]
    set: SetPolicyArgs,

    #[command(flatten)]
    flags: BreakerPolicyFlags,
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
        let response = current(&self.breaker, node).await?;
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
        let before = current(&self.breaker, node).await?;
        // A policy that nobody set yet is written with its gaps, so that defaults stay defaults.
        let from = if self.set.from_defaults || before.version == 0 {
            BreakerPolicy::default()
        } else {
            before.policy.ok_or_else(no_policy)?
        };
        let message = SetBreakerPolicyRequest {
            tenant: self.breaker.tenant.tenant.clone(),
            dependency: self.breaker.dependency.clone(),
            policy: Some(self.flags.onto(from)),
            expected_version: Some(self.set.expected_version.unwrap_or(before.version)),
            actor: self.set.actor.actor,
        };
        let mut breakers = node.breakers().await?;
        let response = breakers
            .set_breaker_policy(node.request(message, None))
            .await
            .map_err(|status| Failure::from(status).repeat_with(&Invocation::as_typed()))?
            .into_inner();
        output.reply(&SetView {
            version: response.version,
            replaced_version: before.version,
            look: node
                .to_here(Invocation::new(["breakers", "policy", "get"]))
                .operand(self.breaker.dependency)
                .option("--tenant", &self.breaker.tenant.tenant),
        })?;
        Ok(Exit::Done)
    }
}

async fn current(
    breaker: &DependencyArgs,
    node: &NodeArgs,
) -> Result<GetBreakerPolicyResponse, Failure> {
    let message = GetBreakerPolicyRequest {
        tenant: breaker.tenant.tenant.clone(),
        dependency: breaker.dependency.clone(),
    };
    let mut breakers = node.breakers().await?;
    Ok(breakers.get_breaker_policy(node.request(message, None)).await?.into_inner())
}

fn no_policy() -> Failure {
    Failure::broken("the node's answer has no policy")
}
