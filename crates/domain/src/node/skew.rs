//! How far a node's clock is off from the store's, and how sure that is.
//!
//! The store reads its clock at some moment between a question and its answer. A node that takes the
//! middle of its own two readings for that moment is wrong by half of the round trip at the most.

use std::time::Duration;

use crate::time::{Timestamp, micros};

/// One measurement of a clock against the store's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockSample {
    /// The node's clock minus the store's, in microseconds.
    pub offset_us: i64,
    /// How long the answer took. The offset may be wrong by half of it.
    pub round_trip: Duration,
}

impl ClockSample {
    /// What a question tells that was sent at `sent` and answered at `answered`, both by the node's
    /// clock, and seen by the store at `seen` by its own. `took` is how long that took by a clock that
    /// never steps: a wall clock that was set meanwhile makes the measurement less sure, never wrong.
    #[must_use]
    pub fn measured(sent: Timestamp, answered: Timestamp, took: Duration, seen: Timestamp) -> Self {
        let (first, last) = (sent.min(answered), sent.max(answered));
        let apart = last.since(first);
        let middle = first.after(apart / 2);
        Self { offset_us: difference_us(middle, seen), round_trip: took.max(apart) }
    }

    /// Whether the clock is off by more than `allowed` for certain, however the round trip was spent.
    #[must_use]
    pub fn is_off(&self, allowed: Duration) -> bool {
        let certain_us = self.offset_us.unsigned_abs().saturating_sub(micros(self.round_trip) / 2);
        certain_us > micros(allowed)
    }

    /// Whether the clock seems to be off by no more than `allowed`.
    #[must_use]
    pub fn seems_right(&self, allowed: Duration) -> bool {
        self.offset_us.unsigned_abs() <= micros(allowed)
    }
}

/// How much `one` is ahead of `other`, saturating.
fn difference_us(one: Timestamp, other: Timestamp) -> i64 {
    let clamped = |duration| i64::try_from(micros(duration)).unwrap_or(i64::MAX);
    if one >= other { clamped(one.since(other)) } else { -clamped(other.since(one)) }
}
