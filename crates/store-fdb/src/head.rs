//! The head of a record: its version, and its value unless that is large; a large one lies in chunks.
//!
//! A database of this kind takes values of at most 100,000 bytes.
//!
//! Invariants: the lowest bit of a version says whether the value lies in chunks; the version of a
//! record grows with each change, since it is made from the moment of the read that the change was
//! decided by, and no two changes of a record are decided by the same moment.

/// The format of heads.
const FORMAT: u8 = 1;
/// The longest value that stays in its head, and the longest chunk.
pub(crate) const PIECE_BYTES: usize = 90_000;

/// A head, as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head<'a> {
    pub(crate) version: i64,
    pub(crate) body: Body<'a>,
}

/// Where the value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body<'a> {
    /// Here.
    Inline(&'a [u8]),
    /// In chunks.
    Chunked(Extent),
}

/// What is known of a value that lies in chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) bytes: u32,
    pub(crate) chunks: u32,
}

impl Head<'_> {
    /// Reads a head.
    pub(crate) fn decode(stored: &[u8]) -> Result<Head<'_>, String> {
        let unreadable = || format!("a record of {} bytes can't be read", stored.len());
        let (&format, rest) = stored.split_first().ok_or_else(unreadable)?;
        if format != FORMAT {
            return Err(format!(
                "a record has format {format}, and this version of Semel reads {FORMAT}: upgrade this node"
            ));
        }
        let (version, rest) = rest.split_first_chunk().ok_or_else(unreadable)?;
        let version = i64::from_le_bytes(*version);
        let body = if is_chunked(version) {
            let (bytes, rest) = rest.split_first_chunk().ok_or_else(unreadable)?;
            let chunks = rest.try_into().map_err(|_| unreadable())?;
            let (bytes, chunks) = (u32::from_le_bytes(*bytes), u32::from_le_bytes(chunks));
            Body::Chunked(Extent { bytes, chunks })
        } else {
            Body::Inline(rest)
        };
        Ok(Head { version, body })
    }

    /// How long the value is, in bytes.
    pub(crate) fn value_bytes(&self) -> usize {
        match self.body {
            Body::Inline(value) => value.len(),
            Body::Chunked(extent) => usize::try_from(extent.bytes).unwrap_or(usize::MAX),
        }
    }
}

/// A record that is to be stored.
#[derive(Debug)]
pub(crate) struct Stored<'a> {
    pub(crate) head: Vec<u8>,
    /// In order, from 0; none if the value is in the head.
    pub(crate) chunks: Vec<&'a [u8]>,
}

impl<'a> Stored<'a> {
    /// How `value` is stored that was decided by a read at `snapshot`.
    pub(crate) fn new(snapshot: i64, value: &'a [u8]) -> Self {
        let version = Self::version(snapshot, value);
        let mut head = vec![FORMAT];
        head.extend_from_slice(&version.to_le_bytes());
        let mut chunks = Vec::new();
        if is_chunked(version) {
            chunks.extend(value.chunks(PIECE_BYTES));
            for number in [value.len(), chunks.len()] {
                head.extend_from_slice(&u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
            }
        } else {
            head.extend_from_slice(value);
        }
        Self { head, chunks }
    }

    /// The version of it.
    pub(crate) fn version(snapshot: i64, value: &[u8]) -> i64 {
        (snapshot << 1) | i64::from(value.len() > PIECE_BYTES)
    }
}

/// Whether the record of this version has its value in chunks.
pub(crate) fn is_chunked(version: i64) -> bool {
    version & 1 == 1
}

impl Extent {
    /// Puts the chunks together, which must be all there are of the record.
    pub(crate) fn assemble<'a>(
        self,
        chunks: impl Iterator<Item = &'a [u8]>,
    ) -> Result<Vec<u8>, String> {
        let mut value = Vec::new();
        let mut count = 0_u32;
        for chunk in chunks {
            value.extend_from_slice(chunk);
            count = count.saturating_add(1);
        }
        if (u32::try_from(value.len()), count) != (Ok(self.bytes), self.chunks) {
            return Err(format!(
                "a record of {} bytes in {} chunks has {} bytes in {count}: it is damaged",
                self.bytes,
                self.chunks,
                value.len()
            ));
        }
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_read_as_written(value: &[u8], chunks: usize) {
        let stored = Stored::new(1_000, value);
        assert_eq!(stored.chunks.len(), chunks);
        assert!(stored.chunks.iter().all(|chunk| chunk.len() <= PIECE_BYTES));
        assert!(stored.head.len() <= PIECE_BYTES + 9);
        let head = Head::decode(&stored.head).unwrap();
        assert_eq!(head.version, Stored::version(1_000, value));
        assert_eq!(head.version >> 1, 1_000);
        assert_eq!(head.value_bytes(), value.len());
        match head.body {
            Body::Inline(found) => assert!(found == value && chunks == 0),
            Body::Chunked(extent) => {
                assert!(extent.assemble(stored.chunks.iter().copied()).unwrap() == value);
                assert!(extent.assemble(stored.chunks.iter().copied().skip(1)).is_err());
                assert!(extent.assemble(stored.chunks.iter().copied().chain([&b""[..]])).is_err());
            }
        }
    }

    #[test]
    fn values_of_all_sizes_are_read_as_they_were_written() {
        for (bytes, chunks) in
            [(0, 0), (1, 0), (90_000, 0), (90_001, 2), (180_000, 2), (8 << 20, 94)]
        {
            is_read_as_written(&vec![b'v'; bytes], chunks);
        }
    }

    /// What is stored once must be read for ever.
    #[test]
    fn heads_are_what_they_always_were() {
        let stored = Stored::new(3, b"value");
        assert_eq!(stored.head, b"\x01\x06\0\0\0\0\0\0\0value");
        let large = vec![0; 90_001];
        assert_eq!(Stored::new(3, &large).head, b"\x01\x07\0\0\0\0\0\0\0\x91\x5f\x01\0\x02\0\0\0");
    }

    #[test]
    fn what_is_no_head_is_refused() {
        for wrong in [&b""[..], b"\x01", b"\x01\x06\0\0\0", b"\x02\x06\0\0\0\0\0\0\0"] {
            assert!(Head::decode(wrong).is_err(), "{wrong:?}");
        }
        assert!(Head::decode(b"\x01\x07\0\0\0\0\0\0\0\x91\x5f\x01\0\x02\0\0").is_err());
        assert!(Head::decode(b"\x01\x07\0\0\0\0\0\0\0\x91\x5f\x01\0\x02\0\0\0\0").is_err());
    }
}
