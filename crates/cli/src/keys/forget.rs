//! `semel keys forget`

use std::io;

use clap::Args;
use semel_proto::v1::ForgetKeyRequest;
use serde::Serialize;

use super::arguments::KeyArgs;
use crate::arguments::AuditArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::output::{GOOD, Output, Page, Reply};
use crate::target::NodeArgs;
use crate::values::time;

const EXAMPLES: &str = "\
Example:
  semel keys forget payments.charge order-8812 --tenant acme --reason 'erasure request 4711'

A tombstone stays until the retention ends, so that erasing never means running again.";

/// The arguments of `semel keys forget`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ForgetArgs {
    #[command(flatten)]
    key: KeyArgs,

    #[command(flatten)]
    audit: AuditArgs,
}

impl ForgetArgs {
    /// Erases the key's payload.
    pub(crate) async fn run(self, node: &NodeArgs, output: &mut Output) -> Result<Exit, Failure> {
        let message = ForgetKeyRequest {
            tenant: self.key.tenant.tenant,
            operation: self.key.operation,
            key: self.key.key,
            actor: self.audit.actor.actor,
            reason: self.audit.reason,
        };
        let mut keys = node.keys().await?;
        let response = keys
            .forget_key(node.request(message, None))
            .await
            .map_err(|status| Failure::from(status).repeat_with(&Invocation::as_typed()))?
            .into_inner();
        output.reply(&ForgetView {
            already_forgotten: response.already_forgotten,
            expires_at: time(response.expires_at.as_ref()),
        })?;
        Ok(Exit::Done)
    }
}

#[derive(Debug, Serialize)]
struct ForgetView {
    already_forgotten: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
}

impl Reply for ForgetView {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        let meaning =
            if self.already_forgotten { "before; nothing changed" } else { "the answer is erased" };
        page.title(GOOD, "FORGOTTEN", meaning)?;
        page.field_if("tombstone until", self.expires_at.as_ref())
    }
}
