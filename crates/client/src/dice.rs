//! Randomness as a value that is handed in: a seed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Where owner ids, jitter and the choice of nodes come from. Cheap to clone; all clones draw from the same
/// sequence, which is as hard to guess as its seed.
///
/// Seed it anew at each start of the process: two that share a seed are taken for one, and come back in step.
#[derive(Clone)]
pub struct Dice(Arc<Mutex<StdRng>>);

impl Dice {
    /// The sequence of this seed: for tests and simulations.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self::of(StdRng::seed_from_u64(seed))
    }

    /// The sequence of these random bytes.
    #[must_use]
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self::of(StdRng::from_seed(seed))
    }

    /// A sequence that nobody else has: what is right in production.
    ///
    /// # Errors
    ///
    /// The machine gives no random bytes.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where a seed is drawn, if none was given"
    )]
    pub fn of_the_machine() -> std::io::Result<Self> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(std::io::Error::other)?;
        Ok(Self::from_seed(seed))
    }

    fn of(source: StdRng) -> Self {
        Self(Arc::new(Mutex::new(source)))
    }

    /// A uniform number.
    #[must_use]
    pub fn roll(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }

    /// 16 uniform bytes that nobody else draws.
    pub(crate) fn id(&self) -> [u8; 16] {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_differ_and_follow_from_the_seed() {
        let (first, again) = (Dice::from_seed([1; 32]), Dice::from_seed([1; 32]));
        let drawn = [first.id(), first.id(), first.clone().id()];
        assert_ne!(drawn[0], drawn[1]);
        assert_ne!(drawn[1], drawn[2]);
        assert_eq!(drawn, [again.id(), again.id(), again.id()]);
        assert_ne!(Dice::from_seed([2; 32]).id(), drawn[0]);
        assert_ne!(Dice::of_the_machine().unwrap().id(), Dice::of_the_machine().unwrap().id());
    }
}
