//! What a key stands for, as a digest.
//!
//! A key is for one intent. The fingerprint tells intents apart: a key that comes with another is refused
//! instead of being answered with what somebody else asked for. It is made of the operation, its target and
//! its arguments, each framed with its length, so that ("a", "bc") and ("ab", "c") differ. Attempts of one
//! intent must agree on it, so leave out what changes from attempt to attempt: trace ids, times of sending,
//! attempt numbers.
//!
//! ```
//! use semel_client::fingerprint::Intent;
//!
//! # fn main() -> Result<(), semel_client::fingerprint::JsonError> {
//! let intent = Intent::new("payments.charge", "account/77");
//! let first = serde_json::json!({"amount": 4200, "currency": "EUR", "trace": {"id": "a1"}});
//! let again = serde_json::json!({"trace": {"id": "b2"}, "currency": "EUR", "amount": 4200.0});
//! assert_eq!(
//!     intent.json_without(&first, &["/trace/id"])?,
//!     intent.json_without(&again, &["/trace/id"])?,
//! );
//! # Ok(())
//! # }
//! ```
//!
//! The name of the algorithm says how the digest was made, with a version: a digest by one is never compared
//! with a digest by another.

mod json;

use bytes::Bytes;
use semel_proto::v1;
use sha2::{Digest, Sha256};

pub use self::json::JsonError;

/// Arguments as bytes that the caller vouches for.
const BYTES: &str = "semel.v1/bytes-sha256";
/// Arguments as an encoded protobuf message.
const PROTOBUF: &str = "semel.v1/protobuf-sha256";
/// Arguments as canonical JSON.
const JSON: &str = "semel.v1/json-sha256";

/// A digest of what a key stands for, and how it was made.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    algorithm: String,
    digest: Bytes,
}

impl Fingerprint {
    /// One that you made yourself: an algorithm of 1 to 64 bytes of `[A-Za-z0-9._:/-]`, and a digest of 16
    /// to 64 bytes.
    #[must_use]
    pub fn new(algorithm: &str, digest: impl Into<Bytes>) -> Self {
        Self { algorithm: algorithm.to_owned(), digest: digest.into() }
    }

    /// How the digest was made.
    #[must_use]
    pub fn algorithm(&self) -> &str {
        &self.algorithm
    }

    /// The digest.
    #[must_use]
    pub const fn digest(&self) -> &Bytes {
        &self.digest
    }

    pub(crate) fn to_wire(&self) -> v1::Fingerprint {
        v1::Fingerprint { algorithm: self.algorithm.clone(), digest: self.digest.clone() }
    }
}

/// What is wanted: an operation on a target. Its arguments make a fingerprint of it.
#[derive(Clone, Copy, Debug)]
pub struct Intent<'a> {
    operation: &'a str,
    target: &'a str,
}

impl<'a> Intent<'a> {
    /// The wish to do `operation` to `target`: what is acted upon, e.g. an account. It may be empty if the
    /// arguments say it.
    #[must_use]
    pub const fn new(operation: &'a str, target: &'a str) -> Self {
        Self { operation, target }
    }

    /// With arguments as JSON, in the canonical form of RFC 8785: neither the order of names nor the way in
    /// which a number is written matters. What is no number, such as NaN, is null in JSON.
    ///
    /// # Errors
    ///
    /// The arguments are no JSON, or hold an integer that JSON's numbers can't tell from its neighbours
    /// (beyond 2^53): send it as a string.
    pub fn json(self, arguments: &impl serde::Serialize) -> Result<Fingerprint, JsonError> {
        self.json_without(arguments, &[])
    }

    /// As [`json`](Self::json), leaving out what these JSON pointers (RFC 6901, e.g. `/trace/id`) name. One
    /// that names nothing leaves nothing out.
    ///
    /// # Errors
    ///
    /// As [`json`](Self::json); or a pointer is malformed.
    pub fn json_without(
        self,
        arguments: &impl serde::Serialize,
        left_out: &[&str],
    ) -> Result<Fingerprint, JsonError> {
        let canonical = json::canonical(arguments, left_out)?;
        Ok(self.over(JSON, &canonical))
    }

    /// With arguments as an encoded protobuf message. The encoding must be the same for every attempt: made by
    /// one version of one library, without maps and unknown fields, or kept with the intent.
    #[must_use]
    pub fn protobuf(self, encoded: &[u8]) -> Fingerprint {
        self.over(PROTOBUF, encoded)
    }

    /// With arguments as any bytes that are the same for every attempt.
    #[must_use]
    pub fn bytes(self, arguments: &[u8]) -> Fingerprint {
        self.over(BYTES, arguments)
    }

    fn over(self, algorithm: &str, arguments: &[u8]) -> Fingerprint {
        let parts =
            [algorithm.as_bytes(), self.operation.as_bytes(), self.target.as_bytes(), arguments];
        let mut digest = Sha256::new();
        for part in parts {
            let length = u64::try_from(part.len()).unwrap_or(u64::MAX);
            digest.update(length.to_be_bytes());
            digest.update(part);
        }
        Fingerprint::new(algorithm, digest.finalize().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_run_into_each_other() {
        let prints = [
            Intent::new("a", "bc").bytes(b"d"),
            Intent::new("ab", "c").bytes(b"d"),
            Intent::new("a", "b").bytes(b"cd"),
            Intent::new("a", "bc").protobuf(b"d"),
        ];
        for (place, print) in prints.iter().enumerate() {
            assert!(!prints[..place].contains(print), "{print:?}");
        }
    }

    #[test]
    fn the_digest_stays_what_it_is() {
        // Stored with keys for up to a month: a change of it needs another name.
        let print = Intent::new("payments.charge", "account/77").bytes(b"4200 EUR");
        assert_eq!(print.algorithm(), "semel.v1/bytes-sha256");
        let mut framed = Vec::new();
        for part in [print.algorithm(), "payments.charge", "account/77", "4200 EUR"] {
            framed.extend(u64::try_from(part.len()).unwrap().to_be_bytes());
            framed.extend(part.as_bytes());
        }
        assert_eq!(print.digest()[..], Sha256::digest(framed)[..]);
    }
}
