//! Listings come in pages: how large one is, and where the next begins.

use bytes::{BufMut, Bytes, BytesMut};
use semel_domain::limits::{PAGE_DEFAULT, PAGE_MAX};

use crate::refusal::{Reason, Refusal};

/// Rows that one page may look through. A filter that fits few of them gives short pages.
pub(crate) const EXAMINED_MAX: usize = 2_000;
/// Bytes that one page may look through.
pub(crate) const EXAMINED_MAX_BYTES: usize = 4 * 1024 * 1024;

/// How many rows are asked for.
pub(crate) fn page_size(asked: u32) -> Result<usize, Refusal> {
    let size = if asked == 0 { PAGE_DEFAULT } else { asked };
    if size > PAGE_MAX {
        let problem = format!("must be at most {PAGE_MAX}");
        return Err(Refusal::field(Reason::PageInvalid, "page_size", problem));
    }
    Ok(usize::try_from(size).unwrap_or(usize::MAX))
}

/// A token is the last key that was looked at, in hexadecimal.
pub(crate) fn next_token(more: bool, last: Option<&Bytes>) -> String {
    let Some(last) = last.filter(|_| more) else { return String::new() };
    last.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Where the page after `token` begins, within the range of its listing.
pub(crate) fn resume_after(token: &str, start: &Bytes, end: &Bytes) -> Result<Bytes, Refusal> {
    let refuse = || {
        let problem = "is not from a page of this very listing";
        Refusal::field(Reason::PageInvalid, "page_token", problem)
    };
    let hexadecimal = token.bytes().all(|digit| digit.is_ascii_hexdigit());
    if !token.len().is_multiple_of(2) || token.len() > 4_096 || !hexadecimal {
        return Err(refuse());
    }
    let mut key = BytesMut::with_capacity(token.len() / 2 + 1);
    for pair in token.as_bytes().chunks_exact(2) {
        let digits = std::str::from_utf8(pair).map_err(|_| refuse())?;
        key.put_u8(u8::from_str_radix(digits, 16).map_err(|_| refuse())?);
    }
    let within = key.as_ref() >= start.as_ref() && key.as_ref() < end.as_ref();
    key.put_u8(0);
    if within { Ok(key.freeze()) } else { Err(refuse()) }
}
