//! Records of budgets and breakers that say no more than none would go, whoever wrote them: also those of
//! nodes that are gone, and with them the records of those nodes.
//!
//! They have no index by time: each round looks at all of them, page by page, with as much pause between
//! the pages as they took. What goes is the rule's to say, at that moment.

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use semel_domain::{breaker, budget, node};
use semel_store::{Clock, Scan, Space, Store, StoreError, Transition, Update};

use crate::nodes::ClockGuard;
use crate::{breakers, nodes, retries};

/// Records looked at in one batch.
const BATCH: usize = 256;
/// Bytes of records read for one batch.
const BATCH_BYTES: usize = 512 * 1024;

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
        (mut start, end): (Bytes, Bytes),
        expire: impl Fn(Bytes) -> Update<T>,
    ) -> Result<(), StoreError> {
        loop {
            let started_us = self.clock.monotonic_us();
            let (space, end) = (Space::Records, end.clone());
            let scan = Scan { space, start, end, limit: BATCH, max_bytes: BATCH_BYTES };
            let page = self.store.scan(scan).await?;
            let Some(last) = page.rows.last() else { return Ok(()) };
            let mut next = BytesMut::from(last.key.as_ref());
            next.put_u8(0);
            start = next.freeze();
            let updates = page.rows.into_iter().map(|row| expire(row.key));
            for result in self.store.update(updates.collect()).await {
                // One record that can't be removed must not keep the others.
                if let Err(error @ (StoreError::Unavailable(_) | StoreError::Unknown(_))) = result {
                    return Err(error);
                }
            }
            if !page.more {
                return Ok(());
            }
            let took_us = self.clock.monotonic_us().saturating_sub(started_us);
            tokio::time::sleep(Duration::from_micros(took_us)).await;
        }
    }
}
