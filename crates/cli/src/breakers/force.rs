//! `semel breakers force-open`, `force-close`, `metrics-only` and `reset`

use std::io;
use std::time::Duration;

use clap::Args;
use semel_proto::v1::{BreakerOverride, OverrideBreakerRequest};
use serde::Serialize;

use super::view::{BreakerView, no_breaker};
use crate::arguments::{AuditArgs, DependencyArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::output::{Output, Page, Reply};
use crate::target::NodeArgs;
use crate::values::{parse_duration, to_wire};

const FORCE_EXAMPLES: &str = "\
Examples:
  semel breakers force-open stripe --tenant acme --for 30m --reason 'their maintenance'
  semel breakers force-close stripe --tenant acme --for 5m --reason 'a false alarm'
  semel breakers metrics-only stripe --tenant acme --reason 'first find out what is normal'

It holds on every node, over restarts, until its time is over or `semel breakers reset`.";

const RESET_EXAMPLES: &str = "\
Example:
  semel breakers reset stripe --tenant acme --reason 'they are back'";

/// The arguments of the commands that force a state.
#[derive(Args, Debug)]
#[command(after_help = FORCE_EXAMPLES)]
pub(crate) struct ForceArgs {
    #[command(flatten)]
    breaker: DependencyArgs,

    /// For how long: 1s to 30d [default: until it is taken away].
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    duration: Option<Duration>,

    #[command(flatten)]
    audit: AuditArgs,
}

/// The arguments of `semel breakers reset`.
#[derive(Args, Debug)]
#[command(after_help = RESET_EXAMPLES)]
pub(crate) struct ResetArgs {
    #[command(flatten)]
    breaker: DependencyArgs,

    #[command(flatten)]
    audit: AuditArgs,
}

impl ForceArgs {
    /// Forces the breaker.
    pub(crate) async fn run(
        self,
        kind: BreakerOverride,
        node: &NodeArgs,
        output: &mut Output,
    ) -> Result<Exit, Failure> {
        let expires_in = self.duration.map(to_wire);
        let message = message(self.breaker, self.audit, kind);
        send(OverrideBreakerRequest { expires_in, ..message }, node, output).await
    }
}

impl ResetArgs {
    /// Takes the force away.
    pub(crate) async fn run(self, node: &NodeArgs, output: &mut Output) -> Result<Exit, Failure> {
        send(message(self.breaker, self.audit, BreakerOverride::Reset), node, output).await
    }
}

fn message(
    breaker: DependencyArgs,
    audit: AuditArgs,
    kind: BreakerOverride,
) -> OverrideBreakerRequest {
    OverrideBreakerRequest {
        tenant: breaker.tenant.tenant,
        dependency: breaker.dependency,
        r#override: kind.into(),
        expires_in: None,
        actor: audit.actor.actor,
        reason: audit.reason,
    }
}

async fn send(
    message: OverrideBreakerRequest,
    node: &NodeArgs,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let mut client = node.breakers().await?;
    let response = client
        .override_breaker(node.request(message, None))
        .await
        .map_err(|status| Failure::from(status).repeat_with(&Invocation::as_typed()))?
        .into_inner();
    output.reply(&ForceView { breaker: response.breaker.ok_or_else(no_breaker)?.into() })?;
    Ok(Exit::Done)
}

#[derive(Debug, Serialize)]
struct ForceView {
    breaker: BreakerView,
}

impl Reply for ForceView {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        self.breaker.write(page)
    }
}
