//! What the owner of the breakers decides.

use std::time::Duration;

use crate::metrics::Metrics;

/// The most breakers that one client watches, as in the contract.
pub(super) const WATCHED_MAX: usize = 256;

/// The settings of [`Breakers`](super::Breakers).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BreakerSettings {
    /// The most breakers that are followed: 1 to 256. Default: 256.
    pub breakers_max: usize,
    /// How long outcomes are gathered before they are reported. Default: 200 ms.
    pub report_every: Duration,
    /// How long one call to the node may take. Default: 500 ms.
    pub call_timeout: Duration,
    /// Where changes are counted. Default: the application's meter provider.
    pub metrics: Metrics,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self {
            breakers_max: WATCHED_MAX,
            report_every: Duration::from_millis(200),
            call_timeout: Duration::from_millis(500),
            metrics: Metrics::global(),
        }
    }
}
