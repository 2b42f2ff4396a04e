//! One batch of the tree's journal, as fjall 3 writes it without compression:
//!
//! ```text
//! start   01  count:u32  seqno:u64
//! item    02  value type:u8  compression:u8  keyspace:u64  key length:u16
//!             value length:u32  length on disk:u32  key  value          (count times)
//! end     03  xxh3 of all items:u64  "FJL" 03
//! ```
//!
//! All integers are little-endian. Invariant: what is accepted here, fjall accepts too; of what
//! fjall accepts, only batches that begin with a stamp of this store are accepted here, since no
//! other batch is ever written.

use xxhash_rust::xxh3::xxh3_64;

use super::super::stamp::{self, Stamp, StoreId};

/// The `meta` keyspace: the third that is created, so it always has this number.
pub(in super::super) const META_KEYSPACE: u64 = 3;

/// A batch never takes more bytes than this; see the bounds of a group.
pub(super) const LONGEST_BATCH: usize = 64 << 20;

const START_LENGTH: usize = 1 + 4 + 8;
const ITEM_HEADER_LENGTH: usize = 1 + 1 + 1 + 8 + 2 + 4 + 4;
const TRAILER: [u8; 4] = *b"FJL\x03";

/// The bytes at the front of every batch of one store, up to the stamp's variable part. Long and
/// random, so that finding them in the middle of anything else means that a batch begins there.
#[derive(Clone, Debug)]
pub(super) struct Signature {
    bytes: Vec<u8>,
}

impl Signature {
    pub(super) fn new(store: StoreId) -> Self {
        let length = u32::try_from(stamp::LENGTH).unwrap_or_default().to_le_bytes();
        let mut bytes = vec![2, 0, 0];
        bytes.extend_from_slice(&META_KEYSPACE.to_le_bytes());
        bytes.extend_from_slice(&u16::try_from(stamp::KEY.len()).unwrap_or_default().to_le_bytes());
        bytes.extend_from_slice(&length);
        bytes.extend_from_slice(&length);
        bytes.extend_from_slice(stamp::KEY);
        let constant = Stamp::origin(store).encode();
        bytes.extend_from_slice(constant.get(..stamp::CONSTANT).unwrap_or_default());
        Self { bytes }
    }

    /// How many bytes from the start of a batch must be seen to know that one begins.
    pub(super) fn reach(&self) -> usize {
        START_LENGTH + self.bytes.len()
    }

    /// Where in `bytes` a batch might begin, at `from` or later.
    pub(super) fn find(&self, bytes: &[u8], from: usize) -> Option<usize> {
        let after_start = from.checked_add(START_LENGTH)?;
        memchr::memmem::find(bytes.get(after_start..)?, &self.bytes)
            .and_then(|found| found.checked_add(from))
    }

    /// Reads the batch that begins at the front of `bytes`.
    pub(super) fn parse(&self, bytes: &[u8]) -> Parsed {
        match self.try_parse(&mut Cursor { bytes, position: 0 }) {
            Ok((length, stamp)) => Parsed::Batch { length, stamp },
            Err(Stop::Short(needed)) if needed <= LONGEST_BATCH => Parsed::Short { needed },
            Err(_) => Parsed::Nothing,
        }
    }

    fn try_parse(&self, cursor: &mut Cursor<'_>) -> Result<(usize, Stamp), Stop> {
        let &[1] = cursor.array()? else { return Err(Stop::Invalid) };
        let count = u32::from_le_bytes(*cursor.array()?);
        let _seqno: &[u8; 8] = cursor.array()?;
        let items_start = cursor.position;
        if cursor.peek(self.bytes.len())? != self.bytes || count == 0 {
            return Err(Stop::Invalid);
        }
        let stamp = Stamp::decode(cursor.item()?).ok_or(Stop::Invalid)?;
        for _ in 1..count {
            cursor.item()?;
        }
        let items = cursor.bytes.get(items_start..cursor.position).ok_or(Stop::Invalid)?;
        let &[3] = cursor.array()? else { return Err(Stop::Invalid) };
        let checksum = u64::from_le_bytes(*cursor.array()?);
        if *cursor.array()? != TRAILER || xxh3_64(items) != checksum {
            return Err(Stop::Invalid);
        }
        Ok((cursor.position, stamp))
    }
}

/// What stands at the front of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// A whole batch.
    Batch {
        /// How many bytes it takes.
        length: usize,
        /// What it says about itself.
        stamp: Stamp,
    },
    /// What may become a batch if at least `needed` bytes are seen.
    Short {
        /// How many bytes from the front.
        needed: usize,
    },
    /// No batch.
    Nothing,
}

enum Stop {
    Invalid,
    Short(usize),
}

struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Cursor<'a> {
    fn peek(&self, length: usize) -> Result<&'a [u8], Stop> {
        let end = self.position.checked_add(length).ok_or(Stop::Invalid)?;
        self.bytes.get(self.position..end).ok_or(Stop::Short(end))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Stop> {
        let taken = self.peek(length)?;
        self.position += length;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<&'a [u8; N], Stop> {
        self.take(N)?.first_chunk().ok_or(Stop::Invalid)
    }

    /// Reads an item and gives its value.
    fn item(&mut self) -> Result<&'a [u8], Stop> {
        // The end may come where an item is due: don't ask for more bytes than an end has.
        if self.peek(1)? != [2] {
            return Err(Stop::Invalid);
        }
        let header: &[u8; ITEM_HEADER_LENGTH] = self.array()?;
        let &[_, value_type, compression, _, _, _, _, _, _, _, _, key_0, key_1, ref lengths @ ..] =
            header;
        let (&value_length, disk_length) = lengths.split_first_chunk().ok_or(Stop::Invalid)?;
        if value_type > 2 || compression != 0 || disk_length != value_length {
            return Err(Stop::Invalid);
        }
        let value_length =
            usize::try_from(u32::from_le_bytes(value_length)).map_err(|_| Stop::Invalid)?;
        self.take(usize::from(u16::from_le_bytes([key_0, key_1])))?;
        self.take(value_length)
    }
}

/// A batch as fjall would write it, for tests.
#[cfg(test)]
pub(super) fn encode_batch(stamp: &Stamp, items: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    let stamp_bytes = stamp.encode();
    let all = std::iter::once((META_KEYSPACE, stamp::KEY, stamp_bytes.as_slice()))
        .chain(items.iter().map(|(key, value)| (1, *key, *value)));
    for (keyspace, key, value) in all {
        body.extend([2, 0, 0]);
        body.extend(keyspace.to_le_bytes());
        body.extend(u16::try_from(key.len()).unwrap().to_le_bytes());
        body.extend(u32::try_from(value.len()).unwrap().to_le_bytes());
        body.extend(u32::try_from(value.len()).unwrap().to_le_bytes());
        body.extend(key);
        body.extend(value);
    }
    let mut bytes = vec![1];
    bytes.extend(u32::try_from(items.len() + 1).unwrap().to_le_bytes());
    bytes.extend((stamp.sequence + 10).to_le_bytes());
    bytes.extend(&body);
    bytes.push(3);
    bytes.extend(xxh3_64(&body).to_le_bytes());
    bytes.extend(TRAILER);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: StoreId = StoreId([5; 16]);

    fn stamp(sequence: u64) -> Stamp {
        Stamp { sequence, synced: sequence - 1, now_us: 77, store: STORE }
    }

    #[test]
    fn what_fjall_writes_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let database = fjall::Database::builder(directory.path()).open().unwrap();
        let open = |name| database.keyspace(name, Default::default).unwrap();
        let (records, _, meta) = (open("records"), open("index"), open("meta"));
        assert_eq!(meta.id(), META_KEYSPACE);
        for sequence in 1..=3 {
            let mut batch = database.batch();
            batch.insert(&meta, stamp::KEY, stamp(sequence).encode());
            batch.insert(&records, "key", vec![7; 10_000]);
            batch.remove(&records, "other");
            batch.commit().unwrap();
        }
        let bytes = std::fs::read(directory.path().join("0.jnl")).unwrap();
        let signature = Signature::new(STORE);
        let mut position = 0;
        for sequence in 1..=3 {
            let Parsed::Batch { length, stamp: found } = signature.parse(&bytes[position..]) else {
                panic!("no batch {sequence} at {position}");
            };
            assert_eq!(found, stamp(sequence));
            position += length;
        }
        assert_eq!(signature.parse(&bytes[position..]), Parsed::Nothing);
    }

    #[test]
    fn a_batch_that_is_cut_anywhere_asks_for_more_and_then_parses() {
        let bytes = encode_batch(&stamp(1), &[(b"a", b"one"), (b"b", b"")]);
        let signature = Signature::new(STORE);
        for cut in 0..bytes.len() {
            let Parsed::Short { needed } = signature.parse(&bytes[..cut]) else {
                panic!("cut at {cut}");
            };
            assert!(needed > cut && needed <= bytes.len(), "{needed} after {cut}");
        }
        let whole = Parsed::Batch { length: bytes.len(), stamp: stamp(1) };
        assert_eq!(signature.parse(&bytes), whole);
    }

    #[test]
    fn a_changed_byte_anywhere_is_no_batch_of_this_store() {
        let bytes = encode_batch(&stamp(1), &[(b"a", b"one"), (b"b", b"two")]);
        let signature = Signature::new(STORE);
        // The sequence number of fjall itself is the only thing that no checksum covers.
        for position in (0..5).chain(START_LENGTH..bytes.len()) {
            let mut changed = bytes.clone();
            changed[position] ^= 0x41;
            let parsed = signature.parse(&changed);
            assert!(!matches!(parsed, Parsed::Batch { .. }), "byte {position}: {parsed:?}");
        }
        let other = Signature::new(StoreId([6; 16]));
        assert_eq!(other.parse(&bytes), Parsed::Nothing);
    }

    #[test]
    fn a_batch_is_found_in_the_middle_of_anything() {
        let batch = encode_batch(&stamp(4), &[(b"a", b"one")]);
        let signature = Signature::new(STORE);
        let mut bytes = vec![1; 1_000];
        bytes.extend(&batch);
        assert_eq!(signature.find(&bytes, 0), Some(1_000));
        assert_eq!(signature.find(&bytes, 1_000), Some(1_000));
        assert_eq!(signature.find(&bytes, 1_001), None);
        assert_eq!(signature.find(&bytes[..900], 0), None);
        assert!(signature.reach() < batch.len());
    }
}
