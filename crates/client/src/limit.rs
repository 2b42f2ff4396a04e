//! A bound of the settings that was met.

use thiserror::Error;

/// One more would be more than the client's settings allow to be followed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "the client follows {limit} {what}, as many as its settings allow: raise `{what}_max`, or use fewer"
)]
#[non_exhaustive]
pub struct LimitReached {
    /// Of what: "budgets" or "breakers".
    pub what: &'static str,
    /// How many there may be.
    pub limit: usize,
}
