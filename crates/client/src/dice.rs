//! Randomness as a value that is handed in: a seed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Where jitter comes from. Cheap to clone; all clones draw from the same sequence. Not for secrets.
///
/// Seed it anew at each start of the process: fleets that share a seed come back in step.
#[derive(Clone)]
pub struct Dice(Arc<Mutex<SmallRng>>);

impl Dice {
    /// The sequence of this seed.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(SmallRng::seed_from_u64(seed))))
    }

    /// A uniform number.
    #[must_use]
    pub fn roll(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }

    /// 16 uniform bytes.
    pub(crate) fn bytes(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        self.0.lock().unwrap_or_else(PoisonError::into_inner).fill_bytes(&mut bytes);
        bytes
    }
}

impl std::fmt::Debug for Dice {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Dice").finish_non_exhaustive()
    }
}

/// A duration in [`least`, `most`], by `roll`.
pub(crate) fn between(least: Duration, most: Duration, roll: u64) -> Duration {
    let span = most.saturating_sub(least).as_nanos();
    let part = span.saturating_mul(u128::from(roll)) / u128::from(u64::MAX);
    least.saturating_add(Duration::from_nanos(u64::try_from(part).unwrap_or(u64::MAX)))
}
