//! `semel keys complete`

use std::io;

use clap::{Args, ValueEnum};
use semel_proto::v1::{CompleteKeyRequest, CompleteKeyResponse, Outcome};
use serde::Serialize;

use super::arguments::{HolderArgs, KeyArgs, ResponseArgs};
use super::view::state_name;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::output::{GOOD, Output, Page, Reply};
use crate::target::NodeArgs;
use crate::values::time;

const EXAMPLES: &str = "\
Examples (fence and owner are those that `claim` printed):
  semel keys complete payments.charge order-8812 --tenant acme \\
      --fence F --owner O --outcome succeeded --status 201 --body 'charged'
  semel keys complete payments.charge order-8812 --tenant acme \\
      --fence F --owner O --outcome indeterminate

After a timeout, a lost connection or a crash the outcome is indeterminate, never failed-retryable.";

/// The arguments of `semel keys complete`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompleteArgs {
    #[command(flatten)]
    key: KeyArgs,

    #[command(flatten)]
    holder: HolderArgs,

    /// What the work came to.
    #[arg(long)]
    outcome: OutcomeArg,

    #[command(flatten)]
    response: ResponseArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum OutcomeArg {
    /// Done: the answer is stored and replayed
    Succeeded,
    /// Failed, and would fail again: the answer is stored and replayed
    FailedFinal,
    /// Known not to be done: another attempt may run
    FailedRetryable,
    /// Perhaps done
    Indeterminate,
}

impl OutcomeArg {
    const fn wire(self) -> Outcome {
        match self {
            Self::Succeeded => Outcome::Succeeded,
            Self::FailedFinal => Outcome::FailedFinal,
            Self::FailedRetryable => Outcome::FailedRetryable,
            Self::Indeterminate => Outcome::Indeterminate,
        }
    }
}

impl CompleteArgs {
    /// Completes the claim.
    pub(crate) async fn run(self, node: &NodeArgs, output: &mut Output) -> Result<Exit, Failure> {
        let message = CompleteKeyRequest {
            tenant: self.key.tenant.tenant,
            operation: self.key.operation,
            key: self.key.key,
            fence: self.holder.fence,
            owner_id: self.holder.owner,
            outcome: self.outcome.wire().into(),
            response: self.response.response()?,
        };
        let mut keys = node.keys().await?;
        let response = keys
            .complete_key(node.request(message, None))
            .await
            .map_err(|status| Failure::from(status).repeat_with(&Invocation::as_typed()))?;
        output.reply(&CompleteView::from(response.into_inner()))?;
        Ok(Exit::Done)
    }
}

#[derive(Debug, Serialize)]
struct CompleteView {
    state: String,
    already_completed: bool,
    omitted_too_large: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
}

impl From<CompleteKeyResponse> for CompleteView {
    fn from(response: CompleteKeyResponse) -> Self {
        Self {
            state: state_name(response.state),
            already_completed: response.already_completed,
            omitted_too_large: response.omitted_too_large,
            expires_at: time(response.expires_at.as_ref()),
        }
    }
}

impl Reply for CompleteView {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        let meaning =
            if self.already_completed { "just so before; nothing changed" } else { "completed" };
        page.title(GOOD, &self.state, meaning)?;
        page.field_if("kept until", self.expires_at.as_ref())?;
        if self.omitted_too_large {
            page.field("body", "over the node's limit: only its digest is kept")?;
        }
        Ok(())
    }
}
