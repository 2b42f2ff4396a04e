//! The random number that tells a store apart from those of other nodes.

use std::io;

/// A random number. Each store takes one, when it is opened.
///
/// # Errors
///
/// The machine gives none.
#[allow(clippy::disallowed_methods, reason = "the one place where a store takes its random number")]
pub fn random_number() -> io::Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(u64::from_le_bytes(bytes))
}
