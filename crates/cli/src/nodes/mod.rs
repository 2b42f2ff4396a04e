//! `semel nodes`: who is in the cluster, and how each of them is.

mod view;

use std::io;

use clap::Args;
use semel_proto::v1::ListNodesRequest;
use serde::Serialize;

use self::view::NodeView;
use crate::exit::{EXIT_CODES, Exit};
use crate::failure::Failure;
use crate::output::{Output, Page, Reply};
use crate::paging::{PageArgs, Paging, write_rest};
use crate::stop::current_thread_runtime;
use crate::target::NodeArgs;
use crate::values::{id, time};

const EXAMPLES: &str = "\
Examples:
  semel nodes
  semel nodes --target http://10.0.0.7:7450 --json

Any node lists all that share its store. One that died is listed until it has missed three heartbeats.
CLOCK is how far its clock is ahead of the store's, as it measured: a node that finds its own off by more
than its allowed skew (1s) refuses claims until it is right again. * is the node that answered.";

/// The arguments of `semel nodes`.
#[derive(Args, Debug)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct NodesArgs {
    #[command(flatten)]
    node: NodeArgs,

    #[command(flatten)]
    page: PageArgs,
}

impl NodesArgs {
    /// Asks the node, and says what it answered.
    pub(crate) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        current_thread_runtime()?.block_on(self.list(output))
    }

    async fn list(self, output: &mut Output) -> Result<Exit, Failure> {
        let mut admin = self.node.admin().await?;
        let (mut paging, mut list) = (Paging::new(&self.page), ListView::default());
        while let Some((page_size, page_token)) = paging.next() {
            let message = ListNodesRequest { page_size, page_token };
            let page = admin.list_nodes(self.node.request(message, None)).await?.into_inner();
            paging.came(page.nodes.len(), page.next_page_token);
            let answered_by = &page.node;
            let view = |node| NodeView::new(node, answered_by, page.now.as_ref());
            list.nodes.extend(page.nodes.into_iter().map(view));
            (list.answered_by, list.now) = (id(answered_by), time(page.now.as_ref()));
        }
        list.next_page_token = paging.into_token();
        output.reply(&list)?;
        Ok(Exit::Done)
    }
}

#[derive(Debug, Default, Serialize)]
struct ListView {
    nodes: Vec<NodeView>,
    next_page_token: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    answered_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    now: Option<String>,
}

impl Reply for ListView {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        if self.nodes.is_empty() {
            // A node listens a moment before its first heartbeat is written.
            page.line("no nodes on this page")?;
        } else {
            let mut rows = vec![NodeView::HEADINGS.map(str::to_owned).to_vec()];
            rows.extend(self.nodes.iter().map(NodeView::row));
            page.table(&rows)?;
        }
        write_rest(page, &self.next_page_token)
    }
}
