//! Records of budgets and breakers that say no more than none would go, whoever wrote them: also those of
//! nodes that are gone, and with them the records of those nodes.
//!
//! They have no index by time: each round looks at all of them. What goes is the rule's to say, at that
//! moment.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_domain::keys::layout::Range;
use semel_domain::{breaker, budget, node};
use semel_store::{Clock, Space, Store, StoreError, Transition, Update};

use crate::nodes::ClockGuard;
use crate::walk::walk;
use crate::{breakers, nodes, retries};

/// Removes what nodes left behind.
pub(crate) struct Leftovers<S> {
    pub(crate) store: Arc<S>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) clock_guard: Arc<ClockGuard>,
    pub(crate) interval: Duration,
}

impl<S: Store> Leftovers<S> {
    /// Goes round every interval, for ever.
    pub(crate) async fn run(&self) {
        loop {
            tokio::time::sleep(self.interval).await;
            if self.clock_guard.is_off() {
                continue;
            }
            if let Err(error) = self.round().await {
                tracing::warn!(%error, "could not look for leftovers; trying again");
            }
        }
    }

    async fn round(&self) -> Result<(), StoreError> {
        self.look(budget::layout::records(), retries::expire).await?;
        self.look(breaker::layout::records(), breakers::expire).await?;
        self.look(node::layout::records(), nodes::expire).await
    }

    /// Lets the rule remove what it will of a range.
    async fn look<T: Transition>(
        &self,
        range: Range,
        expire: impl Fn(Bytes) -> Update<T>,
    ) -> Result<(), StoreError> {
        walk(&*self.store, &*self.clock, Space::Records, range, async |rows| {
            let updates = rows.into_iter().map(|row| expire(row.key));
            for result in self.store.update(updates.collect()).await {
                // One record that can't be removed must not keep the others.
                if let Err(error @ (StoreError::Unavailable(_) | StoreError::Unknown(_))) = result {
                    return Err(error);
                }
            }
            Ok(ControlFlow::Continue(()))
        })
        .await
        .map(drop)
    }
}
