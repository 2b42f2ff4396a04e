//! `semel breakers get`

use std::io;

use clap::Args;
use semel_proto::v1::BreakerStateRequest;
use serde::Serialize;

use super::view::{BreakerView, no_breaker};
use crate::arguments::DependencyArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{CAUTION, Output, Page, Reply};
use crate::target::NodeArgs;

const EXAMPLES: &str = "\
Example:
  semel breakers get stripe --tenant acme

Looking takes no probe.";

/// The arguments of `semel breakers get`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    breaker: DependencyArgs,
}

impl GetArgs {
    /// Shows the breaker.
    pub(crate) async fn run(self, node: &NodeArgs, output: &mut Output) -> Result<Exit, Failure> {
        let message = BreakerStateRequest {
            tenant: self.breaker.tenant.tenant,
            dependency: self.breaker.dependency,
            ..BreakerStateRequest::default()
        };
        let mut client = node.breakers().await?;
        let response = client.breaker_state(node.request(message, None)).await?.into_inner();
        output.reply(&GetView {
            breaker: response.breaker.ok_or_else(no_breaker)?.into(),
            degraded: response.degraded,
        })?;
        Ok(Exit::Done)
    }
}

#[derive(Debug, Serialize)]
struct GetView {
    breaker: BreakerView,
    degraded: bool,
}

impl Reply for GetView {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        self.breaker.write(page)?;
        if self.degraded {
            let text = "The store is out of reach: this is the last that the node knew.";
            page.line(format!("{CAUTION}{text}{CAUTION:#}"))?;
        }
        Ok(())
    }
}
