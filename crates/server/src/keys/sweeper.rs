//! What has outlived its retention goes: in bounded batches, each no longer than a claim's would be,
//! and with as much pause between them as they took, so that claims never wait behind a purge.
//!
//! It removes only what the rule finds expired at that moment: a record that was written anew since
//! the index was read stays.

use std::sync::Arc;
use std::time::Duration;

use semel_domain::keys::layout::{Address, expired_until};
use semel_domain::keys::{Command, Outcome};
use semel_domain::time::Timestamp;
use semel_store::{Clock, Row, Space, Store, StoreError};

use super::transition::KeyTransition;
use crate::nodes::ClockGuard;
use crate::walk::walk;

/// Removes expired records.
pub(crate) struct Sweeper<S> {
    pub(crate) store: Arc<S>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) clock_guard: Arc<ClockGuard>,
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
        let expired = expired_until(Timestamp::from_micros(self.clock.now_us()));
        let mut removed = 0_usize;
        walk(&*self.store, &*self.clock, Space::Index, expired, async |rows| {
            removed += self.remove(&rows).await?;
            Ok(())
        })
        .await?;
        if removed > 0 {
            tracing::debug!(removed, "swept expired keys");
        }
        Ok(())
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
