//! A tenant's dependency: what budgets and breakers belong to, and the store's keys for it.
//!
//! A record's key is the byte of its kind, the tenant framed with its length, and the dependency: so no
//! two addresses share bytes, and a tenant's records lie side by side, by dependency.

use bytes::{BufMut, Bytes, BytesMut};

use crate::keys::layout::{Range, end_of_prefix, put_framed, take_framed};
use crate::name::{Dependency, Tenant};

/// The names of a tenant's dependency.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Downstream {
    /// Whose.
    pub tenant: Tenant,
    /// What is called.
    pub dependency: Dependency,
}

impl Downstream {
    /// The key of its record of this kind.
    pub(crate) fn record_key(&self, kind: u8) -> Bytes {
        let (tenant, dependency) = (self.tenant.as_str(), self.dependency.as_str());
        let mut bytes = BytesMut::with_capacity(2 + tenant.len() + dependency.len());
        bytes.put_u8(kind);
        put_framed(&mut bytes, tenant);
        bytes.put_slice(dependency.as_bytes());
        bytes.freeze()
    }

    /// Reads a record's key of this kind back. `None`: these bytes are no such key.
    pub(crate) fn from_record_key(kind: u8, bytes: &[u8]) -> Option<Self> {
        let (tenant, dependency) = take_framed(bytes.strip_prefix(&[kind])?)?;
        Some(Self {
            tenant: Tenant::parse(std::str::from_utf8(tenant).ok()?).ok()?,
            dependency: Dependency::parse(std::str::from_utf8(dependency).ok()?).ok()?,
        })
    }
}

/// The records of this kind of a tenant.
pub(crate) fn records_of(kind: u8, tenant: &Tenant) -> Range {
    let mut start = BytesMut::from(&[kind][..]);
    put_framed(&mut start, tenant.as_str());
    let end = end_of_prefix(&start);
    (start.freeze(), end)
}

/// All records of this kind.
pub(crate) fn records(kind: u8) -> Range {
    let end = end_of_prefix(&[kind]);
    (Bytes::copy_from_slice(&[kind]), end)
}
