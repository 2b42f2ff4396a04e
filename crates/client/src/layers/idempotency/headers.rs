//! Headers as they are stored with an answer.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::keys;

/// What is stored with an answer, as in the contract.
const HEADERS_MAX: usize = 64;
const HEADER_MAX_BYTES: usize = 8 * 1024;
const HEADERS_MAX_BYTES: usize = 16 * 1024;
pub(super) const CONTENT_TYPE_MAX_BYTES: usize = 255;
const NAME_MAX_BYTES: usize = 255;

/// Adds headers to an answer, each name with something in front of it; whether they could be.
pub(super) fn add<'a>(
    stored: &mut keys::Response,
    prefix: &str,
    headers: impl Iterator<Item = (&'a HeaderName, &'a HeaderValue)>,
) -> bool {
    for (name, value) in headers {
        let Ok(value) = std::str::from_utf8(value.as_bytes()) else { return false };
        stored.metadata.push((format!("{prefix}{name}"), value.to_owned()));
    }
    let size = |(name, value): &(String, String)| name.len() + value.len();
    let one_fits = |header: &(String, String)| {
        header.0.len() <= NAME_MAX_BYTES && header.1.len() <= HEADER_MAX_BYTES
    };
    stored.metadata.len() <= HEADERS_MAX
        && stored.metadata.iter().all(one_fits)
        && stored.metadata.iter().map(size).sum::<usize>() <= HEADERS_MAX_BYTES
}

/// Puts a stored header back; whether it is one.
pub(super) fn put(headers: &mut HeaderMap, name: &str, value: &str) -> bool {
    let header =
        (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value.as_bytes()));
    let (Ok(name), Ok(value)) = header else { return false };
    headers.append(name, value);
    true
}
