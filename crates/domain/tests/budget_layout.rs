//! Where the records of budgets lie: never two at one place, a tenant's side by side.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that meets what it does not expect should stop"
)]

use std::collections::BTreeSet;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use semel_domain::budget::layout::{from_record_key, record_key, records, records_of};
use semel_domain::downstream::Downstream;
use semel_domain::keys::layout::Range;
use semel_domain::name::{Dependency, Tenant};

fn of(tenant: &str, dependency: &str) -> Downstream {
    Downstream {
        tenant: Tenant::parse(tenant).expect("valid"),
        dependency: Dependency::parse(dependency).expect("valid"),
    }
}

/// Few letters, so that names often begin alike; and now and then any name at all.
fn downstreams() -> impl Strategy<Value = Downstream> {
    let name = || prop_oneof![6 => "[ab]{1,3}", 1 => "[A-Za-z0-9._:/-]{1,128}"];
    (name(), name()).prop_map(|(tenant, dependency)| of(&tenant, &dependency))
}

fn within((start, end): &Range, key: &Bytes) -> bool {
    start <= key && key < end
}

proptest! {
    #[test]
    fn a_budget_comes_back_from_where_it_was_written(of in downstreams()) {
        prop_assert_eq!(from_record_key(&record_key(&of)), Some(of));
    }

    #[test]
    fn no_two_budgets_share_a_place_and_a_tenants_are_by_dependency(
        all in vec(downstreams(), 2..12),
    ) {
        let distinct: BTreeSet<_> = all.iter().cloned().collect();
        let places: BTreeSet<_> = all.iter().map(record_key).collect();
        prop_assert_eq!(places.len(), distinct.len());
        for tenant in distinct.iter().map(|of| &of.tenant).collect::<BTreeSet<_>>() {
            let range = records_of(tenant);
            let found = places.iter().filter(|place| within(&range, place));
            let found: Vec<_> = found.map(|place| from_record_key(place).expect("read")).collect();
            let expected: Vec<_> =
                distinct.iter().filter(|of| of.tenant == *tenant).cloned().collect();
            prop_assert_eq!(found, expected);
        }
        prop_assert!(places.iter().all(|place| within(&records(), place)));
    }

    #[test]
    fn bytes_that_are_no_place_are_no_budget(
        mut bytes in vec(prop_oneof![Just(b'a'), 0..5_u8, any::<u8>()], 0..30),
    ) {
        bytes.insert(0, b'b');
        if let Some(of) = from_record_key(&bytes) {
            prop_assert_eq!(&record_key(&of)[..], &bytes[..]);
        }
    }
}

#[test]
fn other_records_are_no_budgets() {
    let key = record_key(&of("acme", "stripe"));
    for kind in (0..=u8::MAX).filter(|kind| *kind != b'b') {
        let mut other = key.to_vec();
        other[0] = kind;
        assert_eq!(from_record_key(&other), None);
        assert!(!within(&records(), &Bytes::from(other)));
    }
    assert_eq!(from_record_key(b""), None);
}

/// Stored records of every released version are found for ever.
#[test]
fn places_stay_what_they_are() {
    assert_eq!(record_key(&of("acme", "stripe")), &b"b\x04acmestripe"[..]);
}
