//! The stored bytes of a node's record: strict, canonical, and never a panic. And where they lie.

#![allow(clippy::indexing_slicing, reason = "what is made here is valid")]

#[path = "breaker_support/mod.rs"]
mod support;

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use semel_domain::node::encoding::VERSION;
use semel_domain::node::layout::{from_record_key, record_key, records};
use semel_domain::node::{ClockSample, DecodeError, Format, Load, NodeId, Record, decode, encode};
use semel_domain::time::Timestamp;

fn formats() -> impl Strategy<Value = Vec<Format>> {
    let versions = (any::<u8>(), any::<u8>(), any::<u8>());
    prop::collection::btree_map("[a-zé]{0,8}", versions, 0..6).prop_map(|formats| {
        let format = |(record, (reads_from, reads_to, writes)): (String, _)| Format {
            record: record.into(),
            reads_from,
            reads_to,
            writes,
        };
        formats.into_iter().map(format).collect()
    })
}

prop_compose! {
    fn any_record()(
        (touched_us, started_us, seq, interval_us) in any::<(u64, u64, u64, u64)>(),
        (version, address) in ("[ -~é]{0,32}", "[ -~é]{0,80}"),
        formats in formats(),
        (connections, calls_under_way, calls_per_second) in any::<(u32, u32, u32)>(),
        clock in prop::option::of(any::<(i64, u64)>()),
    ) -> Record {
        let sample = |(offset_us, round_trip_us)| ClockSample {
            offset_us,
            round_trip: Duration::from_micros(round_trip_us),
        };
        Record {
            touched_at: Timestamp::from_micros(touched_us),
            started_at: Timestamp::from_micros(started_us),
            seq,
            interval: Duration::from_micros(interval_us),
            version: version.into(),
            address: address.into(),
            formats,
            load: Load { connections, calls_under_way, calls_per_second },
            clock: clock.map(sample),
        }
    }
}

fn one() -> Record {
    let format = |name: &str| Format { record: name.into(), reads_from: 1, reads_to: 1, writes: 1 };
    Record {
        touched_at: support::NOW,
        started_at: support::BEGAN,
        seq: 9,
        interval: Duration::from_secs(2),
        version: "0.1.0".into(),
        address: "127.0.0.1:7450".into(),
        formats: vec![format("breaker"), format("keys")],
        load: Load::default(),
        clock: Some(ClockSample { offset_us: -3, round_trip: Duration::from_millis(1) }),
    }
}

#[test]
fn every_end_that_comes_too_early_is_refused() {
    let bytes = encode(&one());
    for end in 0..bytes.len() {
        assert!(decode(&bytes[..end]).is_err(), "{end}");
    }
    assert!(decode(&[&bytes[..], &[0]].concat()).is_err(), "something is left over");
}

#[test]
fn a_newer_version_is_refused_and_never_guessed_at() {
    let mut bytes = encode(&one()).to_vec();
    bytes[0] = VERSION + 1;
    assert_eq!(decode(&bytes), Err(DecodeError::UnknownVersion(VERSION + 1)));
    bytes[0] = 0;
    assert!(matches!(decode(&bytes), Err(DecodeError::Damaged(_))));
}

#[test]
fn more_than_a_record_may_hold_or_another_order_is_refused() {
    let format =
        |name: String| Format { record: name.into(), reads_from: 1, reads_to: 1, writes: 1 };
    let many = |count: u32| (0..count).map(|number| format(format!("{number:02}"))).collect();
    assert!(decode(&encode(&Record { formats: many(32), ..one() })).is_ok());
    let reversed = vec![format("keys".into()), format("breaker".into())];
    let twice = vec![format("keys".into()), format("keys".into())];
    let long = vec![format("x".repeat(33))];
    for formats in [many(33), reversed, twice, long] {
        assert!(decode(&encode(&Record { formats, ..one() })).is_err());
    }
    assert!(decode(&encode(&Record { version: "x".repeat(65).into(), ..one() })).is_err());
    assert!(decode(&encode(&Record { address: "x".repeat(256).into(), ..one() })).is_err());
}

/// Stored bytes of every released version are read for ever.
#[test]
fn places_stay_what_they_are() {
    assert_eq!(record_key(NodeId(*b"0123456789abcdef")), &b"n0123456789abcdef"[..]);
    let (start, end) = records();
    assert_eq!((&start[..], &end[..]), (&b"n"[..], &b"o"[..]));
}

proptest! {
    #![proptest_config(support::config(512))]

    #[test]
    fn a_record_comes_back_as_it_was(record in any_record()) {
        prop_assert_eq!(decode(&encode(&record)), Ok(record));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in vec(prop_oneof![0..6_u8, any::<u8>()], 0..160)) {
        let versioned = [&[VERSION], &bytes[..]].concat();
        if let Ok(record) = decode(&versioned) {
            prop_assert_eq!(encode(&record), versioned);
        }
    }

    #[test]
    fn damaged_bytes_are_refused_or_are_just_what_their_record_is_written_as(
        record in any_record(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..4),
    ) {
        let mut bytes = encode(&record).to_vec();
        for (at, byte, how) in damage {
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
        }
        if let Ok(record) = decode(&bytes) {
            prop_assert_eq!(encode(&record), bytes);
        }
    }

    #[test]
    fn no_two_nodes_share_a_place(one in any::<[u8; 16]>(), other in any::<[u8; 16]>()) {
        let (start, end) = records();
        let key = record_key(NodeId(one));
        prop_assert_eq!(from_record_key(&key), Some(NodeId(one)));
        prop_assert_eq!(one == other, key == record_key(NodeId(other)));
        prop_assert!(start <= key && key < end);
        prop_assert_eq!(from_record_key(&key[..16]), None);
        prop_assert_eq!(from_record_key(&[b"c", &key[1..]].concat()), None);
    }
}
