//! What a key is called.

use std::sync::Arc;

/// The full name of a key. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyName {
    tenant: Arc<str>,
    operation: Arc<str>,
    key: Arc<str>,
}

impl KeyName {
    /// A key of an operation of a tenant. A node checks the names; this does not.
    #[must_use]
    pub fn new(tenant: &str, operation: &str, key: &str) -> Self {
        Self { tenant: tenant.into(), operation: operation.into(), key: key.into() }
    }

    /// The unit of isolation: 1 to 128 bytes of `[A-Za-z0-9._:/-]`.
    #[must_use]
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// The name of the write, e.g. `payments.charge`: 1 to 128 bytes of `[A-Za-z0-9._:/-]`.
    #[must_use]
    pub fn operation(&self) -> &str {
        &self.operation
    }

    /// The idempotency key, one per intent: 1 to 255 bytes, no control characters, not blank.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }
}
