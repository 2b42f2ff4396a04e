//! Where the records of nodes lie in the store: under the byte `n`, by id. They have no index.

use bytes::{BufMut, Bytes, BytesMut};

use super::record::NodeId;
use crate::keys::layout::{Range, end_of_prefix};

const RECORD: u8 = b'n';

/// The key of a node's record.
#[must_use]
pub fn record_key(of: NodeId) -> Bytes {
    let mut bytes = BytesMut::with_capacity(1 + of.0.len());
    bytes.put_u8(RECORD);
    bytes.put_slice(&of.0);
    bytes.freeze()
}

/// Reads a record's key back. `None`: these bytes are no such key.
#[must_use]
pub fn from_record_key(bytes: &[u8]) -> Option<NodeId> {
    bytes.strip_prefix(&[RECORD])?.try_into().ok().map(NodeId)
}

/// The records of all nodes.
#[must_use]
pub fn records() -> Range {
    (Bytes::from_static(&[RECORD]), end_of_prefix(&[RECORD]))
}
