//! How many callers may wait: for one key, for the keys of one tenant, and in all.
//!
//! A waiter is a suspended call and an entry here: it holds no thread and no connection of the store.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use semel_domain::name::Tenant;

use crate::options::KeyOptions;
use crate::refusal::{Reason, Refusal};

/// The waiters of one node.
pub(crate) struct WaiterCounts {
    counts: Mutex<Counts>,
    per_key_max: usize,
    per_tenant_max: usize,
    max: usize,
}

#[derive(Default)]
struct Counts {
    by_key: HashMap<Bytes, usize>,
    by_tenant: HashMap<Tenant, usize>,
    all: usize,
}

/// A place among the waiters, given up when dropped.
pub(crate) struct Place<'a> {
    waiters: &'a WaiterCounts,
    record_key: Bytes,
    tenant: Tenant,
}

impl WaiterCounts {
    pub(crate) fn new(options: &KeyOptions) -> Self {
        Self {
            counts: Mutex::default(),
            per_key_max: options.waiters_per_key_max,
            per_tenant_max: options.waiters_per_tenant_max,
            max: options.waiters_max,
        }
    }

    /// Takes a place, or says which bound is met.
    pub(crate) fn enter(&self, record_key: &Bytes, tenant: &Tenant) -> Result<Place<'_>, Refusal> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let of_key = counts.by_key.get(record_key).copied().unwrap_or(0);
        let of_tenant = counts.by_tenant.get(tenant).copied().unwrap_or(0);
        let bounds = [
            ("this key", of_key, self.per_key_max),
            ("keys of this tenant", of_tenant, self.per_tenant_max),
            ("keys of this node", counts.all, self.max),
        ];
        if let Some((what, _, max)) = bounds.into_iter().find(|&(_, count, max)| count >= max) {
            let message =
                format!("{max} callers wait for {what} already: ask without wait, or later");
            return Err(
                Refusal::new(Reason::WaitersFull, message).retry_after(Duration::from_millis(250))
            );
        }
        counts.by_key.insert(record_key.clone(), of_key + 1);
        counts.by_tenant.insert(tenant.clone(), of_tenant + 1);
        counts.all += 1;
        Ok(Place { waiters: self, record_key: record_key.clone(), tenant: tenant.clone() })
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut counts = self.waiters.counts.lock().unwrap_or_else(PoisonError::into_inner);
        decrement(&mut counts.by_key, &self.record_key);
        decrement(&mut counts.by_tenant, &self.tenant);
        counts.all = counts.all.saturating_sub(1);
    }
}

/// Counts one less, and keeps no entry of zero.
fn decrement<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiters_are_bounded_per_key_per_tenant_and_in_all_and_leave_nothing_behind() {
        let options = KeyOptions {
            waiters_per_key_max: 2,
            waiters_per_tenant_max: 3,
            waiters_max: 4,
            ..KeyOptions::default()
        };
        let waiters = WaiterCounts::new(&options);
        let tenant = |name| Tenant::parse(name).expect("valid");
        let enter = |key: &'static str, name| waiters.enter(&Bytes::from(key), &tenant(name));
        let places = [enter("k1", "a"), enter("k1", "a"), enter("k2", "a"), enter("k3", "b")];
        assert!(places.iter().all(Result::is_ok));
        for (key, name) in [("k1", "b"), ("k4", "a"), ("k5", "c")] {
            let refusal = enter(key, name).err().expect("full");
            assert_eq!(refusal.reason, Reason::WaitersFull, "{key} {name}");
        }
        drop(places);
        let counts = waiters.counts.lock().expect("unpoisoned");
        assert!(counts.by_key.is_empty() && counts.by_tenant.is_empty() && counts.all == 0);
    }
}
