//! What the owner of a client decides.

use std::time::Duration;

/// The settings of [`RetryTokens`](super::RetryTokens).
#[derive(Clone, Debug)]
pub struct Settings {
    /// The client's incarnation: 16 random bytes, made anew at each start of the process. Two processes
    /// with the same would be taken for one, and each would lose what the other was granted.
    pub incarnation: [u8; 16],
    /// How many tokens are held of a budget with traffic but without retries, so that the first retry
    /// finds one: 0 to 100,000. Default: 2.
    pub at_hand: u32,
    /// The most budgets that are followed: at least 1. Default: 1,000.
    pub budgets_max: usize,
    /// How long one call to the node may take. Default: 500 ms.
    pub call_timeout: Duration,
}

impl Settings {
    /// The defaults, for this incarnation.
    #[must_use]
    pub const fn new(incarnation: [u8; 16]) -> Self {
        Self {
            incarnation,
            at_hand: 2,
            budgets_max: 1_000,
            call_timeout: Duration::from_millis(500),
        }
    }
}
