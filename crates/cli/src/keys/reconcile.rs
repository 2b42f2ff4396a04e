//! `semel keys reconcile`

use std::io;

use clap::{Args, ValueEnum};
use semel_proto::v1::ReconcileKeyRequest;
use semel_proto::v1::reconcile_key_request::Resolution;
use serde::Serialize;

use super::arguments::{KeyArgs, ResponseArgs};
use super::view::state_name;
use crate::arguments::AuditArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::output::{GOOD, Output, Page, Reply};
use crate::target::NodeArgs;

const EXAMPLES: &str = "\
Examples (the fence is the one that `get` or `stuck` showed):
  semel keys reconcile payments.charge order-8812 --tenant acme \\
      --fence F --resolution succeeded --body 'charged' --reason 'seen at the provider'
  semel keys reconcile payments.charge order-8812 --tenant acme \\
      --fence F --resolution not-done --reason 'the provider never got it'";

/// The arguments of `semel keys reconcile`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReconcileArgs {
    #[command(flatten)]
    key: KeyArgs,

    /// The fence that you looked at. If the key has moved on since, nothing is written.
    #[arg(long)]
    fence: u64,

    /// What you found.
    #[arg(long)]
    resolution: ResolutionArg,

    #[command(flatten)]
    audit: AuditArgs,

    #[command(flatten)]
    response: ResponseArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ResolutionArg {
    /// It was done: the answer is stored and replayed
    Succeeded,
    /// It failed for good: the answer is stored and replayed
    FailedFinal,
    /// It was not done: another attempt may run
    NotDone,
}

impl ResolutionArg {
    const fn wire(self) -> Resolution {
        match self {
            Self::Succeeded => Resolution::Succeeded,
            Self::FailedFinal => Resolution::FailedFinal,
            Self::NotDone => Resolution::NotDone,
        }
    }
}

impl ReconcileArgs {
    /// Settles the key.
    pub(crate) async fn run(self, node: &NodeArgs, output: &mut Output) -> Result<Exit, Failure> {
        let message = ReconcileKeyRequest {
            tenant: self.key.tenant.tenant,
            operation: self.key.operation,
            key: self.key.key,
            fence: self.fence,
            resolution: self.resolution.wire().into(),
            response: self.response.response()?,
            actor: self.audit.actor.actor,
            reason: self.audit.reason,
        };
        let mut keys = node.keys().await?;
        let response = keys
            .reconcile_key(node.request(message, None))
            .await
            .map_err(|status| Failure::from(status).repeat_with(&Invocation::as_typed()))?
            .into_inner();
        output.reply(&ReconcileView {
            state: state_name(response.state),
            already_settled: response.already_settled,
        })?;
        Ok(Exit::Done)
    }
}

#[derive(Debug, Serialize)]
struct ReconcileView {
    state: String,
    already_settled: bool,
}

impl Reply for ReconcileView {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        let meaning =
            if self.already_settled { "just so before; nothing changed" } else { "settled" };
        page.title(GOOD, &self.state, meaning)
    }
}
