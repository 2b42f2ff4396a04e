//! How much is asked for of a share: what a node asks the store for ahead of time.

use std::time::Duration;

use super::ledger::SLOT;
use crate::time::{Timestamp, micros};

/// How much was asked for lately.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Demand {
    /// What was asked for in a second, before the stretch that is not over yet.
    pub(super) per_second_milli: u64,
    /// What was asked for since the last sync.
    pub(super) since_milli: u64,
    pub(super) since: Timestamp,
    /// What of it could not be paid.
    pub(super) unmet_milli: u64,
    /// What of that was for calls of high criticality.
    pub(super) unmet_high_milli: u64,
}

impl Demand {
    /// Closes the stretch since the last sync: a new rate, falling no faster than by half.
    pub(super) fn close(&mut self, now: Timestamp) {
        let elapsed = micros(now.since(self.since)).max(micros(SLOT));
        let rate = u128::from(self.since_milli) * 1_000_000 / u128::from(elapsed);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        self.per_second_milli = rate.max(self.per_second_milli / 2);
        (self.since_milli, self.since) = (0, now);
        (self.unmet_milli, self.unmet_high_milli) = (0, 0);
    }

    /// What is likely to be asked for in `stretch`.
    pub(super) fn within(&self, stretch: Duration) -> u64 {
        let milli = u128::from(self.per_second_milli) * u128::from(micros(stretch)) / 1_000_000;
        u64::try_from(milli).unwrap_or(u64::MAX)
    }
}
