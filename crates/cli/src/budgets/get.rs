//! `semel budgets get`

use std::io;

use clap::Args;
use semel_proto::v1::GetBudgetRequest;
use serde::Serialize;

use super::policy::PolicyView;
use super::view::{BudgetView, NodeView};
use crate::arguments::DependencyArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, Page, Reply, STRONG};
use crate::target::NodeArgs;

const EXAMPLES: &str = "\
Example:
  semel budgets get stripe --tenant acme

Amounts are tokens: one retry each, unless the policy says otherwise. What nodes have not yet handed
over to the store is not among those of the store.";

/// The arguments of `semel budgets get`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    budget: DependencyArgs,
}

impl GetArgs {
    /// Shows the budget.
    pub(crate) async fn run(self, node: &NodeArgs, output: &mut Output) -> Result<Exit, Failure> {
        let message = GetBudgetRequest {
            tenant: self.budget.tenant.tenant,
            dependency: self.budget.dependency,
        };
        let mut retries = node.retries().await?;
        let response = retries.get_budget(node.request(message, None)).await?.into_inner();
        let budget =
            response.budget.ok_or_else(|| Failure::broken("the node's answer has no budget"))?;
        output.reply(&GetView {
            budget: budget.into(),
            policy: response.policy.map(PolicyView::from),
            node: response.node.map(NodeView::from),
        })?;
        Ok(Exit::Done)
    }
}

#[derive(Debug, Serialize)]
struct GetView {
    budget: BudgetView,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<PolicyView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<NodeView>,
}

impl Reply for GetView {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        self.budget.write(page)?;
        if let Some(node) = &self.node {
            page.line(format!("\n{STRONG}The node that answered{STRONG:#}"))?;
            node.write(page)?;
        }
        if let Some(policy) = &self.policy {
            page.line(format!("\n{STRONG}Policy{STRONG:#}"))?;
            policy.write(page)?;
        }
        Ok(())
    }
}
