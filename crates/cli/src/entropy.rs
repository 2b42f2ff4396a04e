//! The one place of the command where randomness comes in.

use crate::failure::Failure;

/// Random bytes from the operating system.
#[allow(clippy::disallowed_methods, reason = "this is where randomness comes in")]
pub(crate) fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::broken(format!("the system gives no randomness: {error}")))?;
    Ok(bytes)
}
