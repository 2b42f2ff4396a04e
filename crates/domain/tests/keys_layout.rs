//! Where records and index entries lie: never two at one place, and in the order of time.

#![allow(clippy::expect_used, reason = "what is made here is valid")]

#[path = "support/arbitrary.rs"]
mod arbitrary;
mod support;

use std::collections::BTreeSet;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use semel_domain::keys::layout::{Address, Range, expired_until, records_of, stuck_until};
use semel_domain::keys::{Record, Stage, State};
use semel_domain::name::{Key, Operation, Tenant};
use semel_domain::time::Timestamp;

use support::{A, NOW, claimed_by, every_state, forgotten, leased_until};

fn address(tenant: &str, operation: &str, key: &str) -> Address {
    Address {
        tenant: Tenant::parse(tenant).expect("valid"),
        operation: Operation::parse(operation).expect("valid"),
        key: Key::parse(key).expect("valid"),
    }
}

fn stuck_entry(address: &Address, at: Timestamp) -> Bytes {
    only_entry(address, &leased_until(at, claimed_by(A)))
}

fn expiry_entry(address: &Address, at: Timestamp) -> Bytes {
    only_entry(address, &Record { state: State::Forgotten { expires_at: at }, ..forgotten() })
}

fn only_entry(address: &Address, record: &Record) -> Bytes {
    let entries = address.index_entries(record);
    assert_eq!(entries.len(), 1, "one entry");
    entries.into_iter().next().expect("one entry")
}

fn within((start, end): &Range, key: &Bytes) -> bool {
    start <= key && key < end
}

/// Few letters, so that names often begin alike; and now and then any name at all.
fn addresses() -> impl Strategy<Value = Address> {
    let name = || prop_oneof![6 => "[ab]{1,3}", 1 => "[A-Za-z0-9._:/-]{1,128}"];
    let key = prop_oneof![6 => "[abks]{1,4}", 1 => "[^\\p{C}]{1,40}"];
    (name(), name(), key)
        .prop_filter("blank keys are no keys", |(_, _, key)| Key::parse(key).is_ok())
        .prop_map(|(tenant, operation, key)| address(&tenant, &operation, &key))
}

/// Moments close together and far apart.
fn times() -> impl Strategy<Value = Timestamp> {
    let near = (0..600_u64).prop_map(|micros| Timestamp::from_micros(NOW.as_micros() + micros));
    prop_oneof![near, arbitrary::time()]
}

proptest! {
    #![proptest_config(support::config(192))]

    #[test]
    fn an_address_comes_back_from_wherever_it_was_written(address in addresses(), at in times()) {
        let record_key = address.record_key();
        prop_assert_eq!(Address::from_record_key(&record_key), Some(address.clone()));
        let stuck = stuck_entry(&address, at);
        prop_assert_eq!(Address::from_stuck_entry(&stuck), Some(address.clone()));
        let expiry = expiry_entry(&address, at);
        prop_assert_eq!(Address::from_expiry_entry(&expiry), Some(address));
    }

    #[test]
    fn no_two_addresses_share_a_place(
        addresses in vec(addresses(), 2..12),
        times in vec(times(), 1..4),
    ) {
        let mut places = BTreeSet::new();
        let distinct: BTreeSet<_> = addresses.iter().map(|address| {
            (address.tenant.clone(), address.operation.clone(), address.key.clone())
        }).collect();
        let moments: BTreeSet<_> = times.iter().copied().collect();
        for address in &addresses {
            places.insert(address.record_key());
            for &at in &times {
                places.insert(stuck_entry(address, at));
                places.insert(expiry_entry(address, at));
            }
        }
        prop_assert_eq!(places.len(), distinct.len() * (1 + 2 * moments.len()));
        let derived: BTreeSet<_> = addresses.iter().map(Address::derived_key).collect();
        prop_assert_eq!(derived.len(), distinct.len());
    }

    #[test]
    fn the_order_of_entries_is_the_order_of_time(
        one in addresses(),
        other in addresses(),
        early in times(),
        late in times(),
    ) {
        prop_assume!(early < late);
        prop_assert!(expiry_entry(&one, early) < expiry_entry(&other, late));
        let other = Address { tenant: one.tenant.clone(), ..other };
        prop_assert!(stuck_entry(&one, early) < stuck_entry(&other, late));
    }

    #[test]
    fn the_records_of_a_tenant_or_operation_are_in_its_range_and_no_others(
        one in addresses(),
        other in addresses(),
        at in times(),
    ) {
        let of_tenant = records_of(&one.tenant, None);
        let of_operation = records_of(&one.tenant, Some(&one.operation));
        for address in [&one, &other] {
            let same_tenant = address.tenant == one.tenant;
            let same_operation = same_tenant && address.operation == one.operation;
            prop_assert_eq!(within(&of_tenant, &address.record_key()), same_tenant);
            prop_assert_eq!(within(&of_operation, &address.record_key()), same_operation);
            for entry in [stuck_entry(address, at), expiry_entry(address, at)] {
                prop_assert!(!within(&of_tenant, &entry) && !within(&of_operation, &entry));
            }
        }
    }

    #[test]
    fn what_is_stuck_or_over_by_now_is_in_its_range_and_nothing_else(
        one in addresses(),
        other in addresses(),
        at in times(),
        now in times(),
    ) {
        for now in [now, at, Timestamp::from_micros(at.as_micros().saturating_sub(1))] {
            let (stuck, expired) = (stuck_until(&one.tenant, now), expired_until(now));
            for address in [&one, &other] {
                let (stuck_entry, expiry_entry) = (stuck_entry(address, at), expiry_entry(address, at));
                let same_tenant = address.tenant == one.tenant;
                prop_assert_eq!(within(&stuck, &stuck_entry), same_tenant && at <= now);
                prop_assert_eq!(within(&expired, &expiry_entry), at <= now);
                prop_assert!(!within(&stuck, &expiry_entry) && !within(&expired, &stuck_entry));
                let record_key = address.record_key();
                prop_assert!(!within(&stuck, &record_key) && !within(&expired, &record_key));
            }
        }
    }

    #[test]
    fn a_record_is_indexed_by_what_will_happen_to_it(
        address in addresses(),
        record in arbitrary::record(),
    ) {
        let expected = match &record.state {
            State::Claimed(claimed) => stuck_entry(&address, claimed.expires_at),
            State::Indeterminate { declared_at, .. } => stuck_entry(&address, *declared_at),
            State::Released { expires_at, .. } | State::Forgotten { expires_at } => {
                expiry_entry(&address, *expires_at)
            }
            State::Completed(answer) => expiry_entry(&address, answer.expires_at),
        };
        prop_assert_eq!(address.index_entries(&record), vec![expected]);
    }

    #[test]
    fn bytes_that_are_no_place_are_no_address(
        mut bytes in vec(prop_oneof![Just(b'a'), 0..5_u8, any::<u8>()], 0..30),
        kind in prop::sample::select(b"ksx".to_vec()),
    ) {
        bytes.insert(0, kind);
        if let Some(address) = Address::from_record_key(&bytes) {
            prop_assert_eq!(&address.record_key()[..], &bytes[..]);
        }
        if let Some(address) = Address::from_stuck_entry(&bytes) {
            prop_assert!(bytes.starts_with(b"s") && bytes.ends_with(address.key.as_str().as_bytes()));
        }
        if let Some(address) = Address::from_expiry_entry(&bytes) {
            prop_assert!(bytes.starts_with(b"x") && bytes.ends_with(&address.record_key()));
        }
    }
}

#[test]
fn every_state_is_in_the_range_of_what_has_to_be_done_about_it() {
    let address = address("acme", "payments.charge", "order-42");
    for (state, record) in every_state(A) {
        let entries = address.index_entries(&record);
        let stuck = entries.iter().any(|entry| within(&stuck_until(&address.tenant, NOW), entry));
        let expected = matches!(record.stage(NOW), Stage::Lapsed | Stage::Indeterminate);
        assert_eq!(stuck, expected, "{state}");
        let end = record.expires_at().unwrap_or(Timestamp::from_micros(u64::MAX));
        let over = entries.iter().any(|entry| within(&expired_until(end), entry));
        assert_eq!(over, record.expires_at().is_some(), "{state}");
    }
}

/// Stored bytes of every released version are read for ever, and providers keep the derived keys.
#[test]
fn places_and_derived_keys_stay_what_they_are() {
    let address = address("acme", "payments.charge", "order-42 ä");
    let at = Timestamp::from_micros(0x0102_0304_0506_0708);
    let names = b"\x0fpayments.chargeorder-42 \xc3\xa4";
    let record_key = [&b"k\x04acme"[..], names].concat();
    assert_eq!(address.record_key(), record_key);
    let time = &[1, 2, 3, 4, 5, 6, 7, 8][..];
    assert_eq!(stuck_entry(&address, at), [&b"s\x04acme"[..], time, names].concat());
    assert_eq!(expiry_entry(&address, at), [&b"x"[..], time, &record_key].concat());
    assert_eq!(address.derived_key(), "semel-95a0e1e55b14caccc42cd648df3bd83f");
}
