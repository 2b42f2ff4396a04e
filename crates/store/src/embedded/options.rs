//! What can be chosen when a store is opened, with defaults for one node on a small machine.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::error::OpenError;
use crate::clock::{Clock, SystemClock};

/// How to open an [`EmbeddedStore`](super::EmbeddedStore).
#[derive(Clone)]
pub struct EmbeddedOptions {
    /// The data directory. It is created if it does not exist, and belongs to one process at a
    /// time.
    pub path: PathBuf,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// Memory for blocks that were read from disk, in bytes: at least 8 MiB, 64 MiB by default.
    pub cache_bytes: u64,
    /// How much is written before it is moved from memory to a table, in bytes: 8 MiB to 1 GiB,
    /// 16 MiB by default. Up to four times as much waits in memory and is replayed after a crash,
    /// which takes about 20 ms for each MiB.
    pub memtable_bytes: u64,
    /// How many changes one commit may carry: 1 to 100,000, 8,192 by default.
    pub group_writes: usize,
    /// How many bytes of changes one commit may carry before it is closed: 64 KiB to 8 MiB, 4 MiB
    /// by default. A single larger change still fits.
    pub group_bytes: usize,
    /// How many updates may wait to be decided: 4,096 to 1,000,000, 16,384 by default. Who comes
    /// when they are all taken waits for room.
    pub queue_updates: usize,
    /// How many scans may wait: 1 to 10,000, 64 by default. Who comes later waits for room.
    pub queue_scans: usize,
}

impl EmbeddedOptions {
    /// The defaults, with the machine's clock.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            clock: Arc::new(SystemClock),
            cache_bytes: 64 << 20,
            memtable_bytes: 16 << 20,
            group_writes: 8_192,
            group_bytes: 4 << 20,
            queue_updates: 16_384,
            queue_scans: 64,
        }
    }

    /// The same with another clock.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    pub(super) fn check(&self) -> Result<(), OpenError> {
        let length = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
        let checks = [
            ("cache_bytes", self.cache_bytes, 8 << 20..=u64::MAX, "at least 8 MiB"),
            ("memtable_bytes", self.memtable_bytes, 8 << 20..=1 << 30, "8 MiB to 1 GiB"),
            ("group_writes", length(self.group_writes), 1..=100_000, "1 to 100,000"),
            ("group_bytes", length(self.group_bytes), 64 << 10..=8 << 20, "64 KiB to 8 MiB"),
            ("queue_updates", length(self.queue_updates), 4_096..=1_000_000, "4,096 to 1,000,000"),
            ("queue_scans", length(self.queue_scans), 1..=10_000, "1 to 10,000"),
        ];
        for (option, found, range, allowed) in checks {
            if !range.contains(&found) {
                return Err(OpenError::Option { option, found, allowed });
            }
        }
        Ok(())
    }
}

impl fmt::Debug for EmbeddedOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("EmbeddedOptions")
            .field("path", &self.path)
            .field("cache_bytes", &self.cache_bytes)
            .field("memtable_bytes", &self.memtable_bytes)
            .field("group_writes", &self.group_writes)
            .field("group_bytes", &self.group_bytes)
            .field("queue_updates", &self.queue_updates)
            .field("queue_scans", &self.queue_scans)
            .finish_non_exhaustive()
    }
}
