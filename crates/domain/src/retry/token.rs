//! The name of a retry that was granted.

use crate::budget::layout::record_key;
use crate::downstream::Downstream;

/// The right to send exactly one retry.
///
/// A function of what it is for: whoever asks again about the same attempt, of whichever node, gets the
/// same token, so a lost reply never yields two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub [u8; 16]);

impl Token {
    /// The token for the retry after the `attempt`th attempt of a request.
    #[must_use]
    pub fn of(downstream: &Downstream, request_id: &[u8], attempt: u32) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("semel v1 retry token");
        for part in [&record_key(downstream)[..], request_id] {
            hasher.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
            hasher.update(part);
        }
        hasher.update(&attempt.to_le_bytes());
        let mut token = [0; 16];
        hasher.finalize_xof().fill(&mut token);
        Self(token)
    }
}
