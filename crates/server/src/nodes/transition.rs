//! A command as a step of the store: bytes to record, the rule, record to bytes.

use std::sync::Arc;

use bytes::Bytes;
use semel_domain::Change;
use semel_domain::node::layout::record_key;
use semel_domain::node::{Command, DecodeError, NodeId, Outcome, decide, decode, encode};
use semel_domain::time::Timestamp;
use semel_store::{Durability, Transition, Update, ValueChange};

/// One command on the record of one node.
#[derive(Clone, Debug)]
pub(crate) struct NodeTransition(Arc<Command>);

/// An outcome, and the store's time when it was decided.
#[derive(Clone, Debug)]
pub(crate) struct Decided {
    pub(super) outcome: Result<Outcome, DecodeError>,
    pub(super) now: Timestamp,
}

/// The update that carries a command out. All of them may be lost in a crash: the nodes that live tell
/// of themselves again.
pub(super) fn update(of: NodeId, command: Command) -> Update<NodeTransition> {
    keyed(record_key(of), command)
}

/// Removes a node's record if the node is gone for good.
pub(crate) fn expire(record_key: Bytes) -> Update<NodeTransition> {
    keyed(record_key, Command::Expire)
}

fn keyed(key: Bytes, command: Command) -> Update<NodeTransition> {
    let transition = NodeTransition(Arc::new(command));
    Update { key, durability: Durability::Relaxed, patience: None, transition }
}

impl Transition for NodeTransition {
    type Outcome = Decided;

    fn apply(&self, old: Option<&[u8]>, now_us: u64) -> (semel_store::Change, Decided) {
        let now = Timestamp::from_micros(now_us);
        let record = match old.map(decode).transpose() {
            Ok(record) => record,
            // Nothing may be decided on what can't be read; what time it is, is known all the same.
            Err(error) => {
                return (semel_store::Change::keep(), Decided { outcome: Err(error), now });
            }
        };
        let (change, outcome) = decide(record.as_ref(), &self.0, now);
        let value = match change {
            Change::Keep => ValueChange::Keep,
            Change::Put(new) => ValueChange::Put(encode(&new)),
            Change::Delete => ValueChange::Delete,
        };
        let change = semel_store::Change { value, index: Vec::new() };
        (change, Decided { outcome: Ok(outcome), now })
    }
}
