//! How many retries this node granted to each recent root request: a second net under the cap that
//! travels with the request. It is bounded, and forgets the least recent: the carried cap is the rule.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::{BufMut, Bytes, BytesMut};
use quick_cache::sync::Cache;
use semel_domain::name::Tenant;

/// The recent roots of a node.
pub(crate) struct Roots(Cache<Bytes, Arc<AtomicU32>>);

/// One retry of a root, counted until it is dropped without having been kept.
pub(crate) struct Place {
    count: Option<Arc<AtomicU32>>,
    before: u32,
}

impl Roots {
    pub(crate) fn new(most: usize) -> Self {
        Self(Cache::new(most))
    }

    /// Counts one retry of this root.
    pub(crate) fn enter(&self, tenant: &Tenant, root: &[u8]) -> Place {
        let tenant = tenant.as_str().as_bytes();
        let mut key = BytesMut::with_capacity(tenant.len() + root.len() + 1);
        key.put_slice(tenant);
        // No tenant has a zero byte.
        key.put_u8(0);
        key.put_slice(root);
        let key = key.freeze();
        let made: Result<_, std::convert::Infallible> =
            self.0.get_or_insert_with(&key, || Ok(Arc::default()));
        let Ok(count) = made;
        let before = count.fetch_add(1, Ordering::Relaxed);
        Place { count: Some(count), before }
    }
}

impl Place {
    /// How many had been counted before this one.
    pub(crate) const fn before(&self) -> u32 {
        self.before
    }

    /// The retry was granted: it stays counted.
    pub(crate) fn keep(mut self) {
        self.count = None;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(count) = self.count.take() {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
