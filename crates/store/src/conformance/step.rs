//! The transitions that the suite runs.

use bytes::Bytes;

use crate::contract::{Change, Transition, ValueChange};

/// One step of a record.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Keeps the record.
    Read,
    /// Makes this change, whatever the record is.
    Make(Change),
    /// Adds to the record, a number of 8 bytes, big-endian; an absent one counts as 0.
    Add(u64),
    /// Appends a number of 8 bytes to the record, unless it is there already: so, like the commands
    /// that Semel's records see, it may be run again.
    Append(u64),
}

/// What a step saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The record before the step.
    pub(crate) old: Option<Bytes>,
    /// The store's time.
    pub(crate) now_us: u64,
}

impl Step {
    /// Puts a value, with no index entries.
    pub(crate) fn put(value: impl Into<Bytes>) -> Self {
        Self::Make(put(value))
    }

    /// Deletes the record, with no index entries.
    pub(crate) fn delete() -> Self {
        Self::Make(Change { value: ValueChange::Delete, index: Vec::new() })
    }
}

impl Transition for Step {
    type Outcome = Seen;

    fn apply(&self, old: Option<&[u8]>, now_us: u64) -> (Change, Seen) {
        let change = match self {
            Self::Read => Change::keep(),
            Self::Make(change) => change.clone(),
            Self::Add(amount) => put((number(old) + amount).to_be_bytes().to_vec()),
            Self::Append(id) if numbers(old).contains(id) => Change::keep(),
            Self::Append(id) => put([old.unwrap_or_default(), &id.to_be_bytes()].concat()),
        };
        (change, Seen { old: old.map(Bytes::copy_from_slice), now_us })
    }
}

/// The number that a record holds after some [`Step::Add`].
pub(crate) fn number(record: Option<&[u8]>) -> u64 {
    record.map_or(0, |bytes| {
        u64::from_be_bytes(bytes.try_into().expect("a number's record has 8 bytes"))
    })
}

/// The numbers that a record holds after some [`Step::Append`].
pub(crate) fn numbers(record: Option<&[u8]>) -> Vec<u64> {
    let chunks = record.unwrap_or_default().chunks(8);
    chunks.map(|chunk| number(Some(chunk))).collect()
}

fn put(value: impl Into<Bytes>) -> Change {
    Change { value: ValueChange::Put(value.into()), index: Vec::new() }
}
