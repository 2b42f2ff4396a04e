//! Stored bodies: hashed on the way in, compressed where that pays, and given back byte for byte.

use bytes::Bytes;
use semel_domain::response::{Body, Content};
use sha2::{Digest, Sha256};

use crate::options::BODY_LIMIT_MAX_BYTES;

/// Bodies below this are stored as they are: compressing them saves too little.
const COMPRESS_MIN_BYTES: usize = 1024;
/// Fast, and most of what a higher level would save.
const COMPRESSION_LEVEL: i32 = 1;

/// What to store of `body`: all of it, or its digest if it is over the limit. Never a part of it.
pub(crate) fn store(body: Bytes, limit_bytes: usize) -> Body {
    let length = u64::try_from(body.len()).unwrap_or(u64::MAX);
    let sha256 = Sha256::digest(&body).into();
    let content = if body.len() > limit_bytes { Content::OmittedTooLarge } else { compress(body) };
    Body { length, sha256, content }
}

/// Compresses where it saves at least a tenth.
fn compress(body: Bytes) -> Content {
    if body.len() < COMPRESS_MIN_BYTES {
        return Content::Plain(body);
    }
    match zstd::bulk::compress(&body, COMPRESSION_LEVEL) {
        Ok(compressed) if compressed.len() < body.len() / 10 * 9 => {
            Content::Zstd(Bytes::from(compressed))
        }
        _ => Content::Plain(body),
    }
}

/// The bytes as they were completed with; `None` if they were not stored.
///
/// # Errors
///
/// A description, if what was compressed does not give back what its digest says.
pub(crate) fn load(body: &Body) -> Result<Option<Bytes>, String> {
    match &body.content {
        Content::OmittedByCaller | Content::OmittedTooLarge => Ok(None),
        Content::Plain(bytes) => Ok(Some(bytes.clone())),
        Content::Zstd(compressed) => {
            // The length is only as sound as the record: it must not say how much memory is taken.
            let length = usize::try_from(body.length).unwrap_or(usize::MAX);
            if length > BODY_LIMIT_MAX_BYTES {
                return Err("a stored body is longer than any may be".to_owned());
            }
            let bytes = zstd::bulk::decompress(compressed, length)
                .map_err(|error| format!("can't decompress a stored body: {error}"))?;
            if Sha256::digest(&bytes).as_slice() != body.sha256 {
                return Err("a stored body does not match its digest".to_owned());
            }
            Ok(Some(Bytes::from(bytes)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(body: &[u8]) -> Body {
        let stored = store(Bytes::copy_from_slice(body), 1 << 20);
        let loaded = load(&stored).expect("sound").expect("stored");
        assert_eq!(loaded, body);
        stored
    }

    #[test]
    fn bodies_come_back_byte_for_byte_however_they_are_stored() {
        assert!(matches!(round_trip(b"").content, Content::Plain(_)));
        assert!(matches!(round_trip(&[b'a'; 1023]).content, Content::Plain(_)));
        assert!(matches!(round_trip(&[b'a'; 1 << 20]).content, Content::Zstd(_)));
        let incompressible: Vec<u8> =
            (0..64_u32).flat_map(|block| Sha256::digest(block.to_le_bytes()).to_vec()).collect();
        assert!(matches!(round_trip(&incompressible).content, Content::Plain(_)));
    }

    #[test]
    fn a_body_over_the_limit_is_omitted_never_cut() {
        let stored = store(Bytes::from(vec![1; 11]), 10);
        assert_eq!(stored.content, Content::OmittedTooLarge);
        assert_eq!(stored.length, 11);
        assert_eq!(stored.sha256, <[u8; 32]>::from(Sha256::digest([1; 11])));
        assert_eq!(load(&stored), Ok(None));
    }

    #[test]
    fn a_damaged_body_is_an_error_never_an_answer() {
        let mut stored = round_trip(&[b'a'; 4096]);
        stored.sha256 = [0; 32];
        assert!(load(&stored).is_err());
        stored.content = Content::Zstd(Bytes::from_static(b"no zstd frame"));
        assert!(load(&stored).is_err());
        stored.length = u64::MAX;
        assert!(load(&stored).is_err());
    }
}
