//! Random bytes out of one seed: owner ids, jitter, and the choice of nodes.
//!
//! The n-th draw is the SHA-256 of the seed and n: as hard to guess as the seed, and never the same twice.

use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};

use super::error::Error;

pub(crate) struct Randomness {
    seed: [u8; 32],
    drawn: AtomicU64,
}

impl Randomness {
    pub(crate) const fn new(seed: [u8; 32]) -> Self {
        Self { seed, drawn: AtomicU64::new(0) }
    }

    /// With a seed of the machine's own.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where a seed is drawn, if none was given"
    )]
    pub(crate) fn of_the_machine() -> Result<Self, Error> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| {
            Error::Settings(format!("the machine gives no random seed: {error}"))
        })?;
        Ok(Self::new(seed))
    }

    fn draw<const N: usize>(&self) -> [u8; N] {
        const { assert!(N <= 32) };
        let number = self.drawn.fetch_add(1, Ordering::Relaxed);
        let digest = Sha256::new().chain_update(self.seed).chain_update(number.to_be_bytes());
        let digest: [u8; 32] = digest.finalize().into();
        let mut drawn = [0; N];
        drawn.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
        drawn
    }

    /// 16 bytes that nobody else draws.
    pub(crate) fn id(&self) -> [u8; 16] {
        self.draw()
    }

    pub(crate) fn number(&self) -> u64 {
        u64::from_be_bytes(self.draw())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_differ_and_follow_from_the_seed() {
        let (first, again) = (Randomness::new([1; 32]), Randomness::new([1; 32]));
        let drawn = [first.id(), first.id(), first.id()];
        assert_ne!(drawn[0], drawn[1]);
        assert_ne!(drawn[1], drawn[2]);
        assert_eq!(drawn, [again.id(), again.id(), again.id()]);
        assert_ne!(Randomness::new([2; 32]).id(), drawn[0]);
    }
}
