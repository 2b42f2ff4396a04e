//! `semel breakers list`

use std::io;

use clap::{Args, ValueEnum};
use semel_proto::v1::{BreakerCondition, ListBreakersRequest};
use serde::Serialize;

use super::view::BreakerView;
use crate::arguments::TenantArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, Page, Reply};
use crate::paging::{PageArgs, Paging, write_rest};
use crate::target::NodeArgs;

const EXAMPLES: &str = "\
Examples:
  semel breakers list --tenant acme
  semel breakers list --tenant acme --condition open --json";

/// The arguments of `semel breakers list`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    tenant: TenantArgs,

    /// Only breakers that stand so.
    #[arg(long)]
    condition: Option<ConditionArg>,

    #[command(flatten)]
    page: PageArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ConditionArg {
    Closed,
    Open,
    HalfOpen,
}

impl ConditionArg {
    const fn wire(self) -> BreakerCondition {
        match self {
            Self::Closed => BreakerCondition::Closed,
            Self::Open => BreakerCondition::Open,
            Self::HalfOpen => BreakerCondition::HalfOpen,
        }
    }
}

impl ListArgs {
    /// Lists breakers.
    pub(crate) async fn run(self, node: &NodeArgs, output: &mut Output) -> Result<Exit, Failure> {
        let mut client = node.breakers().await?;
        let (mut paging, mut breakers) = (Paging::new(&self.page), Vec::new());
        while let Some((page_size, page_token)) = paging.next() {
            let message = ListBreakersRequest {
                tenant: self.tenant.tenant.clone(),
                condition: self.condition.map_or(0, |condition| condition.wire().into()),
                page_size,
                page_token,
            };
            let page = client.list_breakers(node.request(message, None)).await?.into_inner();
            paging.came(page.breakers.len(), page.next_page_token);
            breakers.extend(page.breakers.into_iter().map(BreakerView::from));
        }
        output.reply(&ListView { breakers, next_page_token: paging.into_token() })?;
        Ok(Exit::Done)
    }
}

#[derive(Debug, Serialize)]
struct ListView {
    breakers: Vec<BreakerView>,
    next_page_token: String,
}

impl Reply for ListView {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        if self.breakers.is_empty() {
            return page.line("no breakers");
        }
        let mut rows = vec![BreakerView::HEADINGS.map(str::to_owned).to_vec()];
        rows.extend(self.breakers.iter().map(BreakerView::row));
        page.table(&rows)?;
        write_rest(page, &self.next_page_token)
    }
}
