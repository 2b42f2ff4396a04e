//! Where the records of breakers lie in the store. They have no index.
//!
//! | space | key |
//! |---|---|
//! | records | `c`, tenant, dependency |
//!
//! The tenant is framed with its length, so that no two addresses share bytes.

use bytes::{BufMut, Bytes, BytesMut};

use crate::keys::layout::{Range, end_of_prefix, put_framed, take_framed};
use crate::name::{Dependency, Tenant};

const RECORD: u8 = b'c';

/// The names that address a breaker.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// Whose.
    pub tenant: Tenant,
    /// Of which downstream.
    pub dependency: Dependency,
}

impl Address {
    /// The record's key.
    #[must_use]
    pub fn record_key(&self) -> Bytes {
        let mut bytes = BytesMut::from(&[RECORD][..]);
        put_framed(&mut bytes, self.tenant.as_str());
        bytes.put_slice(self.dependency.as_str().as_bytes());
        bytes.freeze()
    }

    /// Reads a record's key back. `None`: these bytes are no such key.
    #[must_use]
    pub fn from_record_key(bytes: &[u8]) -> Option<Self> {
        let (tenant, dependency) = take_framed(bytes.strip_prefix(&[RECORD])?)?;
        Some(Self {
            tenant: Tenant::parse(std::str::from_utf8(tenant).ok()?).ok()?,
            dependency: Dependency::parse(std::str::from_utf8(dependency).ok()?).ok()?,
        })
    }
}

/// The records of a tenant's breakers, by dependency.
#[must_use]
pub fn records_of(tenant: &Tenant) -> Range {
    let mut start = BytesMut::from(&[RECORD][..]);
    put_framed(&mut start, tenant.as_str());
    let end = end_of_prefix(&start);
    (start.freeze(), end)
}
