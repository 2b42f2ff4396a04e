//! Page after page of a list, up to a limit.

use clap::Args;

use crate::output::{FAINT, Page};

/// The most that a node gives on one page.
const PAGE_SIZE: usize = 1_000;

/// How much of a list to show.
#[derive(Args, Clone, Debug)]
pub(crate) struct PageArgs {
    /// How many to show at the most.
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,

    /// Where to go on, as the last answer said.
    #[arg(long, value_name = "TOKEN", default_value = "", hide_default_value = true)]
    page_token: String,
}

/// How far a list is read.
#[derive(Debug)]
pub(crate) struct Paging {
    left: usize,
    token: String,
    begun: bool,
}

impl Paging {
    /// From where the arguments say.
    pub(crate) fn new(args: &PageArgs) -> Self {
        Self { left: args.limit, token: args.page_token.clone(), begun: false }
    }

    /// From the beginning, up to `limit`.
    pub(crate) const fn first(limit: usize) -> Self {
        Self { left: limit, token: String::new(), begun: false }
    }

    /// The size and the token of the page to ask for, unless this is the end.
    pub(crate) fn next(&mut self) -> Option<(u32, String)> {
        let ended = self.begun && self.token.is_empty();
        self.begun = true;
        let page_size = u32::try_from(self.left.min(PAGE_SIZE)).ok()?;
        (page_size > 0 && !ended).then(|| (page_size, self.token.clone()))
    }

    /// Notes that a page came.
    pub(crate) fn came(&mut self, count: usize, next_page_token: String) {
        self.left = self.left.saturating_sub(count);
        self.token = next_page_token;
    }

    /// Where to go on; empty at the end of the list.
    pub(crate) fn into_token(self) -> String {
        self.token
    }
}

/// Says where to go on, if there is more.
pub(crate) fn write_rest(page: &mut Page<'_>, token: &str) -> std::io::Result<()> {
    if token.is_empty() {
        return Ok(());
    }
    page.line(format!("{FAINT}There may be more: --page-token {token}{FAINT:#}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_followed_up_to_the_limit() {
        let mut paging = Paging::first(1_005);
        assert_eq!(paging.next(), Some((1_000, String::new())));
        paging.came(1_000, "a".into());
        assert_eq!(paging.next(), Some((5, "a".into())));
        paging.came(5, "b".into());
        assert_eq!(paging.next(), None);
        assert_eq!(paging.into_token(), "b");
    }

    #[test]
    fn an_empty_page_is_not_the_end_but_an_empty_token_is() {
        let mut paging = Paging::first(10);
        paging.next();
        paging.came(0, "a".into());
        assert_eq!(paging.next(), Some((10, "a".into())));
        paging.came(0, String::new());
        assert_eq!(paging.next(), None);
    }
}
