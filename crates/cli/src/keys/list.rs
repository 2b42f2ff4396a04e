//! `semel keys list` and `semel keys stuck`: page after page, up to a limit.

use std::io;
use std::time::Duration;

use clap::{Args, ValueEnum};
use semel_proto::v1::{KeyState, ListKeysRequest, ListStuckKeysRequest};
use serde::Serialize;

use super::view::KeyView;
use crate::arguments::TenantArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, Page, Reply};
use crate::paging::{PageArgs, Paging, write_rest};
use crate::target::NodeArgs;
use crate::values::{parse_duration, parse_pair, to_wire};

const LIST_EXAMPLES: &str = "\
Examples:
  semel keys list --tenant acme
  semel keys list --tenant acme --operation payments.charge --state indeterminate
  semel keys list --tenant acme --label region=eu --limit 5000 --json";

const STUCK_EXAMPLES: &str = "\
Examples:
  semel keys stuck --tenant acme
  semel keys stuck --tenant acme --stuck-for 5m --json

Find out for each whether the work was done, then settle it with `semel keys reconcile`.";

/// The arguments of `semel keys list`.
#[derive(Args, Debug)]
#[command(after_help = LIST_EXAMPLES)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    scope: ScopeArgs,

    /// Only keys in this state.
    #[arg(long)]
    state: Option<StateArg>,

    /// Only keys with this label; may be given again, and then all must match.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_pair)]
    label: Vec<(String, String)>,
}

/// The arguments of `semel keys stuck`.
#[derive(Args, Debug)]
#[command(after_help = STUCK_EXAMPLES)]
pub(crate) struct StuckArgs {
    #[command(flatten)]
    scope: ScopeArgs,

    /// Only keys that have been stuck for at least this long.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    stuck_for: Option<Duration>,
}

#[derive(Args, Debug)]
struct ScopeArgs {
    #[command(flatten)]
    tenant: TenantArgs,

    /// Only keys of this operation.
    #[arg(long, default_value = "", hide_default_value = true)]
    operation: String,

    #[command(flatten)]
    page: PageArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum StateArg {
    Claimed,
    Lapsed,
    Released,
    Succeeded,
    FailedFinal,
    Indeterminate,
    Forgotten,
}

impl StateArg {
    const fn wire(self) -> KeyState {
        match self {
            Self::Claimed => KeyState::Claimed,
            Self::Lapsed => KeyState::Lapsed,
            Self::Released => KeyState::Released,
            Self::Succeeded => KeyState::Succeeded,
            Self::FailedFinal => KeyState::FailedFinal,
            Self::Indeterminate => KeyState::Indeterminate,
            Self::Forgotten => KeyState::Forgotten,
        }
    }
}

impl ListArgs {
    /// Lists keys.
    pub(crate) async fn run(self, node: &NodeArgs, output: &mut Output) -> Result<Exit, Failure> {
        let mut keys = node.keys().await?;
        let (mut paging, mut found) = (Paging::new(&self.scope.page), Vec::new());
        while let Some((page_size, page_token)) = paging.next() {
            let message = ListKeysRequest {
                tenant: self.scope.tenant.tenant.clone(),
                operation: self.scope.operation.clone(),
                state: self.state.map_or(KeyState::Unspecified, StateArg::wire).into(),
                labels: self.label.iter().cloned().collect(),
                page_size,
                page_token,
            };
            let page = keys.list_keys(node.request(message, None)).await?.into_inner();
            paging.came(page.keys.len(), page.next_page_token);
            found.extend(page.keys.into_iter().map(KeyView::from));
        }
        output.reply(&ListView { keys: found, next_page_token: paging.into_token() })?;
        Ok(Exit::Done)
    }
}

impl StuckArgs {
    /// Lists stuck keys.
    pub(crate) async fn run(self, node: &NodeArgs, output: &mut Output) -> Result<Exit, Failure> {
        let mut keys = node.keys().await?;
        let (mut paging, mut found) = (Paging::new(&self.scope.page), Vec::new());
        while let Some((page_size, page_token)) = paging.next() {
            let message = ListStuckKeysRequest {
                tenant: self.scope.tenant.tenant.clone(),
                operation: self.scope.operation.clone(),
                stuck_for: self.stuck_for.map(to_wire),
                page_size,
                page_token,
            };
            let page = keys.list_stuck_keys(node.request(message, None)).await?.into_inner();
            paging.came(page.keys.len(), page.next_page_token);
            found.extend(page.keys.into_iter().map(KeyView::from));
        }
        output.reply(&ListView { keys: found, next_page_token: paging.into_token() })?;
        Ok(Exit::Done)
    }
}

/// The keys, and where to go on.
#[derive(Debug, Serialize)]
struct ListView {
    keys: Vec<KeyView>,
    next_page_token: String,
}

impl Reply for ListView {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        if self.keys.is_empty() {
            return page.line("no keys");
        }
        let mut rows = vec![KeyView::HEADINGS.map(str::to_owned).to_vec()];
        rows.extend(self.keys.iter().map(KeyView::row));
        page.table(&rows)?;
        write_rest(page, &self.next_page_token)
    }
}
