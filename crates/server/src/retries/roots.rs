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

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> Tenant {
        Tenant::parse(name).expect("valid")
    }

    #[test]
    fn a_retry_counts_once_it_is_kept_and_not_if_it_was_denied() {
        let roots = Roots::new(10);
        let acme = tenant("acme");
        assert_eq!(roots.enter(&acme, b"r").before(), 0);
        let denied = roots.enter(&acme, b"r");
        assert_eq!(denied.before(), 0, "the one before was dropped");
        // Two at once see each other, whatever becomes of them.
        let at_once = roots.enter(&acme, b"r");
        assert_eq!(at_once.before(), 1);
        drop(denied);
        at_once.keep();
        assert_eq!(roots.enter(&acme, b"r").before(), 1);
    }

    #[test]
    fn roots_of_two_tenants_and_ids_that_flow_into_one_another_are_counted_apart() {
        let roots = Roots::new(10);
        roots.enter(&tenant("a"), b"bc").keep();
        for (other, id) in [("ab", &b"c"[..]), ("a", b"b"), ("b", b"bc"), ("a", b"bc\0")] {
            assert_eq!(roots.enter(&tenant(other), id).before(), 0, "{other}, {id:?}");
        }
        assert_eq!(roots.enter(&tenant("a"), b"bc").before(), 1);
    }

    #[test]
    fn the_number_of_roots_is_bounded() {
        let roots = Roots::new(100);
        for number in 0..10_000_u32 {
            roots.enter(&tenant("acme"), &number.to_be_bytes()).keep();
        }
        assert!(roots.0.len() <= 100, "{} roots", roots.0.len());
    }
}
