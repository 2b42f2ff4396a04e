//! `semel budgets list`

use std::io;

use clap::Args;
use semel_proto::v1::ListBudgetsRequest;
use serde::Serialize;

use super::view::BudgetView;
use crate::arguments::TenantArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, Page, Reply};
use crate::paging::{PageArgs, Paging, write_rest};
use crate::target::NodeArgs;

const EXAMPLES: &str = "\
Examples:
  semel budgets list --tenant acme
  semel budgets list --tenant acme --limit 5000 --json

Amounts are tokens: one retry each, unless the policy says otherwise.";

/// The arguments of `semel budgets list`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    tenant: TenantArgs,

    #[command(flatten)]
    page: PageArgs,
}

impl ListArgs {
    /// Lists budgets.
    pub(crate) async fn run(self, node: &NodeArgs, output: &mut Output) -> Result<Exit, Failure> {
        let mut retries = node.retries().await?;
        let (mut paging, mut budgets) = (Paging::new(&self.page), Vec::new());
        while let Some((page_size, page_token)) = paging.next() {
            let tenant = self.tenant.tenant.clone();
            let message = ListBudgetsRequest { tenant, page_size, page_token };
            let page = retries.list_budgets(node.request(message, None)).await?.into_inner();
            paging.came(page.budgets.len(), page.next_page_token);
            budgets.extend(page.budgets.into_iter().map(BudgetView::from));
        }
        output.reply(&ListView { budgets, next_page_token: paging.into_token() })?;
        Ok(Exit::Done)
    }
}

#[derive(Debug, Serialize)]
struct ListView {
    budgets: Vec<BudgetView>,
    next_page_token: String,
}

impl Reply for ListView {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        if self.budgets.is_empty() {
            return page.line("no budgets");
        }
        let mut rows = vec![BudgetView::HEADINGS.map(str::to_owned).to_vec()];
        rows.extend(self.budgets.iter().map(BudgetView::row));
        page.table(&rows)?;
        write_rest(page, &self.next_page_token)
    }
}
