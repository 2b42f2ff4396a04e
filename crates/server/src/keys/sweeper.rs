//! What has outlived its retention goes: in bounded batches, each no longer than a claim's would be,
//! and with as much pause between them as they took, so that claims never wait behind a purge.
//!
//! Nodes over one store sweep together: each begins at another age, and goes elsewhere when it finds that most
//! of a page is gone already. Nothing is locked for that, so a node that stands still keeps nobody from
//! sweeping.
//!
//! It removes only what the rule finds expired at that moment: a record that was written anew since
//! the index was read stays.

use std::ops::ControlFlow::{Break, Continue};
use std::sync::Arc;
use std::time::Duration;

use semel_domain::keys::layout::{Address, expired_between, expired_until, expiry_of};
use semel_domain::keys::{Command, Outcome};
use semel_domain::time::Timestamp;
use semel_store::{Clock, Row, Scan, Space, Store, StoreError};

use super::transition::KeyTransition;
use crate::jitter::Jitter;
use crate::nodes::ClockGuard;
use crate::walk::{PAGE, PAGE_BYTES, walk};

/// How often one sweep makes way for other nodes. Then it goes on all the same, so it comes to an end.
const MEETINGS: u32 = 16;

/// Removes expired records.
pub(crate) struct Sweeper<S> {
    pub(crate) store: Arc<S>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) clock_guard: Arc<ClockGuard>,
    pub(crate) jitter: Jitter,
    pub(crate) interval: Duration,
}

impl<S: Store> Sweeper<S> {
    /// Sweeps every interval, for ever. `report` is told each time whether the node is well: the store
    /// answered, and the node's clock is right. While it is not, there is no sweep.
    pub(crate) async fn run(&self, mut report: impl AsyncFnMut(bool)) {
        loop {
            let well = !self.clock_guard.is_off() && self.sweep().await;
            report(well).await;
            tokio::time::sleep(self.interval).await;
        }
    }

    /// Sweeps once. Whether the store answered.
    async fn sweep(&self) -> bool {
        let result = self.remove_expired().await;
        if let Err(error) = &result {
            tracing::warn!(%error, "could not sweep expired keys; trying again");
        }
        result.is_ok()
    }

    /// Removes all that is expired now.
    async fn remove_expired(&self) -> Result<(), StoreError> {
        let now = Timestamp::from_micros(self.clock.now_us());
        let (start, end) = expired_until(now);
        let first = Scan { space: Space::Index, start, end, limit: PAGE, max_bytes: PAGE_BYTES };
        let page = self.store.scan(first).await?;
        let removed = match page.rows.first().and_then(|row| expiry_of(&row.key)) {
            Some(oldest) if page.more => self.share_out(oldest, now).await?,
            _ => self.remove(&page.rows).await?,
        };
        if removed > 0 {
            tracing::debug!(removed, "swept expired keys");
        }
        Ok(())
    }

    /// Removes what expired from `oldest` to `now`, together with the nodes that do the same: each begins
    /// somewhere, and goes elsewhere when it meets another.
    async fn share_out(&self, oldest: Timestamp, now: Timestamp) -> Result<usize, StoreError> {
        let mut removed = 0;
        // Nothing expired from here on.
        let mut newest = now;
        let somewhere =
            |newest: Timestamp| oldest.after(newest.since(oldest).mul_f64(self.jitter.share()));
        let mut meetings = 0;
        let mut from = somewhere(newest);
        loop {
            let range = expired_between(from, now);
            let mut seen = 0;
            let walked = walk(&*self.store, &*self.clock, Space::Index, range, async |rows| {
                let taken = self.remove(&rows).await?;
                removed += taken;
                seen += rows.len();
                let met = rows.len() >= PAGE / 2 && taken < rows.len() / 2;
                Ok(if met && meetings < MEETINGS { Break(()) } else { Continue(()) })
            });
            if walked.await?.is_break() {
                meetings += 1;
                from = somewhere(newest);
            } else if from == oldest {
                return Ok(removed);
            } else {
                newest = from;
                // If there was nothing, all of it is older, perhaps by far.
                from = if seen == 0 { somewhere(newest) } else { oldest };
            }
        }
    }

    /// Removes the records that these entries of the index name, and that the rule finds expired. How many
    /// that were.
    async fn remove(&self, entries: &[Row]) -> Result<usize, StoreError> {
        let command = Arc::new(Command::Expire);
        let addresses = entries.iter().filter_map(|row| Address::from_expiry_entry(&row.key));
        let updates = addresses.map(|address| {
            let record_key = address.record_key();
            let address = Arc::new(address);
            KeyTransition { address, command: Arc::clone(&command) }.into_update(record_key)
        });
        let mut removed = 0;
        for result in self.store.update(updates.collect()).await {
            match result {
                // One record that can't be removed must not keep the others.
                Err(StoreError::Invalid(error)) => {
                    tracing::error!(%error, "an expired record can't be removed");
                }
                Err(error) => return Err(error),
                Ok(Ok(decided)) if decided.outcome == (Outcome::Expire { removed: true }) => {
                    removed += 1;
                }
                Ok(Ok(_)) => {}
                Ok(Err(error)) => tracing::error!(%error, "an expired record can't be read"),
            }
        }
        Ok(removed)
    }
}
