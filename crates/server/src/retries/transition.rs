//! A command as a step of the store: bytes to record, the rule, record to bytes.

use std::sync::Arc;

use bytes::Bytes;
use semel_domain::Change;
use semel_domain::budget::{Command, DecodeError, Outcome, Policy, Record, decide, decode, encode};
use semel_domain::time::Timestamp;
use semel_store::{Durability, Transition, Update, ValueChange};

/// One command on one budget.
#[derive(Clone, Debug)]
pub(crate) struct BudgetTransition {
    pub(crate) command: Arc<Command>,
    /// The version of the policy that the node knows: a newer one comes with the outcome.
    pub(crate) known_version: Option<u64>,
}

/// An outcome, the instant for which it was decided, and what the node did not know of the policy.
#[derive(Clone, Debug)]
pub(crate) struct Decided {
    pub(crate) outcome: Outcome,
    pub(crate) now: Timestamp,
    pub(crate) news: Option<News>,
}

/// A policy that the node did not know.
#[derive(Clone, Debug)]
pub(crate) struct News {
    pub(crate) version: u64,
    pub(crate) policy: Policy,
}

/// Removes a budget's record if it says nothing to anybody.
pub(crate) fn expire(record_key: Bytes) -> Update<BudgetTransition> {
    BudgetTransition { command: Arc::new(Command::Expire), known_version: Some(0) }
        .into_update(record_key)
}

impl BudgetTransition {
    /// The update that carries the command out. What only hands over and gives back may be lost in a
    /// crash: then there is less to grant, never more.
    pub(crate) fn into_update(self, key: Bytes) -> Update<Self> {
        let durability = match &*self.command {
            Command::Sync(sync) if sync.want_milli == 0 => Durability::Relaxed,
            Command::Expire => Durability::Relaxed,
            _ => Durability::Synced,
        };
        Update { key, durability, patience: None, transition: self }
    }

    fn news(&self, record: Option<&Record>) -> Option<News> {
        let version = record.map_or(0, Record::policy_version);
        (self.known_version != Some(version))
            .then(|| News { version, policy: record.map(Record::policy).unwrap_or_default() })
    }
}

impl Transition for BudgetTransition {
    type Outcome = Result<Decided, DecodeError>;

    fn apply(&self, old: Option<&[u8]>, now_us: u64) -> (semel_store::Change, Self::Outcome) {
        let now = Timestamp::from_micros(now_us);
        let record = match old.map(decode).transpose() {
            Ok(record) => record,
            // Nothing may be granted of what can't be read.
            Err(error) => return (semel_store::Change::keep(), Err(error)),
        };
        // The time that counted, so that the node's idea of it is the record's.
        let now = record.as_ref().map_or(now, |record| now.max(record.touched_at));
        let (change, outcome) = decide(record.as_ref(), &self.command, now);
        let (value, news) = match &change {
            Change::Keep => (ValueChange::Keep, self.news(record.as_ref())),
            Change::Put(new) => (ValueChange::Put(encode(new)), self.news(Some(new))),
            Change::Delete => (ValueChange::Delete, self.news(None)),
        };
        let change = semel_store::Change { value, index: Vec::new() };
        (change, Ok(Decided { outcome, now, news }))
    }
}
