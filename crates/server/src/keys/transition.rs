//! A command as a step of the store: bytes to record, the rule, record to bytes.

use std::sync::Arc;

use bytes::Bytes;
use semel_domain::Change;
use semel_domain::keys::layout::Address;
use semel_domain::keys::{Command, DecodeError, Outcome, Record, decide, decode, encode};
use semel_domain::time::Timestamp;
use semel_store::{Durability, IndexChange, Transition, Update, ValueChange};

/// One command on one key.
#[derive(Clone, Debug)]
pub(crate) struct KeyTransition {
    pub(crate) address: Arc<Address>,
    pub(crate) command: Arc<Command>,
}

/// An outcome, and the instant for which it was decided.
#[derive(Clone, Debug)]
pub(crate) struct Decided {
    pub(crate) outcome: Outcome,
    pub(crate) now: Timestamp,
}

impl KeyTransition {
    /// The update that carries this command out. Only the sweeper's work may be lost in a crash: it
    /// is found again.
    pub(crate) fn into_update(self, record_key: Bytes) -> Update<Self> {
        let durability = match *self.command {
            Command::Expire => Durability::Relaxed,
            _ => Durability::Synced,
        };
        Update { key: record_key, durability, patience: None, transition: self }
    }
}

impl Transition for KeyTransition {
    type Outcome = Result<Decided, DecodeError>;

    fn apply(&self, old: Option<&[u8]>, now_us: u64) -> (semel_store::Change, Self::Outcome) {
        let now = Timestamp::from_micros(now_us);
        let record = match old.map(decode).transpose() {
            Ok(record) => record,
            // Nothing may be decided on what can't be read.
            Err(error) => return (semel_store::Change::keep(), Err(error)),
        };
        let (change, outcome) = decide(record.as_ref(), &self.command, now);
        let change = match change {
            Change::Keep => semel_store::Change::keep(),
            Change::Put(new) => semel_store::Change {
                value: ValueChange::Put(encode(&new)),
                index: self.index_changes(record.as_ref(), Some(&new)),
            },
            Change::Delete => semel_store::Change {
                value: ValueChange::Delete,
                index: self.index_changes(record.as_ref(), None),
            },
        };
        (change, Ok(Decided { outcome, now }))
    }
}

impl KeyTransition {
    /// What the change from `old` to `new` does to the index: the difference of their entries.
    fn index_changes(&self, old: Option<&Record>, new: Option<&Record>) -> Vec<IndexChange> {
        let entries = |record: Option<&Record>| {
            record.map_or_else(Vec::new, |record| self.address.index_entries(record))
        };
        let (before, after) = (entries(old), entries(new));
        let removed = before
            .iter()
            .filter(|entry| !after.contains(entry))
            .map(|entry| IndexChange::Delete { key: entry.clone() });
        let added = after
            .iter()
            .filter(|entry| !before.contains(entry))
            .map(|entry| IndexChange::Put { key: entry.clone(), value: Bytes::new() });
        removed.chain(added).collect()
    }
}
