//! `semel keys list` and `semel keys stuck`: page after page, up to a limit.

use std::io;
use std::time::Duration;

use clap::{Args, ValueEnum};
use semel_proto::v1::{KeyState, ListKeysRequest, ListStuckKeysRequest};
use serde::Serialize;

use super::arguments::TenantArgs;
use super::view::KeyView;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{FAINT, Output, Page, Reply};
use crate::target::NodeArgs;
use crate::values::{parse_duration, parse_pair, to_wire};

/// The most that a node gives on one page.
const PAGE_SIZE: usize = 1_000;

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

    /// How many keys to show at the most.
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,

    /// Where to go on, as the last answer said.
    #[arg(long, value_name = "TOKEN", default_value = "", hide_default_value = true)]
    page_token: String,
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
        let mut list = ListView::new(&self.scope);
        while let Some((page_size, page_token)) = list.next_page() {
            let message = ListKeysRequest {
                tenant: self.scope.tenant.tenant.clone(),
                operation: self.scope.operation.clone(),
                state: self.state.map_or(KeyState::Unspecified, StateArg::wire).into(),
                labels: self.label.iter().cloned().collect(),
                page_size,
                page_token,
            };
            let page = keys.list_keys(node.request(message, None)).await?.into_inner();
            list.add(page.keys, page.next_page_token);
        }
        output.reply(&list)?;
        Ok(Exit::Done)
    }
}

impl StuckArgs {
    /// Lists stuck keys.
    pub(crate) async fn run(self, node: &NodeArgs, output: &mut Output) -> Result<Exit, Failure> {
        let mut keys = node.keys().await?;
        let mut list = ListView::new(&self.scope);
        while let Some((page_size, page_token)) = list.next_page() {
            let message = ListStuckKeysRequest {
                tenant: self.scope.tenant.tenant.clone(),
                operation: self.scope.operation.clone(),
                stuck_for: self.stuck_for.map(to_wire),
                page_size,
                page_token,
            };
            let page = keys.list_stuck_keys(node.request(message, None)).await?.into_inner();
            list.add(page.keys, page.next_page_token);
        }
        output.reply(&list)?;
        Ok(Exit::Done)
    }
}

/// The keys so far, and where to go on.
#[derive(Debug, Serialize)]
struct ListView {
    keys: Vec<KeyView>,
    next_page_token: String,
    #[serde(skip)]
    limit: usize,
    #[serde(skip)]
    begun: bool,
}

impl ListView {
    fn new(scope: &ScopeArgs) -> Self {
        Self {
            keys: Vec::new(),
            next_page_token: scope.page_token.clone(),
            limit: scope.limit,
            begun: false,
        }
    }

    /// The size and the token of the page to ask for, unless this is the end.
    fn next_page(&mut self) -> Option<(u32, String)> {
        let left = self.limit.saturating_sub(self.keys.len()).min(PAGE_SIZE);
        let ended = self.begun && self.next_page_token.is_empty();
        self.begun = true;
        let page_size = u32::try_from(left).ok()?;
        (page_size > 0 && !ended).then(|| (page_size, self.next_page_token.clone()))
    }

    fn add(&mut self, keys: Vec<semel_proto::v1::KeyView>, next_page_token: String) {
        self.keys.extend(keys.into_iter().map(KeyView::from));
        self.next_page_token = next_page_token;
    }
}

impl Reply for ListView {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        if self.keys.is_empty() {
            return page.line("no keys");
        }
        let mut rows = vec![KeyView::HEADINGS.map(str::to_owned).to_vec()];
        rows.extend(self.keys.iter().map(KeyView::row));
        page.table(&rows)?;
        if self.next_page_token.is_empty() {
            return Ok(());
        }
        let token = &self.next_page_token;
        page.line(format!("{FAINT}There may be more: --page-token {token}{FAINT:#}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(limit: usize) -> ListView {
        ListView { keys: Vec::new(), next_page_token: String::new(), limit, begun: false }
    }

    fn keys(count: usize) -> Vec<semel_proto::v1::KeyView> {
        vec![semel_proto::v1::KeyView::default(); count]
    }

    #[test]
    fn pages_are_followed_up_to_the_limit() {
        let mut list = list(1_005);
        assert_eq!(list.next_page(), Some((1_000, String::new())));
        list.add(keys(1_000), "a".into());
        assert_eq!(list.next_page(), Some((5, "a".into())));
        list.add(keys(5), "b".into());
        assert_eq!(list.next_page(), None);
        assert_eq!(list.next_page_token, "b");
    }

    #[test]
    fn an_empty_page_is_not_the_end_but_an_empty_token_is() {
        let mut list = list(10);
        list.next_page();
        list.add(keys(0), "a".into());
        assert_eq!(list.next_page(), Some((10, "a".into())));
        list.add(keys(0), String::new());
        assert_eq!(list.next_page(), None);
    }
}
