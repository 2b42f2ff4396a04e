//! What a breaker is told: when it opens, for how long, and how it recovers.

use std::time::Duration;

use crate::limits::BREAKER_SLOTS;
use crate::time::micros;

/// The rules of one breaker. Complete and within its bounds: defaults are filled in at the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The share of failures that opens it, in thousandths: 1 to 1,000.
    pub failure_per_mille: u32,
    /// Outcomes count for this long: 1 s to 10 min.
    pub window: Duration,
    /// Fewer calls than this in the window never open it: 1 to 1,000,000.
    pub calls_min: u32,
    /// How long it stays open at first: 100 ms to 1 h.
    pub cool_down: Duration,
    /// The longest that it stays open: `cool_down` to 24 h.
    pub cool_down_max: Duration,
    /// Probes under way at once in the whole fleet: 1 to 100.
    pub probes_max: u32,
    /// Probes that must succeed one after another to close it: 1 to 100.
    pub successes_to_close: u32,
    /// A probe that takes longer is inconclusive: 100 ms to 1 h.
    pub probe_lease: Duration,
    /// How long each step of the ramp lasts: 0 to 10 min; 0: no ramp.
    pub ramp_step: Duration,
    /// A call that takes longer is slow; absent: the slow-call rule is off.
    pub slow_call: Option<Duration>,
    /// The share of slow calls that opens it, in thousandths: 1 to 1,000.
    pub slow_per_mille: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            failure_per_mille: 500,
            window: Duration::from_secs(30),
            calls_min: 20,
            cool_down: Duration::from_secs(30),
            cool_down_max: Duration::from_secs(5 * 60),
            probes_max: 1,
            successes_to_close: 3,
            probe_lease: Duration::from_secs(10),
            ramp_step: Duration::from_secs(5),
            slow_call: None,
            slow_per_mille: 1_000,
        }
    }
}

impl Policy {
    /// The length of one slot of the window.
    #[must_use]
    pub fn slot(&self) -> Duration {
        self.window / BREAKER_SLOTS
    }

    /// How many calls have to remain when one reporter is left out.
    #[must_use]
    pub fn corroboration_min(&self) -> u64 {
        u64::from(self.calls_min.div_ceil(4))
    }

    /// How long to stay open after `level` recoveries failed one after another: doubled with each,
    /// 20 % more or less by `random`, so that breakers do not probe in step; never over the longest.
    #[must_use]
    pub fn cool_down_after(&self, level: u32, random: u64) -> Duration {
        let doubled = self.cool_down.saturating_mul(1 << level.min(30)).min(self.cool_down_max);
        let per_mille = 800 + random % 401;
        let jittered = u128::from(micros(doubled)) * u128::from(per_mille) / 1_000;
        Duration::from_micros(u64::try_from(jittered).unwrap_or(u64::MAX)).min(self.cool_down_max)
    }

    /// The share of calls that is admitted `since` a recovery, in thousandths, and how long it is
    /// until the next step.
    #[must_use]
    pub fn ramp(&self, since: Duration) -> (u32, Option<Duration>) {
        for (share, step) in [50, 250, 500].into_iter().zip(1_u32..) {
            let end = self.ramp_step.saturating_mul(step);
            if since < end {
                return (share, Some(end.saturating_sub(since)));
            }
        }
        (1_000, None)
    }

    /// Whether a breaker that closed `since` is still on trial: opening again then counts as a
    /// failed recovery.
    #[must_use]
    pub fn is_on_trial(&self, since: Duration) -> bool {
        since < self.ramp_step.saturating_mul(3).saturating_add(self.window)
    }
}
