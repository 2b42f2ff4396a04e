//! How long the database may take for a statement: as long as somebody waits for it.
//!
//! Invariants: a statement is given up by the database itself, lock or not, soon after the last of those who
//! wait for it is gone, and never later than the options say; a session is told only when that changes.

use std::time::Duration;

use crate::options::PostgresOptions;

/// The least limit: below it, a busy database would undo what is nearly done.
const LEAST_MS: u64 = 250;

/// The limits of a statement, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) statement_ms: u64,
    pub(crate) lock_ms: u64,
}

impl Limits {
    /// What the options say.
    pub(crate) fn of(options: &PostgresOptions) -> Self {
        Self { statement_ms: options.statement_timeout_ms, lock_ms: options.lock_timeout_ms }
    }

    /// The limits for those who wait no longer than `patience`. Rounded up to a few sizes, so that they seldom
    /// change.
    pub(crate) fn within(self, patience: Option<Duration>) -> Self {
        let wanted_ms = patience.map_or(u64::MAX, |patience| {
            let wanted_ms = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
            wanted_ms.max(LEAST_MS).checked_next_power_of_two().unwrap_or(u64::MAX)
        });
        Self {
            statement_ms: wanted_ms.min(self.statement_ms),
            lock_ms: wanted_ms.min(self.lock_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_follow_the_longest_wait_up_to_the_options() {
        let options = PostgresOptions::parse("host=localhost user=ann").unwrap();
        let limits = |patience_ms: Option<u64>| {
            let limits = Limits::of(&options).within(patience_ms.map(Duration::from_millis));
            (limits.statement_ms, limits.lock_ms)
        };
        assert_eq!(limits(None), (10_000, 2_000));
        assert_eq!(limits(Some(0)), (256, 256));
        assert_eq!(limits(Some(300)), (512, 512));
        assert_eq!(limits(Some(1_500)), (2_048, 2_000));
        assert_eq!(limits(Some(u64::MAX)), (10_000, 2_000));
    }
}
