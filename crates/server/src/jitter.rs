//! Randomness that was handed in: a seed at the start, and from there one generator a thread.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// A source of jitter. Not for secrets.
pub(crate) struct Jitter(Mutex<SmallRng>);

impl Jitter {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Mutex::new(SmallRng::seed_from_u64(seed)))
    }

    /// Any number, each as likely.
    pub(crate) fn roll(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).random()
    }

    /// A number in [0, 1).
    pub(crate) fn share(&self) -> f64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).random()
    }

    /// A duration in (half of `most`, `most`].
    pub(crate) fn upper_half(&self, most: Duration) -> Duration {
        let mut generator = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        most.mul_f64(1.0 - generator.random_range(0.0..0.5))
    }
}
