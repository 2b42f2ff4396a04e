//! Where the records of breakers lie: never two at one place, and by tenant.

#![allow(clippy::expect_used, reason = "what is made here is valid")]

#[path = "breaker_support/mod.rs"]
mod support;

use proptest::prelude::*;
use semel_domain::breaker::layout::{from_record_key, record_key, records_of};
use semel_domain::downstream::Downstream;
use semel_domain::name::{Dependency, Tenant};

fn address(tenant: &str, dependency: &str) -> Downstream {
    Downstream {
        tenant: Tenant::parse(tenant).expect("valid"),
        dependency: Dependency::parse(dependency).expect("valid"),
    }
}

fn addresses() -> impl Strategy<Value = Downstream> {
    ("[ab:]{1,4}", "[ab:]{1,4}").prop_map(|(tenant, dependency)| address(&tenant, &dependency))
}

proptest! {
    #![proptest_config(support::config(512))]

    #[test]
    fn no_two_addresses_share_a_place(one in addresses(), other in addresses()) {
        prop_assert_eq!(one == other, record_key(&one) == record_key(&other));
        prop_assert_eq!(from_record_key(&record_key(&one)), Some(one));
    }

    #[test]
    fn the_breakers_of_a_tenant_are_in_its_range_and_no_others(
        one in addresses(),
        other in addresses(),
    ) {
        let (start, end) = records_of(&one.tenant);
        let key = record_key(&other);
        prop_assert_eq!(start <= key && key < end, one.tenant == other.tenant);
        let same_tenant = one.tenant == other.tenant;
        if same_tenant {
            prop_assert_eq!(one.dependency.cmp(&other.dependency), record_key(&one).cmp(&key));
        }
    }

    #[test]
    fn bytes_that_are_no_place_are_no_address(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
        for bytes in [bytes.clone(), [b"c", &bytes[..]].concat()] {
            if let Some(address) = from_record_key(&bytes) {
                prop_assert_eq!(&record_key(&address)[..], &bytes[..]);
            }
        }
    }
}

/// Stored bytes of every released version are read for ever.
#[test]
fn places_stay_what_they_are() {
    assert_eq!(record_key(&address("acme", "stripe")), &b"c\x04acmestripe"[..]);
    let (start, end) = records_of(&Tenant::parse("acme").expect("valid"));
    assert_eq!((&start[..], &end[..]), (&b"c\x04acme"[..], &b"c\x04acmf"[..]));
}
