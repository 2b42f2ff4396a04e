//! What a key stands for: digests of the operation, its target and its arguments.
//!
//! A fingerprint never holds the payload. It is set once, with the first claim, and no later change
//! of the record touches it.

use bytes::Bytes;

use crate::limits::{ALGORITHM_MAX_BYTES, DIGEST_MAX_BYTES, DIGEST_MIN_BYTES, FINGERPRINTS_MAX};
use crate::name::{NameError, check_name};

/// One digest, with the name of how it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    algorithm: Box<str>,
    digest: Bytes,
}

impl Fingerprint {
    /// Checks the parts.
    ///
    /// # Errors
    ///
    /// What is wrong with the algorithm's name or the digest's length.
    pub fn new(algorithm: &str, digest: Bytes) -> Result<Self, FingerprintError> {
        check_name(algorithm, ALGORITHM_MAX_BYTES).map_err(FingerprintError::Algorithm)?;
        if !(DIGEST_MIN_BYTES..=DIGEST_MAX_BYTES).contains(&digest.len()) {
            return Err(FingerprintError::DigestLength(digest.len()));
        }
        Ok(Self { algorithm: algorithm.into(), digest })
    }

    /// How the digest was made.
    #[must_use]
    pub fn algorithm(&self) -> &str {
        &self.algorithm
    }

    /// The digest: 16 to 64 bytes.
    #[must_use]
    pub fn digest(&self) -> &Bytes {
        &self.digest
    }
}

/// Why fingerprints are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FingerprintError {
    /// The name of the algorithm is malformed.
    #[error("the algorithm {0}")]
    Algorithm(NameError),
    /// The digest is too short or too long.
    #[error("the digest must have {DIGEST_MIN_BYTES} to {DIGEST_MAX_BYTES} bytes, but has {0}")]
    DigestLength(usize),
    /// There are none, or too many.
    #[error("give 1 to {FINGERPRINTS_MAX} fingerprints, not {0}")]
    Count(usize),
    /// One algorithm is there twice.
    #[error("the algorithm {0:?} is given twice")]
    Repeated(Box<str>),
}

/// The fingerprints of one request or record: 1 to 4, each of another algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprints(Vec<Fingerprint>);

/// How two sets of fingerprints compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// They share an algorithm, and agree on every one that they share.
    Same,
    /// They disagree on an algorithm that they share.
    Different,
    /// They share no algorithm: nobody can tell.
    Incomparable,
}

impl Fingerprints {
    /// Checks the number and that no algorithm repeats.
    ///
    /// # Errors
    ///
    /// [`FingerprintError::Count`] or [`FingerprintError::Repeated`].
    pub fn new(all: Vec<Fingerprint>) -> Result<Self, FingerprintError> {
        if all.is_empty() || all.len() > FINGERPRINTS_MAX {
            return Err(FingerprintError::Count(all.len()));
        }
        for (position, one) in all.iter().enumerate() {
            if all.iter().skip(position + 1).any(|other| other.algorithm == one.algorithm) {
                return Err(FingerprintError::Repeated(one.algorithm.clone()));
            }
        }
        Ok(Self(all))
    }

    /// The fingerprints, in the order given.
    pub fn iter(&self) -> std::slice::Iter<'_, Fingerprint> {
        self.0.iter()
    }

    /// How many there are.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "never empty, by construction")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Compares with another set, algorithm by algorithm.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Comparison {
        let mut comparison = Comparison::Incomparable;
        for one in &self.0 {
            match other.0.iter().find(|another| another.algorithm == one.algorithm) {
                Some(another) if another.digest != one.digest => return Comparison::Different,
                Some(_) => comparison = Comparison::Same,
                None => {}
            }
        }
        comparison
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(algorithm: &str, byte: u8) -> Fingerprint {
        Fingerprint::new(algorithm, Bytes::from(vec![byte; 32])).expect("valid")
    }

    fn set(all: &[(&str, u8)]) -> Fingerprints {
        Fingerprints::new(all.iter().map(|&(algorithm, byte)| one(algorithm, byte)).collect())
            .expect("valid")
    }

    #[test]
    fn sets_are_compared_on_every_shared_algorithm() {
        let table: [(&[(&str, u8)], Comparison); 5] = [
            (&[("a", 1)], Comparison::Same),
            (&[("a", 2)], Comparison::Different),
            (&[("c", 1)], Comparison::Incomparable),
            (&[("c", 9), ("b", 2)], Comparison::Same),
            (&[("a", 1), ("b", 9)], Comparison::Different),
        ];
        for (other, expected) in table {
            assert_eq!(set(&[("a", 1), ("b", 2)]).compare(&set(other)), expected, "{other:?}");
        }
    }

    #[test]
    fn malformed_fingerprints_are_refused() {
        let short = Fingerprint::new("a", Bytes::from(vec![1; 15]));
        assert_eq!(short, Err(FingerprintError::DigestLength(15)));
        assert!(Fingerprint::new("", Bytes::from(vec![1; 32])).is_err());
        assert_eq!(Fingerprints::new(vec![]), Err(FingerprintError::Count(0)));
        assert_eq!(Fingerprints::new(vec![one("a", 1); 5]), Err(FingerprintError::Count(5)));
        let twice = Fingerprints::new(vec![one("a", 1), one("a", 1)]);
        assert_eq!(twice, Err(FingerprintError::Repeated("a".into())));
    }
}
