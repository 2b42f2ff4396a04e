//! The stored bytes of a record: strict, canonical, and never a panic.

#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "what is made here is valid")]

#[path = "breaker_support/mod.rs"]
mod support;

use proptest::collection::vec;
use proptest::prelude::*;
use semel_domain::breaker::encoding::VERSION;
use semel_domain::breaker::{
    Counts, DecodeError, ForceKind, NodeSeen, Policy, Record, ReporterId, Ring, Slot, decode,
    encode,
};
use semel_domain::codec::{CodecError, Reader, Writer};
use semel_domain::time::Timestamp;

use support::*;

/// Records of every state, with everything that may be in them.
fn every_state() -> Vec<Record> {
    let slow = Policy { slow_call: Some(SECOND), ..POLICY };
    let slots = |all: &[u64]| {
        let slot = |&second: &u64| Slot {
            starts_at: Timestamp::from_micros(BEGAN.as_micros() + second * 1_000_000),
            counts: Counts { succeeded: second * 1_000, failed: 200, slow: 1, ignored: u64::MAX },
        };
        Ring(all.iter().map(slot).collect())
    };
    let mut busy = reported(&[(A, counts(1, 2)), (B, counts(300, 0))], recovered(2));
    busy.window.totals = slots(&[0, 1, 9]);
    busy.window.reporters[0].isolated_until = Some(NOW);
    busy.window.reporters[1].ring = Ring::default();
    busy.forces = vec![[1; 16], [2; 16]];
    busy.nodes.push(another_node());
    let permits = vec![permit(1, NOW), permit(2, BEGAN)];
    vec![
        Record::fresh(NOW),
        closed(),
        busy,
        with_policy(slow, open_until(NOW, 2)),
        half_open(1, permits),
        forced(ForceKind::Open, None),
        forced(ForceKind::Closed, Some(NOW)),
        forced(ForceKind::MetricsOnly, Some(NOW)),
    ]
}

fn another_node() -> NodeSeen {
    NodeSeen { node: [2; 16], seq: u64::MAX, at: NOW }
}

#[test]
fn a_record_comes_back_as_it_was() {
    for record in every_state() {
        assert_eq!(decode(&encode(&record)).as_ref(), Ok(&record));
    }
}

#[test]
fn what_is_cut_short_or_goes_on_is_refused() {
    for record in every_state() {
        let bytes = encode(&record);
        for length in 0..bytes.len() {
            let cut = decode(&bytes[..length]);
            assert!(matches!(cut, Err(DecodeError::Damaged(_))), "{length} bytes");
        }
        let more = [&bytes[..], &[0]].concat();
        assert_eq!(decode(&more), Err(DecodeError::Damaged(CodecError::LeftOver(1))));
    }
}

#[test]
fn a_later_version_is_refused_and_never_guessed_at() {
    let mut bytes = encode(&closed()).to_vec();
    for version in VERSION + 1..=u8::MAX {
        bytes[0] = version;
        assert_eq!(decode(&bytes), Err(DecodeError::UnknownVersion(version)));
    }
    bytes[0] = 0;
    assert!(matches!(decode(&bytes), Err(DecodeError::Damaged(_))));
}

#[test]
fn every_single_byte_changed_is_refused_or_canonical() {
    let mut read = 0;
    for record in every_state() {
        let bytes = encode(&record);
        for at in 0..bytes.len() {
            for to in (0..8).chain([16, 127, 128, 129, 255]) {
                let mut changed = bytes.to_vec();
                changed[at] = to;
                if let Ok(record) = decode(&changed) {
                    assert_eq!(encode(&record), changed, "byte {at} as {to}");
                    read += 1;
                }
            }
        }
    }
    assert!(read > 0, "the bytes of ids and times may hold any value");
}

#[test]
fn reporters_and_nodes_in_another_order_or_twice_are_refused() {
    let mut record = reported(&[(B, counts(1, 0)), (A, counts(1, 0))], closed());
    assert!(decode(&encode(&record)).is_err());
    record = reported(&[(A, counts(1, 0)), (A, counts(1, 0))], closed());
    assert!(decode(&encode(&record)).is_err());
    record = closed();
    record.nodes.insert(0, another_node());
    assert!(decode(&encode(&record)).is_err());
}

#[test]
fn more_than_a_record_may_hold_is_refused() {
    let reporters: Vec<_> = (0..33).map(|byte| (ReporterId([byte; 16]), counts(1, 0))).collect();
    assert!(decode(&encode(&reported(&reporters, closed()))).is_err());
    assert!(decode(&encode(&reported(&reporters[1..], closed()))).is_ok());
    assert!(decode(&encode(&half_open(0, vec![permit(1, NOW); 101]))).is_err());
    let forces = vec![[1; 16]; 9];
    assert!(decode(&encode(&Record { forces, ..closed() })).is_err());
}

/// Hundreds of nodes write it many times a second.
#[test]
fn a_record_of_a_busy_fleet_stays_small() {
    let mut desk = Desk(Some(closed()));
    for second in 0..30_u32 {
        let all: Vec<_> = (0..60).map(|byte| (ReporterId([byte; 16]), counts(100, 3))).collect();
        desk.ask(&absorb(u64::from(second) + 5, GENERATION, &all), NOW.after(second * SECOND));
    }
    let record = desk.0.expect("a record");
    assert_eq!(record.window.reporters.len(), 32);
    assert!(encode(&record).len() < 4_096, "{} bytes", encode(&record).len());
}

proptest! {
    #![proptest_config(config(512))]

    #[test]
    fn no_bytes_make_it_panic(bytes in vec(prop_oneof![0..6_u8, any::<u8>()], 0..300)) {
        let versioned = [&[VERSION], &bytes[..]].concat();
        if let Ok(record) = decode(&versioned) {
            prop_assert_eq!(encode(&record), versioned);
        }
    }

    #[test]
    fn damaged_bytes_are_refused_or_are_just_what_their_record_is_written_as(
        which in 0..8_usize,
        damage in vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..4),
    ) {
        let mut bytes = encode(&every_state()[which]).to_vec();
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
    fn small_numbers_take_few_bytes_and_come_back(value in prop_oneof![0..300_u64, any::<u64>()]) {
        let mut writer = Writer::default();
        writer.varint(value);
        let bytes = writer.finish();
        let mut reader = Reader::new(&bytes);
        prop_assert_eq!(reader.varint(), Ok(value));
        prop_assert_eq!(reader.finish(), Ok(()));
        let bits = 64 - usize::try_from(value.leading_zeros()).unwrap_or(0);
        prop_assert_eq!(bytes.len(), bits.div_ceil(7).max(1));
    }
}

#[test]
fn a_number_has_one_encoding() {
    let read = |bytes: &[u8]| Reader::new(bytes).varint();
    let refused = Err(CodecError::OutOfRange("variable integer"));
    assert_eq!(read(&[0x80, 0]), refused, "zero in two bytes");
    assert_eq!(read(&[0xff, 0]), refused);
    let most = [0xff; 9];
    assert_eq!(read(&[&most[..], &[1]].concat()), Ok(u64::MAX));
    assert_eq!(read(&[&most[..], &[2]].concat()), refused, "65 bits");
    assert_eq!(read(&[&most[..], &[0x81]].concat()), refused);
    assert_eq!(read(&[0xff]), Err(CodecError::CutShort));
}
