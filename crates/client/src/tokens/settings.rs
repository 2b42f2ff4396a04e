//! What the owner of the tokens decides.

use std::time::Duration;

/// The settings of [`RetryTokens`](super::RetryTokens).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RetryTokenSettings {
    /// How many tokens are held of a budget with traffic but without retries, so that the first retry
    /// finds one: 0 to 100,000. Default: 2.
    pub at_hand: u32,
    /// The most budgets that are followed: at least 1. Default: 1,000.
    pub budgets_max: usize,
    /// How long one call to the node may take. Default: 500 ms.
    pub call_timeout: Duration,
}

impl Default for RetryTokenSettings {
    fn default() -> Self {
        Self { at_hand: 2, budgets_max: 1_000, call_timeout: Duration::from_millis(500) }
    }
}
