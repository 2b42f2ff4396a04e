//! Keys and values of every size and of every byte: an engine that splits large values, or writes
//! keys with an escape, must not let it show.

use bytes::Bytes;

use super::step::Step;
use super::world::{World, row, whole};
use super::{Check, Harness};
use crate::contract::{Change, IndexChange, Space, ValueChange};

pub(super) fn checks<H: Harness>() -> Vec<Check<H>> {
    checks![
        values_of_every_size_are_kept,
        a_value_that_changes_its_size_leaves_nothing_behind,
        neighbours_of_a_large_value_are_left_alone,
        the_largest_keys_and_values_are_kept,
        keys_of_all_bytes_are_kept_in_their_order,
        values_of_all_bytes_are_kept,
    ]
}

const SIZES: [usize; 10] =
    [0, 1, 400, 4_095, 4_096, 4_097, 65_536, (1 << 20) - 1, 1 << 20, (1 << 20) + 1];

async fn values_of_every_size_are_kept<H: Harness>(world: World<H>) {
    for size in SIZES {
        let key = format!("size {size:07}");
        world.step(key.as_bytes(), Step::put(noise(size))).await;
        assert!(world.read(key.as_bytes()).await == Some(noise(size)), "{size} bytes, read");
    }
    let rows = world.rows(Space::Records).await;
    assert_eq!(rows.len(), SIZES.len(), "a value of any size is one row");
    for (size, found) in SIZES.into_iter().zip(rows) {
        assert_eq!(found.key, format!("size {size:07}"));
        assert!(found.value == noise(size), "{size} bytes, scanned");
    }
}

async fn a_value_that_changes_its_size_leaves_nothing_behind<H: Harness>(world: World<H>) {
    let mut before = None;
    for size in [1 << 20, 10, 65_536, 4_096, 0, 1 << 20, 5_000, 1 << 20] {
        let seen = world.step(b"key", Step::put(noise(size))).await;
        assert!(seen.old == before, "the value that is replaced by one of {size} bytes");
        let rows = world.rows(Space::Records).await;
        assert_eq!(rows.len(), 1, "rows after a value of {size} bytes");
        assert!(rows[0] == row("key", noise(size)), "a value of {size} bytes");
        before = Some(noise(size));
    }
    world.step(b"key", Step::delete()).await;
    assert_eq!(world.rows(Space::Records).await, []);
    world.step(b"key", Step::put("small")).await;
    assert_eq!(world.rows(Space::Records).await, [row("key", "small")]);
}

async fn neighbours_of_a_large_value_are_left_alone<H: Harness>(world: World<H>) {
    let keys: [&[u8]; 6] = [b"kex\xff", b"key", b"key\0", b"key\0\0\0\x01", b"key\xff", b"kez"];
    for key in keys {
        world.step(key, Step::put(key.to_vec())).await;
    }
    world.step(b"key", Step::put(noise(1 << 20))).await;
    world.step(b"key", Step::delete()).await;
    let left = world.rows(Space::Records).await;
    let expected = keys.iter().filter(|key| **key != b"key");
    assert_eq!(left, expected.map(|key| row(*key, *key)).collect::<Vec<_>>());
}

async fn the_largest_keys_and_values_are_kept<H: Harness>(world: World<H>) {
    let index_entry = row(noise(2_048), noise(2_048));
    let put = IndexChange::Put { key: index_entry.key.clone(), value: index_entry.value.clone() };
    let change = Change { value: ValueChange::Put(noise(8 << 20)), index: vec![put] };
    let key = noise(1_024);
    world.step(&key, Step::Make(change)).await;
    assert!(world.read(&key).await == Some(noise(8 << 20)), "a value of 8 MiB, read");
    let rows = world.rows(Space::Records).await;
    assert!(rows == [row(key, noise(8 << 20))], "a value of 8 MiB, scanned");
    assert_eq!(world.rows(Space::Index).await, [index_entry]);
}

async fn keys_of_all_bytes_are_kept_in_their_order<H: Harness>(world: World<H>) {
    let mut keys: Vec<Vec<u8>> = (0..=u8::MAX).map(|byte| vec![byte]).collect();
    for byte in 0..=u8::MAX {
        let around = [vec![byte, 0], vec![byte, 0, 0xff], vec![byte, 0xff], vec![b'k', byte, b'k']];
        keys.extend(around);
    }
    keys.sort_unstable();
    keys.dedup();
    // Written backwards and as index entries too, since both spaces have the same order.
    let put = |key: &Vec<u8>| {
        let key = Bytes::from(key.clone());
        let entry = IndexChange::Put { key: key.clone(), value: Bytes::new() };
        let change = Change { value: ValueChange::Put(key.clone()), index: vec![entry] };
        (key.to_vec(), Step::Make(change))
    };
    world.steps(keys.iter().rev().map(put).collect()).await;
    let seen = world.steps(keys.iter().map(|key| (key.clone(), Step::Read)).collect()).await;
    for (key, seen) in keys.iter().zip(seen) {
        assert_eq!(seen.old.as_deref(), Some(key.as_slice()), "the record of {key:?}");
    }
    for space in [Space::Records, Space::Index] {
        let rows = world.page(whole(space)).await.rows;
        let found: Vec<&[u8]> = rows.iter().map(|it| it.key.as_ref()).collect();
        assert_eq!(found, keys, "the keys of {space:?}, in order");
    }
}

async fn values_of_all_bytes_are_kept<H: Harness>(world: World<H>) {
    let value: Vec<u8> = (0..=u8::MAX).cycle().take(1_024).collect();
    world.step(b"key", Step::put(value.clone())).await;
    assert_eq!(world.read(b"key").await, Some(value.into()));
}

/// Bytes that don't compress well and are not the same at any two places, so that pieces put
/// together in a wrong way show.
fn noise(size: usize) -> Bytes {
    let mut state = 1_u64;
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        bytes.extend_from_slice(&(state ^ (state >> 33)).to_le_bytes());
    }
    bytes.truncate(size);
    bytes.into()
}
