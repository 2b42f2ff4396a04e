//! What a key is called.

use std::sync::Arc;

/// The full name of a key. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct KeyName {
    /// The unit of isolation: 1 to 128 bytes of `[A-Za-z0-9._:/-]`.
    pub tenant: Arc<str>,
    /// The name of the write, e.g. `payments.charge`: 1 to 128 bytes of `[A-Za-z0-9._:/-]`.
    pub operation: Arc<str>,
    /// The idempotency key, one per intent: 1 to 255 bytes, no control characters, not blank.
    pub key: Arc<str>,
}

impl KeyName {
    /// A key of an operation of a tenant. A node checks the names; this does not.
    #[must_use]
    pub fn new(tenant: &str, operation: &str, key: &str) -> Self {
        Self { tenant: tenant.into(), operation: operation.into(), key: key.into() }
    }
}
