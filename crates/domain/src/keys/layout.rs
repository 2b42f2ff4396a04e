//! Where records and index entries lie in the store.
//!
//! Every part but the last is framed with its length, so that no two addresses share bytes, and
//! times are big-endian, so that byte order is time order. The first byte names the kind.
//!
//! | space | key |
//! |---|---|
//! | records | `k`, tenant, operation, key |
//! | index, stuck | `s`, tenant, time at which it is or will be stuck, operation, key |
//! | index, expiry | `x`, time at which it may go, its record's key |

use bytes::{BufMut, Bytes, BytesMut};

use super::record::Record;
use crate::name::{Key, Operation, Tenant};
use crate::time::Timestamp;

const RECORD: u8 = b'k';
const STUCK: u8 = b's';
const EXPIRY: u8 = b'x';

/// The names that address a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// Whose.
    pub tenant: Tenant,
    /// Of which write.
    pub operation: Operation,
    /// Of which intent.
    pub key: Key,
}

impl Address {
    /// The record's key.
    #[must_use]
    pub fn record_key(&self) -> Bytes {
        let mut bytes = BytesMut::with_capacity(4 + self.names_len());
        bytes.put_u8(RECORD);
        put_framed(&mut bytes, self.tenant.as_str());
        put_framed(&mut bytes, self.operation.as_str());
        bytes.put_slice(self.key.as_str().as_bytes());
        bytes.freeze()
    }

    /// Reads a record's key back. `None`: these bytes are no such key.
    #[must_use]
    pub fn from_record_key(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(&[RECORD])?;
        let (tenant, rest) = take_framed(rest)?;
        let (operation, rest) = take_framed(rest)?;
        Self::from_parts(tenant, operation, rest)
    }

    /// The index entries of `record` at this address: a function of the record, so that what a
    /// change does to the index is the difference of two calls.
    #[must_use]
    pub fn index_entries(&self, record: &Record) -> Vec<Bytes> {
        let stuck = record.stuck_at().map(|at| self.stuck_entry(at));
        let expiry = record.expires_at().map(|at| self.expiry_entry(at));
        stuck.into_iter().chain(expiry).collect()
    }

    /// Reads the address out of an entry of the stuck index.
    #[must_use]
    pub fn from_stuck_entry(bytes: &[u8]) -> Option<Self> {
        let (tenant, rest) = take_framed(bytes.strip_prefix(&[STUCK])?)?;
        let (operation, key) = take_framed(rest.get(8..)?)?;
        Self::from_parts(tenant, operation, key)
    }

    /// Reads the address out of an entry of the expiry index.
    #[must_use]
    pub fn from_expiry_entry(bytes: &[u8]) -> Option<Self> {
        Self::from_record_key(bytes.strip_prefix(&[EXPIRY])?.get(8..)?)
    }

    /// A stable name of the intent for a provider that takes idempotency keys: the same for every
    /// attempt, fence and node, and different for every other intent.
    #[must_use]
    pub fn derived_key(&self) -> String {
        let digest = blake3::derive_key("semel v1 derived idempotency key", &self.record_key());
        let mut name = String::with_capacity(38);
        name.push_str("semel-");
        for byte in digest.iter().take(16) {
            for nibble in [byte >> 4, byte & 15] {
                name.extend(char::from_digit(u32::from(nibble), 16));
            }
        }
        name
    }

    fn from_parts(tenant: &[u8], operation: &[u8], key: &[u8]) -> Option<Self> {
        Some(Self {
            tenant: Tenant::parse(std::str::from_utf8(tenant).ok()?).ok()?,
            operation: Operation::parse(std::str::from_utf8(operation).ok()?).ok()?,
            key: Key::parse(std::str::from_utf8(key).ok()?).ok()?,
        })
    }

    fn names_len(&self) -> usize {
        self.tenant.as_str().len() + self.operation.as_str().len() + self.key.as_str().len()
    }

    fn stuck_entry(&self, at: Timestamp) -> Bytes {
        let mut bytes = BytesMut::with_capacity(12 + self.names_len());
        bytes.put_u8(STUCK);
        put_framed(&mut bytes, self.tenant.as_str());
        bytes.put_u64(at.as_micros());
        put_framed(&mut bytes, self.operation.as_str());
        bytes.put_slice(self.key.as_str().as_bytes());
        bytes.freeze()
    }

    fn expiry_entry(&self, at: Timestamp) -> Bytes {
        let mut bytes = BytesMut::with_capacity(13 + self.names_len());
        bytes.put_u8(EXPIRY);
        bytes.put_u64(at.as_micros());
        bytes.put_slice(&self.record_key());
        bytes.freeze()
    }
}

/// A range of keys: from the first, up to but not including the second.
pub type Range = (Bytes, Bytes);

/// The records of a tenant, or of one operation of it.
#[must_use]
pub fn records_of(tenant: &Tenant, operation: Option<&Operation>) -> Range {
    let mut start = BytesMut::new();
    start.put_u8(RECORD);
    put_framed(&mut start, tenant.as_str());
    if let Some(operation) = operation {
        put_framed(&mut start, operation.as_str());
    }
    let end = end_of_prefix(&start);
    (start.freeze(), end)
}

/// The entries of a tenant's keys that are stuck at `now`.
#[must_use]
pub fn stuck_until(tenant: &Tenant, now: Timestamp) -> Range {
    let mut start = BytesMut::new();
    start.put_u8(STUCK);
    put_framed(&mut start, tenant.as_str());
    let mut end = start.clone();
    end.put_u64(now.as_micros().saturating_add(1));
    (start.freeze(), end.freeze())
}

/// The entries of all records that may go at `now`.
#[must_use]
pub fn expired_until(now: Timestamp) -> Range {
    expired_between(Timestamp::from_micros(0), now)
}

/// Those of them that might not go before `from`.
#[must_use]
pub fn expired_between(from: Timestamp, now: Timestamp) -> Range {
    let bound = |micros: u64| {
        let mut bound = BytesMut::new();
        bound.put_u8(EXPIRY);
        bound.put_u64(micros);
        bound.freeze()
    };
    (bound(from.as_micros()), bound(now.as_micros().saturating_add(1)))
}

/// When the record of an entry may go; `None`: it is no such entry.
#[must_use]
pub fn expiry_of(entry: &[u8]) -> Option<Timestamp> {
    let micros = entry.strip_prefix(&[EXPIRY])?.first_chunk()?;
    Some(Timestamp::from_micros(u64::from_be_bytes(*micros)))
}

/// The first key after all keys with this prefix, which is not all 0xff: it starts with a letter.
pub(crate) fn end_of_prefix(prefix: &[u8]) -> Bytes {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if let Some(next) = last.checked_add(1) {
            end.push(next);
            break;
        }
    }
    Bytes::from(end)
}

pub(crate) fn put_framed(bytes: &mut BytesMut, name: &str) {
    // Names are at most 128 bytes, by construction.
    bytes.put_u8(u8::try_from(name.len()).unwrap_or(u8::MAX));
    bytes.put_slice(name.as_bytes());
}

pub(crate) fn take_framed(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(length))
}
