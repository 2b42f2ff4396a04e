//! The stamp: one item that every commit carries in the `meta` keyspace, first in its batch.
//!
//! Invariants: sequences rise by one from commit to commit of one store; `synced` is a commit that
//! was on disk before this one was written. So a stamp that is found in a journal proves how much
//! of the journal before it must be there, whatever else is missing.

/// The key of the stamp in the `meta` keyspace.
pub(super) const KEY: &[u8] = b"sequence";

/// How many bytes a stamp takes.
pub(super) const LENGTH: usize = 1 + 16 + 3 * 8;

/// How many bytes at the front of a stamp are the same in every commit of one store.
pub(super) const CONSTANT: usize = 1 + 16;

const VERSION: u8 = 1;

/// Tells one store from another. It is random, so no caller can forge a batch inside a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoreId(pub(super) [u8; 16]);

/// What one commit says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Whose commit it is.
    pub(super) store: StoreId,
    /// The commit's number; the first is 1.
    pub(super) sequence: u64,
    /// The newest commit that was known to be on disk when this one was written; 0: none.
    pub(super) synced: u64,
    /// The time that its transitions were given, microseconds since the Unix epoch.
    pub(super) now_us: u64,
}

impl Stamp {
    /// The stamp before the first commit.
    pub(super) fn origin(store: StoreId) -> Self {
        Self { store, sequence: 0, synced: 0, now_us: 0 }
    }

    pub(super) fn encode(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        let parts = [
            &[VERSION][..],
            &self.store.0,
            &self.sequence.to_le_bytes(),
            &self.synced.to_le_bytes(),
            &self.now_us.to_le_bytes(),
        ];
        for (byte, part) in bytes.iter_mut().zip(parts.into_iter().flatten()) {
            *byte = *part;
        }
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (&[version], bytes) = bytes.split_first_chunk()?;
        let (&store, bytes) = bytes.split_first_chunk()?;
        let (&sequence, bytes) = bytes.split_first_chunk()?;
        let (&synced, bytes) = bytes.split_first_chunk()?;
        let (&now_us, bytes) = bytes.split_first_chunk()?;
        (version == VERSION && bytes.is_empty()).then_some(Self {
            store: StoreId(store),
            sequence: u64::from_le_bytes(sequence),
            synced: u64::from_le_bytes(synced),
            now_us: u64::from_le_bytes(now_us),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_keeps_its_bytes() {
        let stamp = Stamp { store: StoreId([7; 16]), sequence: 0x0102, synced: 3, now_us: 4 };
        let bytes = stamp.encode();
        let mut expected = vec![1];
        expected.extend([7; 16]);
        expected.extend([2, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes.as_slice(), expected);
        assert_eq!(Stamp::decode(&bytes), Some(stamp));
    }

    #[test]
    fn another_version_or_length_is_no_stamp() {
        let mut bytes = Stamp::origin(StoreId([7; 16])).encode();
        assert_eq!(Stamp::decode(&bytes[..LENGTH - 1]), None);
        bytes[0] = 2;
        assert_eq!(Stamp::decode(&bytes), None);
    }
}
