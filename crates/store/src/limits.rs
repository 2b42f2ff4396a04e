//! The sizes that the contract allows, checked before anything is written.
//!
//! Every engine asks here, so that none allows what another refuses. Each check answers
//! [`StoreError::Invalid`] with a sentence for the caller.

use crate::contract::{Change, IndexChange, Scan, StoreError, ValueChange};

const BATCH_ITEMS: usize = 4_096;
const KEY_BYTES: usize = 1_024;
const VALUE_BYTES: usize = 8 << 20;
const INDEX_KEY_BYTES: usize = 2_048;
const INDEX_VALUE_BYTES: usize = 2_048;
const SCAN_ROWS: usize = 10_000;

/// Checks how many items a batch has.
///
/// # Errors
///
/// More than 4,096.
pub fn check_batch(items: usize) -> Result<(), StoreError> {
    if items > BATCH_ITEMS {
        return invalid(format!("{items} items in a batch; send at most {BATCH_ITEMS}"));
    }
    Ok(())
}

/// Checks the length of a record's key.
///
/// # Errors
///
/// Not 1 to 1,024 bytes.
pub fn check_key(key: &[u8]) -> Result<(), StoreError> {
    check_length("a key", key.len(), 1, KEY_BYTES)
}

/// Checks the lengths of a value and of index entries.
///
/// # Errors
///
/// A value of more than 8 MiB, an entry's key of not 1 to 2,048 bytes, or its value of more.
pub fn check_change(change: &Change) -> Result<(), StoreError> {
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

/// Checks the rows that a scan asks for.
///
/// # Errors
///
/// Not 1 to 10,000.
pub fn check_scan(scan: &Scan) -> Result<(), StoreError> {
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
