//! `semel keys release`

use std::io;

use clap::Args;
use semel_proto::v1::ReleaseKeyRequest;
use serde::Serialize;

use super::arguments::{HolderArgs, KeyArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{GOOD, Output, Page, Reply};
use crate::target::NodeArgs;

const EXAMPLES: &str = "\
Example (fence and owner are those that `claim` printed):
  semel keys release payments.charge order-8812 --tenant acme --fence F --owner O

Only when the work is known not to be done. If it may have been, complete it as indeterminate.";

/// The arguments of `semel keys release`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    key: KeyArgs,

    #[command(flatten)]
    holder: HolderArgs,
}

impl ReleaseArgs {
    /// Gives the claim back.
    pub(crate) async fn run(self, node: &NodeArgs, output: &mut Output) -> Result<Exit, Failure> {
        let message = ReleaseKeyRequest {
            tenant: self.key.tenant.tenant,
            operation: self.key.operation,
            key: self.key.key,
            fence: self.holder.fence,
            owner_id: self.holder.owner,
        };
        let mut keys = node.keys().await?;
        let response = keys.release_key(node.request(message, None)).await?.into_inner();
        output.reply(&ReleaseView { already_released: response.already_released })?;
        Ok(Exit::Done)
    }
}

#[derive(Debug, Serialize)]
struct ReleaseView {
    already_released: bool,
}

impl Reply for ReleaseView {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        let meaning =
            if self.already_released { "just so before; nothing changed" } else { "given back" };
        page.title(GOOD, "RELEASED", meaning)
    }
}
