//! The stored bytes of a record: strict, canonical, and never a panic.

#![allow(clippy::expect_used, reason = "what is made here is valid")]

#[path = "support/arbitrary.rs"]
mod arbitrary;
mod support;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use semel_domain::codec::CodecError;
use semel_domain::keys::encoding::VERSION;
use semel_domain::keys::{DecodeError, decode, encode};

use support::{A, claimed_by, every_state};

/// Something that may happen to stored bytes.
#[derive(Clone, Debug)]
enum Damage {
    Flip(Index, u8),
    Set(Index, u8),
    Insert(Index, u8),
    Remove(Index),
    Cut(Index),
    /// A piece is written over another one, as a lost page would be by an older one.
    Copy(Index, Index, Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        (any::<Index>(), 0..8_u32).prop_map(|(at, bit)| Damage::Flip(at, 1 << bit)),
        (any::<Index>(), prop_oneof![0..8_u8, any::<u8>()])
            .prop_map(|(at, to)| Damage::Set(at, to)),
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Damage::Insert(at, byte)),
        any::<Index>().prop_map(Damage::Remove),
        any::<Index>().prop_map(Damage::Cut),
        any::<(Index, Index, Index)>().prop_map(|(from, to, at)| Damage::Copy(from, to, at)),
    ]
}

fn do_damage(bytes: &mut Vec<u8>, damage: &Damage) {
    if bytes.is_empty() {
        return;
    }
    let length = bytes.len();
    match damage {
        Damage::Flip(at, mask) => {
            bytes.iter_mut().skip(at.index(length)).take(1).for_each(|byte| *byte ^= mask);
        }
        Damage::Set(at, to) => {
            bytes.iter_mut().skip(at.index(length)).take(1).for_each(|byte| *byte = *to);
        }
        Damage::Insert(at, byte) => bytes.insert(at.index(length), *byte),
        Damage::Remove(at) => drop(bytes.remove(at.index(length))),
        Damage::Cut(at) => bytes.truncate(at.index(length)),
        Damage::Copy(from, to, at) => {
            let (from, to) = (from.index(length), to.index(length));
            let (from, to) = (from.min(to), from.max(to));
            bytes.copy_within(from..to, at.index(length - (to - from)));
        }
    }
}

proptest! {
    #![proptest_config(support::config(128))]

    #[test]
    fn a_record_comes_back_as_it_was(record in arbitrary::record()) {
        prop_assert_eq!(decode(&encode(&record)), Ok(record));
    }

    #[test]
    fn bytes_that_go_on_after_a_record_are_refused(
        record in arbitrary::record(),
        more in vec(any::<u8>(), 1..9),
    ) {
        let mut bytes = encode(&record).to_vec();
        bytes.extend(&more);
        let left_over = CodecError::LeftOver(more.len());
        prop_assert_eq!(decode(&bytes), Err(DecodeError::Damaged(left_over)));
    }

    #[test]
    fn a_record_that_is_cut_short_anywhere_is_refused(record in arbitrary::record()) {
        let bytes = encode(&record);
        for length in 0..bytes.len() {
            let cut = bytes.slice(..length);
            prop_assert!(matches!(decode(&cut), Err(DecodeError::Damaged(_))), "{} bytes", length);
        }
    }

    #[test]
    fn a_later_version_is_refused_and_never_guessed_at(record in arbitrary::record()) {
        let bytes = encode(&record);
        let with_version = |version: u8| {
            let mut other = bytes.to_vec();
            if let Some(first) = other.first_mut() {
                *first = version;
            }
            decode(&other)
        };
        for version in VERSION + 1..=u8::MAX {
            prop_assert_eq!(with_version(version), Err(DecodeError::UnknownVersion(version)));
        }
        // No node ever wrote it, so no upgrade would help.
        prop_assert!(matches!(with_version(0), Err(DecodeError::Damaged(_))));
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
}

proptest! {
    #![proptest_config(support::config(512))]

    #[test]
    fn damaged_bytes_are_refused_or_are_just_what_their_record_is_written_as(
        record in arbitrary::record(),
        all_damage in vec(damage(), 1..4),
    ) {
        let mut bytes = encode(&record).to_vec();
        for damage in &all_damage {
            do_damage(&mut bytes, damage);
        }
        if let Ok(read) = decode(&bytes) {
            prop_assert_eq!(encode(&read), bytes);
        }
    }
}

/// Damage drawn at random seldom meets the bytes that choose or count; this meets each of them.
#[test]
fn every_single_byte_changed_is_refused_or_canonical() {
    let mut read = 0;
    for (state, record) in every_state(A) {
        let bytes = encode(&record);
        for at in 0..bytes.len() {
            for to in (0..8).chain([16, 128, 255]) {
                let mut changed = bytes.to_vec();
                if let Some(byte) = changed.get_mut(at) {
                    *byte = to;
                }
                if let Ok(record) = decode(&changed) {
                    assert_eq!(encode(&record), changed, "{state}, byte {at} as {to}");
                    read += 1;
                }
            }
        }
    }
    assert!(read > 0, "the bytes of digests, owners and times may hold any value");
}

#[test]
fn labels_in_another_order_or_twice_are_refused() {
    let mut record = claimed_by(A);
    record.labels =
        [("a", "1"), ("b", "2")].map(|(name, value)| (name.into(), value.into())).into();
    let bytes = encode(&record);
    let label = |name: u8, value: u8| [1, 0, 0, 0, name, 1, 0, 0, 0, value];
    let written = [label(b'a', b'1'), label(b'b', b'2')].concat();
    let at = bytes.windows(written.len()).position(|part| part == written).expect("the labels");
    for wrong in [
        [label(b'b', b'2'), label(b'a', b'1')],
        [label(b'a', b'1'), label(b'a', b'2')],
        [label(b'a', b'1'), label(b'a', b'1')],
    ] {
        let mut changed = bytes.to_vec();
        changed.splice(at..at + written.len(), wrong.concat());
        let refused = DecodeError::Damaged(CodecError::OutOfRange("order of labels"));
        assert_eq!(decode(&changed), Err(refused));
    }
}

#[test]
fn an_empty_value_is_damage_not_an_empty_record() {
    assert_eq!(decode(&[]), Err(DecodeError::Damaged(CodecError::CutShort)));
}
