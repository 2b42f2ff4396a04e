//! What a key stands for, as the command writes it down.

use bytes::Bytes;
use semel_proto::v1::Fingerprint;
use sha2::{Digest, Sha256};

/// The name of the digest that this file makes.
const ALGORITHM: &str = "semel-cli-sha256/v1";

/// The fingerprint of an operation with this payload: SHA-256 over both, each behind its length as
/// eight bytes, big end first, so that ("a","bc") and ("ab","c") differ.
pub(crate) fn of_payload(operation: &str, payload: &[u8]) -> Fingerprint {
    let mut digest = Sha256::new();
    for part in [operation.as_bytes(), payload] {
        let length = u64::try_from(part.len()).unwrap_or(u64::MAX);
        digest.update(length.to_be_bytes());
        digest.update(part);
    }
    Fingerprint {
        algorithm: ALGORITHM.to_owned(),
        digest: Bytes::copy_from_slice(&digest.finalize()),
    }
}

/// Reads `ALGORITHM:HEX`. The algorithm may contain colons itself.
pub(crate) fn parse(text: &str) -> Result<Fingerprint, String> {
    let (algorithm, digest) = text.rsplit_once(':').ok_or(
        "write it as ALGORITHM:HEX, for example sha256/v1:9f86d081884c7d659a2feaa0c55ad015",
    )?;
    let digest = hex::decode(digest).map_err(|error| format!("the digest: {error}"))?;
    Ok(Fingerprint { algorithm: algorithm.to_owned(), digest: digest.into() })
}

/// Writes `ALGORITHM:HEX`.
pub(crate) fn show(fingerprint: &Fingerprint) -> String {
    format!("{}:{}", fingerprint.algorithm, hex::encode(&fingerprint.digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_framed_by_their_length() {
        assert_ne!(of_payload("a", b"bc"), of_payload("ab", b"c"));
        assert_ne!(of_payload("a", b""), of_payload("", b"a"));
        assert_eq!(of_payload("a", b"bc"), of_payload("a", b"bc"));
    }

    #[test]
    fn the_digest_never_changes() {
        // printf '\0\0\0\0\0\0\0\017payments.charge\0\0\0\0\0\0\0\002hi' | sha256sum
        assert_eq!(
            show(&of_payload("payments.charge", b"hi")),
            "semel-cli-sha256/v1:2e653aadb1d4ac55a411461139d69a4257f4caacae81ea75da8abcd164e85ba3"
        );
    }

    #[test]
    fn what_is_shown_can_be_read_back() {
        let fingerprint = parse("urn:x/v1:00ff").unwrap();
        assert_eq!(fingerprint.algorithm, "urn:x/v1");
        assert_eq!(fingerprint.digest.as_ref(), [0, 255]);
        assert_eq!(parse(&show(&fingerprint)), Ok(fingerprint));
        for wrong in ["", "00ff", "a:0", "a:xy"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
