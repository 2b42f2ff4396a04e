//! The primitives of the stored encoding: little-endian integers, length-framed bytes, one byte for
//! a choice. Reading is strict: what is left over, cut short or out of range is an error.
//!
//! It has no versions of its own; a record's encoding begins with one.

use bytes::{BufMut, Bytes, BytesMut};

/// Why stored bytes can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// They end before the value does.
    #[error("cut short")]
    CutShort,
    /// They go on after the value.
    #[error("{0} bytes are left over")]
    LeftOver(usize),
    /// A value is none of those that may stand here.
    #[error("{0} is out of range")]
    OutOfRange(&'static str),
}

/// Why a stored record can't be read. Nothing may be decided on it: it fails closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// It was written by a newer node.
    #[error("record version {0} is newer than this node can read: upgrade it")]
    UnknownVersion(u8),
    /// Its bytes make no record.
    #[error("the record is damaged: {0}")]
    Damaged(#[from] CodecError),
}

/// Reads a record that begins with its version, of which there is one.
///
/// # Errors
///
/// [`DecodeError`]; never a panic, whatever the bytes.
pub fn decode_record<'a, R>(
    bytes: &'a [u8],
    version: u8,
    take: impl FnOnce(&mut Reader<'a>) -> Result<R, CodecError>,
) -> Result<R, DecodeError> {
    let mut reader = Reader::new(bytes);
    match reader.byte()? {
        0 => return Err(CodecError::OutOfRange("version").into()),
        found if found > version => return Err(DecodeError::UnknownVersion(found)),
        _ => {}
    }
    let record = take(&mut reader)?;
    reader.finish()?;
    Ok(record)
}

/// Writes an encoding.
#[derive(Debug, Default)]
pub struct Writer(BytesMut);

impl Writer {
    /// Starts with room for `capacity` bytes.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self(BytesMut::with_capacity(capacity))
    }

    /// One byte: a choice, a count, a version.
    pub fn byte(&mut self, value: u8) {
        self.0.put_u8(value);
    }

    /// A 32-bit integer.
    pub fn u32(&mut self, value: u32) {
        self.0.put_u32_le(value);
    }

    /// A 64-bit integer.
    pub fn u64(&mut self, value: u64) {
        self.0.put_u64_le(value);
    }

    /// An unsigned integer that is small most of the time: seven bits a byte, the lowest first.
    pub fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.byte(value.to_le_bytes()[0]);
    }

    /// A 32-bit signed integer.
    pub fn i32(&mut self, value: i32) {
        self.0.put_i32_le(value);
    }

    /// Bytes of a length that both sides know.
    pub fn raw(&mut self, value: &[u8]) {
        self.0.put_slice(value);
    }

    /// Bytes, framed with their length. No record has a part of 4 GiB: its limits are far below.
    pub fn framed(&mut self, value: &[u8]) {
        self.u32(u32::try_from(value.len()).unwrap_or(u32::MAX));
        self.raw(value);
    }

    /// A value that may be absent.
    pub fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        match value {
            None => self.byte(0),
            Some(value) => {
                self.byte(1);
                write(self, value);
            }
        }
    }

    /// A list, framed with its number of items. Lists of records are bounded far below 2^32.
    pub fn list<T>(
        &mut self,
        items: impl ExactSizeIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T),
    ) {
        self.u32(u32::try_from(items.len()).unwrap_or(u32::MAX));
        for item in items {
            write(self, item);
        }
    }

    /// The encoding.
    #[must_use]
    pub fn finish(self) -> Bytes {
        self.0.freeze()
    }
}

/// Reads an encoding.
#[derive(Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Reads from the front of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Bytes of a length that both sides know.
    ///
    /// # Errors
    ///
    /// [`CodecError::CutShort`].
    pub fn raw(&mut self, length: usize) -> Result<&'a [u8], CodecError> {
        let (head, rest) = self.0.split_at_checked(length).ok_or(CodecError::CutShort)?;
        self.0 = rest;
        Ok(head)
    }

    /// An array of bytes.
    ///
    /// # Errors
    ///
    /// [`CodecError::CutShort`].
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], CodecError> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(CodecError::CutShort)?;
        self.0 = rest;
        Ok(*head)
    }

    /// One byte.
    ///
    /// # Errors
    ///
    /// [`CodecError::CutShort`].
    pub fn byte(&mut self) -> Result<u8, CodecError> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// A 32-bit integer.
    ///
    /// # Errors
    ///
    /// [`CodecError::CutShort`].
    pub fn u32(&mut self) -> Result<u32, CodecError> {
        self.array().map(u32::from_le_bytes)
    }

    /// A 64-bit integer.
    ///
    /// # Errors
    ///
    /// [`CodecError::CutShort`].
    pub fn u64(&mut self) -> Result<u64, CodecError> {
        self.array().map(u64::from_le_bytes)
    }

    /// An unsigned integer of as few bytes as it needs.
    ///
    /// # Errors
    ///
    /// [`CodecError::CutShort`], or [`CodecError::OutOfRange`] if it has more than 64 bits, or more
    /// bytes than it needs: one value has one encoding.
    pub fn varint(&mut self) -> Result<u64, CodecError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            let is_last = byte & 0x80 == 0;
            if (shift == 63 && byte > 1) || (is_last && byte == 0 && shift > 0) {
                break;
            }
            value |= bits << shift;
            if is_last {
                return Ok(value);
            }
        }
        Err(CodecError::OutOfRange("variable integer"))
    }

    /// A 32-bit signed integer.
    ///
    /// # Errors
    ///
    /// [`CodecError::CutShort`].
    pub fn i32(&mut self) -> Result<i32, CodecError> {
        self.array().map(i32::from_le_bytes)
    }

    /// Bytes, framed with their length.
    ///
    /// # Errors
    ///
    /// [`CodecError::CutShort`].
    pub fn framed(&mut self) -> Result<&'a [u8], CodecError> {
        let length = usize::try_from(self.u32()?).map_err(|_| CodecError::CutShort)?;
        self.raw(length)
    }

    /// Text, framed with its length.
    ///
    /// # Errors
    ///
    /// [`CodecError::CutShort`], or [`CodecError::OutOfRange`] if it is not UTF-8.
    pub fn text(&mut self) -> Result<&'a str, CodecError> {
        std::str::from_utf8(self.framed()?).map_err(|_| CodecError::OutOfRange("text"))
    }

    /// A value that may be absent.
    ///
    /// # Errors
    ///
    /// Those of `read`, and [`CodecError::OutOfRange`] for a mark that is neither.
    pub fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, CodecError>,
    ) -> Result<Option<T>, CodecError> {
        match self.byte()? {
            0 => Ok(None),
            1 => read(self).map(Some),
            _ => Err(CodecError::OutOfRange("presence")),
        }
    }

    /// A list. Room is made as items are read, so a wrong number costs no memory.
    ///
    /// # Errors
    ///
    /// Those of `read`.
    pub fn list<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, CodecError>,
    ) -> Result<Vec<T>, CodecError> {
        (0..self.u32()?).map(|_| read(self)).collect()
    }

    /// Ends the reading.
    ///
    /// # Errors
    ///
    /// [`CodecError::LeftOver`].
    pub const fn finish(self) -> Result<(), CodecError> {
        if self.0.is_empty() { Ok(()) } else { Err(CodecError::LeftOver(self.0.len())) }
    }
}
