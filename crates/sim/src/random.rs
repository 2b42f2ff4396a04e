//! Chance that was handed in: one seed a run, and from there a generator for each who needs one.

use std::time::Duration;

use bytes::Bytes;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, RngExt, SeedableRng};

/// A source of chance. The algorithm is named, not the library's choice, since a seed that found a
/// fault must find it again.
#[derive(Clone, Debug)]
pub(crate) struct Random(Xoshiro256PlusPlus);

impl Random {
    /// The source that `seed` gives.
    pub(crate) fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Another source, for somebody whose draws must not shift those of others.
    pub(crate) fn fork(&mut self) -> Self {
        Self::new(self.next())
    }

    /// Any number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number from `least` to `most`, both included.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        self.0.random_range(least..=most.max(least))
    }

    /// A position in a list of `length`; 0 in an empty one.
    pub(crate) fn position(&mut self, length: usize) -> usize {
        self.0.random_range(0..length.max(1))
    }

    /// One of `choices`.
    pub(crate) fn pick<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        choices.get(self.position(choices.len()))
    }

    /// A share from 0 to 1, 1 excluded.
    pub(crate) fn share(&mut self) -> f64 {
        self.0.random_range(0.0..1.0)
    }

    /// Whether something happens that does so this often in a thousand.
    pub(crate) fn happens(&mut self, per_mille: u64) -> bool {
        per_mille > 0 && self.between(0, 999) < per_mille
    }

    /// A duration of whole milliseconds, both bounds included.
    pub(crate) fn millis(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(self.between(least, most))
    }

    /// 16 random bytes: an owner, an incarnation, a request.
    pub(crate) fn id(&mut self) -> Bytes {
        let mut id = [0; 16];
        self.0.fill_bytes(&mut id);
        Bytes::copy_from_slice(&id)
    }
}
