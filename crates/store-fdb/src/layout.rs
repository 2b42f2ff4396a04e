//! Where everything lies below the prefix of the directory: keys, tuple-encoded.
//!
//! | key | value |
//! |---|---|
//! | `(0, record key)` | the head of a record: see [`head`](crate::head) |
//! | `(1, record key, number)` | a chunk of a large value |
//! | `(2, index key)` | the value of an index entry |
//! | `(3, node, slot, attempt)` | the marker of a commit: see [`attempt`](crate::attempt) |
//! | `(4, node)` | the stamp of a node's clock: see [`fleet`](crate::fleet) |
//! | `(5)` | the version of all this, 4 bytes, least first |
//!
//! Invariant: keys of one space are in the order of what they were made from, bytewise.

use bytes::Bytes;
use foundationdb_tuple::{Bytes as TupleBytes, Subspace};
use semel_store::Space;

/// The newest version of the layout that is known here.
pub(crate) const VERSION: u32 = 1;

const HEADS: u32 = 0;
const CHUNKS: u32 = 1;
const ENTRIES: u32 = 2;
const MARKERS: u32 = 3;
const STAMPS: u32 = 4;
const VERSION_KEY: u32 = 5;

/// The first key that counts, and the first one that no longer does.
pub(crate) type Range = (Vec<u8>, Vec<u8>);

/// The keys below one prefix.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    below: Subspace,
}

impl Layout {
    pub(crate) fn new(prefix: &[u8]) -> Self {
        Self { below: Subspace::from_bytes(prefix) }
    }

    pub(crate) fn head(&self, key: &[u8]) -> Vec<u8> {
        self.below.pack(&(HEADS, key))
    }

    pub(crate) fn chunk(&self, key: &[u8], number: u32) -> Vec<u8> {
        self.below.pack(&(CHUNKS, key, number))
    }

    /// All chunks of a record.
    pub(crate) fn chunks(&self, key: &[u8]) -> Range {
        self.below.subspace(&(CHUNKS, key)).range()
    }

    pub(crate) fn entry(&self, key: &[u8]) -> Vec<u8> {
        self.below.pack(&(ENTRIES, key))
    }

    /// The part of a space between two keys; `end` empty: to its end.
    pub(crate) fn between(&self, space: Space, start: &[u8], end: &[u8]) -> Range {
        let all = self.below.subspace(&number_of(space));
        let last = if end.is_empty() { all.range().1 } else { all.pack(&end) };
        (all.pack(&start), last)
    }

    /// What a key of a space was made from.
    pub(crate) fn original(&self, space: Space, packed: &[u8]) -> Result<Bytes, String> {
        let all = self.below.subspace(&number_of(space));
        let key = all.unpack::<TupleBytes<'_>>(packed);
        let key = key.map_err(|error| format!("a key of {space:?} can't be read: {error}"))?;
        Ok(key.into_owned().into())
    }

    pub(crate) fn marker(&self, node: u64, slot: u32, attempt: u64) -> Vec<u8> {
        self.below.pack(&(MARKERS, node, slot, attempt))
    }

    /// The markers of a slot before an attempt.
    pub(crate) fn markers_before(&self, node: u64, slot: u32, attempt: u64) -> Range {
        let (first, _) = self.below.subspace(&(MARKERS, node, slot)).range();
        (first, self.marker(node, slot, attempt))
    }

    pub(crate) fn markers_of(&self, node: u64) -> Range {
        self.below.subspace(&(MARKERS, node)).range()
    }

    pub(crate) fn markers(&self) -> Range {
        self.below.subspace(&MARKERS).range()
    }

    pub(crate) fn stamp(&self, node: u64) -> Vec<u8> {
        self.below.pack(&(STAMPS, node))
    }

    pub(crate) fn stamps(&self) -> Range {
        self.below.subspace(&STAMPS).range()
    }

    /// The node that a stamp's key names.
    pub(crate) fn node(&self, packed: &[u8]) -> Result<u64, String> {
        let node = self.below.subspace(&STAMPS).unpack(packed);
        node.map_err(|error| format!("a key of a stamp can't be read: {error}"))
    }

    pub(crate) fn version(&self) -> Vec<u8> {
        self.below.pack(&(VERSION_KEY,))
    }
}

fn number_of(space: Space) -> u32 {
    match space {
        Space::Records => HEADS,
        Space::Index => ENTRIES,
    }
}

/// The first key after `key`.
pub(crate) fn after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// Whether `key` lies in one of these ranges.
pub(crate) fn is_within(ranges: &[Range], key: &[u8]) -> bool {
    ranges.iter().any(|(first, end)| **first <= *key && *key < **end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn layout() -> Layout {
        Layout::new(&[0x15, 0x2a])
    }

    /// What is stored once must be found for ever.
    #[test]
    fn keys_are_what_they_always_were() {
        let layout = layout();
        let prefix = [0x15, 0x2a];
        let is = |key: Vec<u8>, rest: &[u8]| assert_eq!(key, [&prefix, rest].concat());
        is(layout.head(b"a\0b"), b"\x14\x01a\0\xffb\0");
        is(layout.chunk(b"a", 0), b"\x15\x01\x01a\0\x14");
        is(layout.chunk(b"a", 300), b"\x15\x01\x01a\0\x16\x01\x2c");
        is(layout.entry(b""), b"\x15\x02\x01\0");
        is(layout.marker(7, 0, 256), b"\x15\x03\x15\x07\x14\x16\x01\0");
        is(layout.stamp(u64::MAX), b"\x15\x04\x1c\xff\xff\xff\xff\xff\xff\xff\xff");
        is(layout.version(), b"\x15\x05");
    }

    #[test]
    fn ranges_hold_what_is_theirs() {
        let layout = layout();
        let within = |range: Range, key: Vec<u8>| is_within(&[range], &key);
        assert!(within(layout.chunks(b"a"), layout.chunk(b"a", 0)));
        assert!(within(layout.chunks(b"a"), layout.chunk(b"a", u32::MAX)));
        assert!(!within(layout.chunks(b"a"), layout.chunk(b"a\0", 0)));
        assert!(!within(layout.chunks(b"a"), layout.chunk(b"b", 0)));
        assert!(within(layout.markers_before(1, 2, 300), layout.marker(1, 2, 299)));
        assert!(within(layout.markers_before(1, 2, 300), layout.marker(1, 2, 0)));
        assert!(!within(layout.markers_before(1, 2, 300), layout.marker(1, 2, 300)));
        assert!(!within(layout.markers_before(1, 2, 300), layout.marker(1, 1, 1)));
        assert!(within(layout.markers_of(1), layout.marker(1, 2, 3)));
        assert!(!within(layout.markers_of(1), layout.marker(2, 2, 3)));
        assert!(within(layout.markers(), layout.marker(u64::MAX, 2, 3)));
        assert!(within(layout.stamps(), layout.stamp(u64::MAX)));
        assert_eq!(layout.node(&layout.stamp(u64::MAX)), Ok(u64::MAX));
        assert!(layout.node(&layout.version()).is_err());
        for space in [Space::Records, Space::Index] {
            let all = layout.between(space, b"", b"");
            let key = [0xff; 9];
            let packed =
                if space == Space::Records { layout.head(&key) } else { layout.entry(&key) };
            assert!(within(all, packed));
        }
    }

    proptest! {
        #[test]
        fn keys_are_in_order_and_come_back(
            mut keys in prop::collection::vec(prop::collection::vec(0..4_u8, 0..6), 3)
        ) {
            let layout = layout();
            keys.sort();
            let packed: Vec<_> = keys.iter().map(|key| layout.head(key)).collect();
            prop_assert!(packed.is_sorted());
            for (key, packed) in keys.iter().zip(&packed) {
                prop_assert_eq!(&*layout.original(Space::Records, packed).unwrap(), &key[..]);
                let (start, end) = layout.between(Space::Records, &keys[0], &keys[2]);
                let bounded = !keys[2].is_empty();
                let inside = *key >= keys[0] && (!bounded || *key < keys[2]);
                prop_assert_eq!((start..end).contains(packed), inside);
            }
        }
    }
}
