//! Where the records of breakers lie in the store: under the byte `c`, see [`crate::downstream`]. They
//! have no index.

use bytes::Bytes;

use crate::downstream::{self, Downstream};
use crate::keys::layout::Range;
use crate::name::Tenant;

const RECORD: u8 = b'c';

/// The key of a breaker's record.
#[must_use]
pub fn record_key(of: &Downstream) -> Bytes {
    of.record_key(RECORD)
}

/// Reads a record's key back. `None`: these bytes are no such key.
#[must_use]
pub fn from_record_key(bytes: &[u8]) -> Option<Downstream> {
    Downstream::from_record_key(RECORD, bytes)
}

/// The records of all breakers.
#[must_use]
pub fn records() -> Range {
    downstream::records(RECORD)
}

/// The records of a tenant's breakers, by dependency.
#[must_use]
pub fn records_of(tenant: &Tenant) -> Range {
    downstream::records_of(RECORD, tenant)
}
