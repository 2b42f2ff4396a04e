//! The sizes that the contract allows, checked before anything is written.

use crate::contract::{Change, IndexChange, Scan, StoreError, ValueChange};

const BATCH_ITEMS: usize = 4_096;
const KEY_BYTES: usize = 1_024;
const VALUE_BYTES: usize = 8 << 20;
const INDEX_KEY_BYTES: usize = 2_048;
const INDEX_VALUE_BYTES: usize = 2_048;
const SCAN_ROWS: usize = 10_000;

pub(crate) fn check_batch(items: usize) -> Result<(), StoreError> {
    if items > BATCH_ITEMS {
        return invalid(format!("{items} items in a batch; send at most {BATCH_ITEMS}"));
    }
    Ok(())
}

pub(crate) fn check_key(key: &[u8]) -> Result<(), StoreError> {
    check_length("a key", key.len(), 1, KEY_BYTES)
}

pub(crate) fn check_change(change: &Change) -> Result<(), StoreError> {
    if let ValueChange::Put(value) = &change.value {
        check_length("a value", value.len(), 0, VALUE_BYTES)?;
    }
    change.index.iter().try_for_each(|entry| match entry {
        IndexChange::Put { key, value } => {
            check_length("an index key", key.len(), 1, INDEX_KEY_BYTES)?;
            check_length("an index value", value.len(), 0, INDEX_VALUE_BYTES)
        }
        IndexChange::Delete { key } => check_length("an index key", key.len(), 1, INDEX_KEY_BYTES),
    })
}

pub(crate) fn check_scan(scan: &Scan) -> Result<(), StoreError> {
    if !(1..=SCAN_ROWS).contains(&scan.limit) {
        return invalid(format!("a scan of {} rows; ask for 1 to {SCAN_ROWS}", scan.limit));
    }
    Ok(())
}

fn check_length(what: &str, found: usize, least: usize, most: usize) -> Result<(), StoreError> {
    if !(least..=most).contains(&found) {
        return invalid(format!("{what} of {found} bytes; it must have {least} to {most}"));
    }
    Ok(())
}

fn invalid(reason: String) -> Result<(), StoreError> {
    Err(StoreError::Invalid(reason))
}
