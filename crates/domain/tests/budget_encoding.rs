//! The stored bytes of a budget's record: strict, canonical, and never a panic.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that meets what it does not expect should stop"
)]

use std::time::Duration;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use semel_domain::budget::encoding::VERSION;
use semel_domain::budget::ledger::Slot;
use semel_domain::budget::{
    Backoff, Costs, DecodeError, DepositOn, Enforcement, FailMode, Granted, Incarnation, Ledger,
    Member, Policy, Record, SetPolicy, Slice, decode, encode,
};
use semel_domain::codec::CodecError;
use semel_domain::retry::BackoffStrategy;
use semel_domain::time::Timestamp;

/// Any record at all: also those that no rule would make, since stored bytes may hold anything.
fn record() -> impl Strategy<Value = Record> {
    (option::of(set_policy()), ledger(), vec(member(), 0..4), time()).prop_map(
        |(policy, ledger, members, touched_at)| Record { policy, ledger, members, touched_at },
    )
}

fn time() -> impl Strategy<Value = Timestamp> {
    any::<u64>().prop_map(Timestamp::from_micros)
}

fn duration() -> impl Strategy<Value = Duration> {
    any::<u64>().prop_map(Duration::from_micros)
}

fn ledger() -> impl Strategy<Value = Ledger> {
    btree_map(any::<u64>(), any::<(u64, u64)>(), 0..5).prop_map(|slots| {
        let slot = |(number, (deposited_milli, spent_milli))| Slot {
            number,
            deposited_milli,
            spent_milli,
        };
        Ledger::of_slots(slots.into_iter().map(slot))
    })
}

fn member() -> impl Strategy<Value = Member> {
    let granted = (any::<u64>(), any::<bool>(), time(), time()).prop_map(
        |(milli, high_only, granted_at, expires_at)| Granted {
            milli,
            high_only,
            granted_at,
            expires_at,
        },
    );
    let slice = (any::<u64>(), any::<u64>(), time())
        .prop_map(|(seq, left_milli, expires_at)| Slice { seq, left_milli, expires_at });
    let node = any::<[u8; 16]>().prop_map(Incarnation);
    (node, any::<u64>(), option::of(granted), any::<bool>(), vec(slice, 0..3), time()).prop_map(
        |(node, seq, granted, wants, slices, touched_at)| Member {
            node,
            seq,
            granted,
            wants,
            slices,
            touched_at,
        },
    )
}

fn set_policy() -> impl Strategy<Value = SetPolicy> {
    (policy(), any::<u64>(), "\\PC{0,8}", time()).prop_map(|(policy, version, actor, set_at)| {
        SetPolicy { policy, version, actor: actor.into(), set_at }
    })
}

fn policy() -> impl Strategy<Value = Policy> {
    let numbers = any::<[u32; 10]>();
    let lengths = (duration(), duration(), duration(), duration(), duration(), duration());
    let choices = (
        select(vec![
            BackoffStrategy::FullJitter,
            BackoffStrategy::EqualJitter,
            BackoffStrategy::DecorrelatedJitter,
            BackoffStrategy::None,
        ]),
        select(vec![DepositOn::Request, DepositOn::Success]),
        select(vec![FailMode::LocalBounded, FailMode::Deny, FailMode::Allow]),
        select(vec![Enforcement::Enforce, Enforcement::Observe]),
        option::of("\\PC{0,8}"),
    );
    (numbers, lengths, choices).prop_map(|(numbers, lengths, choices)| {
        let [
            ratio_per_mille,
            floor_per_second,
            not_sent,
            throttled,
            unknown_outcome,
            server_error,
            in_progress,
            attempts_max,
            retries_per_root,
            reserve_per_mille,
        ] = numbers;
        let (window, carry_over, lease, base, base_throttled, cap) = lengths;
        let (strategy, deposit_on, fail_mode, enforcement, retry_layer) = choices;
        Policy {
            ratio_per_mille,
            floor_per_second,
            window,
            carry_over,
            costs: Costs { not_sent, throttled, unknown_outcome, server_error, in_progress },
            attempts_max,
            retries_per_root,
            retry_layer: retry_layer.map(Into::into),
            backoff: Backoff { strategy, base, base_throttled, cap },
            deposit_on,
            fail_mode,
            reserve_per_mille,
            enforcement,
            lease,
        }
    })
}

fn damage() -> impl Strategy<Value = (Index, u8)> {
    (any::<Index>(), prop_oneof![0..5_u8, any::<u8>()])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn a_record_comes_back_as_it_was(record in record()) {
        prop_assert_eq!(decode(&encode(&record)), Ok(record));
    }

    #[test]
    fn what_counted_before_it_was_written_counts_when_it_is_read(record in record()) {
        let read = decode(&encode(&record)).expect("readable");
        prop_assert_eq!(read.ledger.deposited_milli(), record.ledger.deposited_milli());
        prop_assert_eq!(read.ledger.spent_milli(), record.ledger.spent_milli());
    }

    #[test]
    fn bytes_that_go_on_after_a_record_are_refused(
        record in record(), more in vec(any::<u8>(), 1..9),
    ) {
        let mut bytes = encode(&record).to_vec();
        bytes.extend(&more);
        let left_over = CodecError::LeftOver(more.len());
        prop_assert_eq!(decode(&bytes), Err(DecodeError::Damaged(left_over)));
    }

    #[test]
    fn a_record_that_is_cut_short_anywhere_is_refused(record in record()) {
        let bytes = encode(&record);
        for length in 0..bytes.len() {
            let cut = bytes.slice(..length);
            prop_assert!(matches!(decode(&cut), Err(DecodeError::Damaged(_))), "{} bytes", length);
        }
    }

    #[test]
    fn a_later_version_is_refused_and_never_guessed_at(record in record(), version: u8) {
        let mut bytes = encode(&record).to_vec();
        bytes[0] = version;
        let read = decode(&bytes);
        if version > VERSION {
            prop_assert_eq!(read, Err(DecodeError::UnknownVersion(version)));
        } else {
            // No node ever wrote version 0, so no upgrade would help.
            prop_assert_eq!(matches!(read, Err(DecodeError::Damaged(_))), version == 0);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in vec(prop_oneof![0..6_u8, any::<u8>()], 0..400)) {
        let versioned: Vec<u8> = std::iter::once(VERSION).chain(bytes.iter().copied()).collect();
        for bytes in [bytes, versioned] {
            if let Ok(record) = decode(&bytes) {
                prop_assert_eq!(encode(&record), bytes);
            }
        }
    }

    #[test]
    fn damaged_bytes_are_refused_or_are_just_what_their_record_is_written_as(
        record in record(), all_damage in vec(damage(), 1..4),
    ) {
        let mut bytes = encode(&record).to_vec();
        for (at, to) in &all_damage {
            let at = at.index(bytes.len());
            bytes[at] = *to;
        }
        if let Ok(read) = decode(&bytes) {
            prop_assert_eq!(encode(&read), bytes);
        }
    }
}

/// Damage drawn at random seldom meets the bytes that choose or count; this meets each of them.
#[test]
fn every_single_byte_changed_is_refused_or_canonical() {
    let slot = |number| Slot { number, deposited_milli: 5, spent_milli: 6 };
    let granted = Granted {
        milli: 1_000,
        high_only: true,
        granted_at: Timestamp::default(),
        expires_at: Timestamp::default(),
    };
    let slice = Slice { seq: 1, left_milli: 2, expires_at: Timestamp::default() };
    let member = Member {
        node: Incarnation([7; 16]),
        seq: 3,
        granted: Some(granted),
        wants: true,
        slices: vec![slice; 2],
        touched_at: Timestamp::default(),
    };
    let policy = SetPolicy {
        policy: Policy { retry_layer: Some("ä".into()), ..Policy::default() },
        version: 1,
        actor: "zoë".into(),
        set_at: Timestamp::default(),
    };
    let record = Record {
        policy: Some(policy),
        ledger: Ledger::of_slots([slot(1), slot(2)]),
        members: vec![member],
        touched_at: Timestamp::default(),
    };
    let bytes = encode(&record);
    let (mut read, mut refused) = (0, 0);
    for at in 0..bytes.len() {
        for to in (0..8).chain([16, 128, 255]) {
            let mut changed = bytes.to_vec();
            changed[at] = to;
            match decode(&changed) {
                Ok(record) => {
                    assert_eq!(encode(&record), changed, "byte {at} as {to}");
                    read += 1;
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(read > 0 && refused > 0, "amounts may hold any value, choices may not");
}

#[test]
fn a_slot_that_is_there_twice_or_beyond_all_numbers_is_refused() {
    let slots = |numbers: [u64; 2]| Record {
        ledger: Ledger::of_slots(numbers.map(|number| Slot { number, ..Slot::default() })),
        ..Record::default()
    };
    let bytes = encode(&slots([1, 2]));
    // The version, when it was touched, no policy, and the number of slots come first; then the first
    // slot's number and amounts, and how far the second one is from it.
    let mut twice = bytes.to_vec();
    twice[14 + 3] = 0;
    let mut beyond = bytes[..14].to_vec();
    beyond.extend(encode(&slots([u64::MAX, 0]))[14 + 3..14 + 13].iter());
    beyond.extend(&bytes[15..]);
    for changed in [twice, beyond] {
        let refused = DecodeError::Damaged(CodecError::OutOfRange("slot"));
        assert_eq!(decode(&changed), Err(refused), "{changed:?}");
    }
}

#[test]
fn an_empty_value_is_damage_not_an_empty_record() {
    assert_eq!(decode(&[]), Err(DecodeError::Damaged(CodecError::CutShort)));
}
