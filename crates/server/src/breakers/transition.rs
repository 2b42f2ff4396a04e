//! A command as a step of the store: bytes to record, the rule, record to bytes.

use std::sync::Arc;

use bytes::Bytes;
use semel_domain::Change;
use semel_domain::breaker::{Command, DecodeError, Outcome, Record, decide, decode, encode};
use semel_domain::time::Timestamp;
use semel_store::{Durability, Transition, Update, ValueChange};

/// One command on one breaker.
#[derive(Clone, Debug)]
pub(crate) struct BreakerTransition(Arc<Command>);

/// An outcome, what the decision left, and the instant for which it was decided.
#[derive(Clone, Debug)]
pub(crate) struct Decided {
    pub(super) outcome: Outcome,
    pub(super) record: Option<Arc<Record>>,
    pub(super) now: Timestamp,
}

/// What the store says of one command.
pub(super) type Answer = Result<Result<Decided, DecodeError>, semel_store::StoreError>;

/// Only counts, and the removal of what says nothing, may be lost in a crash.
pub(super) fn durability(command: &Command) -> Durability {
    match command {
        Command::Absorb(_) | Command::Expire => Durability::Relaxed,
        _ => Durability::Synced,
    }
}

/// The update that carries a command out.
pub(super) fn update(record_key: Bytes, command: Arc<Command>) -> Update<BreakerTransition> {
    let durability = durability(&command);
    Update { key: record_key, durability, patience: None, transition: BreakerTransition(command) }
}

/// Removes a breaker's record if it says nothing to anybody.
pub(crate) fn expire(record_key: Bytes) -> Update<BreakerTransition> {
    update(record_key, Arc::new(Command::Expire))
}

impl Transition for BreakerTransition {
    type Outcome = Result<Decided, DecodeError>;

    fn apply(&self, old: Option<&[u8]>, now_us: u64) -> (semel_store::Change, Self::Outcome) {
        let now = Timestamp::from_micros(now_us);
        let record = match old.map(decode).transpose() {
            Ok(record) => record,
            // Nothing may be decided on what can't be read.
            Err(error) => return (semel_store::Change::keep(), Err(error)),
        };
        let (change, outcome) = decide(record.as_ref(), &self.0, now);
        let (value, record) = match change {
            Change::Keep => (ValueChange::Keep, record),
            Change::Put(new) => (ValueChange::Put(encode(&new)), Some(new)),
            Change::Delete => (ValueChange::Delete, None),
        };
        let decided = Decided { outcome, record: record.map(Arc::new), now };
        (semel_store::Change { value, index: Vec::new() }, Ok(decided))
    }
}
