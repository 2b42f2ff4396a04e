//! `semel keys get`

use std::io;

use clap::Args;
use semel_proto::v1::GetKeyRequest;
use serde::Serialize;

use super::arguments::KeyArgs;
use super::view::KeyView;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, Page, Reply};
use crate::target::NodeArgs;

const EXAMPLES: &str = "\
Example:
  semel keys get payments.charge order-8812 --tenant acme";

/// The arguments of `semel keys get`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    key: KeyArgs,

    /// Also show the body of the stored answer. The node must run with --grant-bodies.
    #[arg(long)]
    include_body: bool,
}

impl GetArgs {
    /// Shows the key.
    pub(crate) async fn run(self, node: &NodeArgs, output: &mut Output) -> Result<Exit, Failure> {
        let message = GetKeyRequest {
            tenant: self.key.tenant.tenant,
            operation: self.key.operation,
            key: self.key.key,
            include_body: self.include_body,
        };
        let mut keys = node.keys().await?;
        let response = keys.get_key(node.request(message, None)).await?.into_inner();
        let key = response.key.ok_or_else(|| Failure::broken("the node's answer has no key"))?;
        output.reply(&GetView { key: key.into() })?;
        Ok(Exit::Done)
    }
}

#[derive(Debug, Serialize)]
struct GetView {
    key: KeyView,
}

impl Reply for GetView {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        self.key.write(page)
    }
}
