//! The calls of operators. Each leaves a line in the audit log (target `semel::audit`).

use std::sync::Arc;

use semel_domain::node::layout::{from_record_key, records};
use semel_domain::node::{Command, NodeId, decode, is_live};
use semel_domain::time::Timestamp;
use semel_proto::v1;
use semel_store::{Clock, Scan, Space, Store};
use tonic::{Request, Response, Status};

use super::reply;
use super::transition::update;
use crate::audit::audit;
use crate::deadline::Deadline;
use crate::pages::{EXAMINED_MAX, EXAMINED_MAX_BYTES, next_token, page_size, resume_after};
use crate::refusal::Refusal;
use crate::settle;
use crate::wire::wire_time;

/// The Admin service.
pub(crate) struct AdminService<S> {
    pub(crate) store: Arc<S>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) node: NodeId,
}

impl<S: Store> AdminService<S> {
    async fn list(
        &self,
        request: v1::ListNodesRequest,
        deadline: Deadline,
    ) -> Result<v1::ListNodesResponse, Refusal> {
        let size = page_size(request.page_size)?;
        let (mut start, end) = records();
        if !request.page_token.is_empty() {
            start = resume_after(&request.page_token, &start, &end)?;
        }
        let now = self.store_time(deadline).await?;
        let scan = Scan {
            space: Space::Records,
            start,
            end,
            limit: EXAMINED_MAX,
            max_bytes: EXAMINED_MAX_BYTES,
        };
        let page = self.store.scan(scan).await.map_err(|error| settle::refuse(&error))?;
        audit!("list-nodes",);
        let (mut nodes, mut last) = (Vec::new(), None);
        let mut rows = page.rows.into_iter().peekable();
        while nodes.len() < size
            && let Some(row) = rows.next()
        {
            if let Some(of) = from_record_key(&row.key) {
                match decode(&row.value) {
                    Ok(record) if is_live(&record, now) => nodes.push(reply::snapshot(of, &record)),
                    Ok(_) => {}
                    // It must not hide, nor hide those behind it.
                    Err(error) => {
                        tracing::error!(%error, node = ?of, "the record of a node can't be read");
                        nodes.push(reply::unreadable(of));
                    }
                }
            }
            last = Some(row.key);
        }
        let more = page.more || rows.peek().is_some();
        Ok(v1::ListNodesResponse {
            nodes,
            next_page_token: next_token(more, last.as_ref()),
            node: reply::id(self.node),
            now: Some(wire_time(now)),
        })
    }

    /// What time it is for the store: only by that can be said who is live.
    async fn store_time(&self, deadline: Deadline) -> Result<Timestamp, Refusal> {
        let read = update(self.node, Command::Get);
        settle::update(&*self.store, &*self.clock, deadline, read).await.map(|decided| decided.now)
    }
}

#[tonic::async_trait]
impl<S: Store> v1::admin_server::Admin for AdminService<S> {
    async fn list_nodes(
        &self,
        request: Request<v1::ListNodesRequest>,
    ) -> Result<Response<v1::ListNodesResponse>, Status> {
        let deadline = Deadline::of_call(request.metadata(), &*self.clock);
        deadline.answer(self.list(request.into_inner(), deadline).await, &*self.clock)
    }
}
