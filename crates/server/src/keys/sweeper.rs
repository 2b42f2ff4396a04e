//! What has outlived its retention goes: in bounded batches, each no longer than a claim's would be,
//! and with as much pause between them as they took, so that claims never wait behind a purge.
//!
//! It removes only what the rule finds expired at that moment: a record that was written anew since
//! the index was read stays.

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use semel_domain::keys::layout::{Address, expired_until};
use semel_domain::keys::{Command, Outcome};
use semel_domain::time::Timestamp;
use semel_store::{Clock, Scan, Space, Store, StoreError};

use super::transition::KeyTransition;
use crate::nodes::ClockGuard;

/// Records removed in one batch.
const BATCH: usize = 256;
/// Bytes of index entries read for one batch.
const BATCH_BYTES: usize = 512 * 1024;

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
        let command = Arc::new(Command::Expire);
        let (mut start, end) = expired_until(Timestamp::from_micros(self.clock.now_us()));
        let mut removed = 0_usize;
        loop {
            let started_us = self.clock.monotonic_us();
            let scan = Scan {
                space: Space::Index,
                start,
                end: end.clone(),
                limit: BATCH,
                max_bytes: BATCH_BYTES,
            };
            let page = self.store.scan(scan).await?;
            let Some(last) = page.rows.last() else { break };
            let mut next = BytesMut::from(last.key.as_ref());
            next.put_u8(0);
            start = next.freeze();
            let addresses = page.rows.iter().filter_map(|row| Address::from_expiry_entry(&row.key));
            let updates = addresses.map(|address| {
                let record_key = address.record_key();
                let address = Arc::new(address);
                KeyTransition { address, command: Arc::clone(&command) }.into_update(record_key)
            });
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
            if !page.more {
                break;
            }
            let took = Duration::from_micros(self.clock.monotonic_us().saturating_sub(started_us));
            tokio::time::sleep(took).await;
        }
        if removed > 0 {
            tracing::debug!(removed, "swept expired keys");
        }
        Ok(())
    }
}
