//! A journal file seen through a window: only two megabytes of it are in memory at a time.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::super::stamp::Stamp;
use super::format::{Parsed, Signature};

/// How much is read at a time.
const CHUNK: usize = 1 << 20;

/// What [`Reader::next`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A whole batch from `offset` on, `length` bytes long.
    Batch { offset: u64, length: u64, stamp: Stamp },
    /// Bytes that belong to no batch, from `offset` on up to the next batch or the end.
    Gap { offset: u64, all_zero: bool },
    /// The end of the file.
    End { offset: u64 },
}

/// Reads a journal from front to back.
pub(super) struct Reader<'a> {
    file: File,
    signature: &'a Signature,
    /// The window; only `start..end` counts.
    buffer: &'a mut Vec<u8>,
    start: usize,
    end: usize,
    /// Where in the file the window's `start` stands.
    offset: u64,
}

impl<'a> Reader<'a> {
    /// Opens a journal. The buffer is only a place to work in, for reuse from file to file.
    pub(super) fn open(
        path: &Path,
        signature: &'a Signature,
        buffer: &'a mut Vec<u8>,
    ) -> io::Result<Self> {
        Ok(Self { file: File::open(path)?, signature, buffer, start: 0, end: 0, offset: 0 })
    }

    /// Goes on to the next batch, gap or end. A gap is followed by a batch or the end.
    pub(super) fn next(&mut self) -> io::Result<Found> {
        let offset = self.offset;
        if !self.fill(1)? {
            return Ok(Found::End { offset });
        }
        if let Some((length, stamp)) = self.batch_here()? {
            self.advance(length);
            let length = self.offset.saturating_sub(offset);
            return Ok(Found::Batch { offset, length, stamp });
        }
        let mut all_zero = self.skip(1);
        loop {
            let whole = self.fill(CHUNK)?;
            if let Some(start) = self.signature.find(self.rest(), 0) {
                all_zero &= self.skip(start);
                if self.batch_here()?.is_some() {
                    return Ok(Found::Gap { offset, all_zero });
                }
                all_zero &= self.skip(1);
            } else if whole {
                // A batch may begin in the last few bytes: they are kept for the next look.
                all_zero &= self.skip(self.rest().len().saturating_sub(self.signature.reach()));
            } else {
                all_zero &= self.skip(self.rest().len());
                return Ok(Found::Gap { offset, all_zero });
            }
        }
    }

    fn batch_here(&mut self) -> io::Result<Option<(usize, Stamp)>> {
        loop {
            match self.signature.parse(self.rest()) {
                Parsed::Batch { length, stamp } => return Ok(Some((length, stamp))),
                Parsed::Short { needed } if self.fill(needed)? => {}
                Parsed::Short { .. } | Parsed::Nothing => return Ok(None),
            }
        }
    }

    fn rest(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    fn advance(&mut self, length: usize) {
        self.start += length;
        self.offset = self.offset.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
    }

    /// Passes over `length` bytes and tells whether all were zero.
    fn skip(&mut self, length: usize) -> bool {
        let skipped = self.rest().get(..length).unwrap_or_default();
        // Without an early exit per byte, this runs as wide as the machine allows.
        let all_zero =
            skipped.chunks(4_096).all(|chunk| chunk.iter().fold(0, |bits, byte| bits | byte) == 0);
        self.advance(length);
        all_zero
    }

    /// Reads on until the window has `least` bytes; false if the file ends before.
    fn fill(&mut self, least: usize) -> io::Result<bool> {
        if self.end - self.start >= least {
            return Ok(true);
        }
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.buffer.len() < least.max(2 * CHUNK) {
            // Twice as much, since a batch says little by little how long it is.
            self.buffer.resize(2 * least.max(CHUNK), 0);
        }
        while self.end < least {
            let free = self.buffer.get_mut(self.end..).unwrap_or_default();
            match self.file.read(free) {
                Ok(0) => return Ok(false),
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::stamp::StoreId;
    use super::super::format::encode_batch;
    use super::*;

    const STORE: StoreId = StoreId([5; 16]);

    fn batch(sequence: u64, value: usize) -> Vec<u8> {
        let stamp = Stamp { sequence, synced: 0, now_us: 0, store: STORE };
        encode_batch(&stamp, &[(b"key", &vec![0xaa; value])])
    }

    fn read(bytes: &[u8]) -> Vec<Found> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.jnl");
        std::fs::write(&path, bytes).unwrap();
        let (signature, mut buffer) = (Signature::new(STORE), Vec::new());
        let mut reader = Reader::open(&path, &signature, &mut buffer).unwrap();
        let mut found = Vec::new();
        loop {
            found.push(reader.next().unwrap());
            if matches!(found.last(), Some(Found::End { .. })) {
                return found;
            }
        }
    }

    fn sequences(found: &[Found]) -> Vec<u64> {
        let sequence = |found: &Found| match found {
            Found::Batch { stamp, .. } => Some(stamp.sequence),
            _ => None,
        };
        found.iter().filter_map(sequence).collect()
    }

    #[test]
    fn batches_longer_than_the_window_and_across_its_edges_are_read() {
        let mut bytes = Vec::new();
        for (number, size) in [3, 5 << 20, 12 << 20, 4_000, CHUNK - 100, 7].iter().enumerate() {
            bytes.extend(batch(u64::try_from(number).unwrap() + 1, *size));
        }
        let found = read(&bytes);
        assert_eq!(sequences(&found), [1, 2, 3, 4, 5, 6]);
        assert_eq!(found.len(), 7, "no gap between them");
        assert_eq!(found[6], Found::End { offset: u64::try_from(bytes.len()).unwrap() });
    }

    #[test]
    fn a_gap_tells_whether_it_is_empty_and_ends_at_the_next_batch() {
        for gap in [1, 13, 4_096, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5] {
            for filler in [0, 1] {
                let mut bytes = batch(1, 100);
                let first = bytes.len();
                bytes.resize(first + gap, filler);
                bytes.extend(batch(9, 100));
                let offset = u64::try_from(first).unwrap();
                let found = read(&bytes);
                assert_eq!(sequences(&found), [1, 9], "gap {gap} of {filler}");
                assert_eq!(found[1], Found::Gap { offset, all_zero: filler == 0 });
            }
        }
    }

    #[test]
    fn a_tail_ends_the_file() {
        let mut bytes = batch(1, 100);
        bytes.resize(bytes.len() + 9 * CHUNK, 0);
        assert!(matches!(read(&bytes)[1], Found::Gap { all_zero: true, .. }));
        *bytes.last_mut().unwrap() = 1;
        let found = read(&bytes);
        assert!(matches!(found[1], Found::Gap { all_zero: false, .. }));
        assert!(matches!(found[2], Found::End { .. }));
        assert_eq!(read(&[]), [Found::End { offset: 0 }]);
    }
}
