//! The contract between the rules and an engine: two verbs, a wake-up, and the values they carry.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;

use crate::watch::Watch;

/// A pure step from an old record to a new one.
///
/// An engine may apply a transition more than once before it commits (a conflict), and the last
/// application is the one that counts; a caller whose commit is unknown runs the whole transition
/// again. So `apply` reads nothing but its arguments and itself, and a transition that finds its own
/// work done must recognise it and answer as for the first time: that is what the ids kept inside
/// records are for.
pub trait Transition: Clone + Send + Sync + 'static {
    /// What the caller learns when the change is committed.
    type Outcome: Send + 'static;

    /// Decides the change of the record `old` (absent: `None`) at `now_us`, microseconds since the
    /// Unix epoch by the store's clock. It never goes back while the store is open, and after a reopening
    /// not behind any time that a committed change was given.
    fn apply(&self, old: Option<&[u8]>, now_us: u64) -> (Change, Self::Outcome);
}

/// One item of a batch: the transition of one record.
#[derive(Clone, Debug)]
pub struct Update<T> {
    /// The record's key: 1 to 1,024 bytes, opaque, ordered bytewise.
    pub key: Bytes,
    /// When the answer may be given.
    pub durability: Durability,
    /// How long the answer is of any use, from when the batch is handed over; `None`: for as long as the
    /// engine waits for its own reasons. Later an engine may give up, and a batch may be given up with its
    /// most patient item.
    pub patience: Option<Duration>,
    /// What to do.
    pub transition: T,
}

/// When an update may be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// On disk before the answer: survives the loss of the process and of power.
    Synced,
    /// Visible at once, on disk soon: the last moments may be lost in a crash.
    Relaxed,
}

/// What a transition asks for: one record's change and the index changes that belong to it, all in
/// one commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The record itself.
    pub value: ValueChange,
    /// Index entries, applied in order.
    pub index: Vec<IndexChange>,
}

impl Change {
    /// Nothing is written.
    #[must_use]
    pub fn keep() -> Self {
        Self::default()
    }

    /// Whether nothing is written.
    #[must_use]
    pub fn is_keep(&self) -> bool {
        self.value == ValueChange::Keep && self.index.is_empty()
    }
}

/// What becomes of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ValueChange {
    /// It stays as it is, present or absent.
    #[default]
    Keep,
    /// It becomes these bytes (at most 8 MiB).
    Put(Bytes),
    /// It is gone.
    Delete,
}

/// A change of the ordered index. Entries are opaque to the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexChange {
    /// Adds or replaces an entry.
    Put {
        /// The entry's key: 1 to 2,048 bytes, ordered bytewise.
        key: Bytes,
        /// What it carries (at most 2 KiB).
        value: Bytes,
    },
    /// Removes an entry; an absent one is no error.
    Delete {
        /// The entry's key.
        key: Bytes,
    },
}

/// The two ordered spaces that a [`Scan`] can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// The records, by their keys.
    Records,
    /// The index entries, by theirs.
    Index,
}

/// A bounded read of an ordered range.
#[derive(Clone, Debug)]
pub struct Scan {
    /// Which space.
    pub space: Space,
    /// The first key that counts. To go on after a page, the last key of the page plus a zero byte.
    pub start: Bytes,
    /// The first key that no longer counts; empty: to the end of the space. One before `start`: an
    /// empty range.
    pub end: Bytes,
    /// How many rows at the most: 1 to 10,000; anything else is [`StoreError::Invalid`].
    pub limit: usize,
    /// How many bytes of keys and values at the most; one row is always given.
    pub max_bytes: usize,
}

/// One row of a [`Page`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The key, as it was written.
    pub key: Bytes,
    /// The value, as it was written.
    pub value: Bytes,
}

/// What a [`Scan`] found: committed rows, in order. Rows that are being written meanwhile may or
/// may not be among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The rows.
    pub rows: Vec<Row>,
    /// Whether the range went on when a bound was met.
    pub more: bool,
}

/// Why an engine gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Nothing was written. Trying again later is safe.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The change may have been committed, or not. Running the same transition again settles it.
    #[error("the result of the commit is unknown: {0}")]
    Unknown(String),
    /// The engine met something that it can't read or must not write. Nothing was written, and
    /// trying again won't help.
    #[error("the store refused: {0}")]
    Invalid(String),
}

/// An engine.
///
/// Handles are cheap to share behind an `Arc`. Dropping a returned future abandons the answer, not
/// the change: a batch that was handed over is committed or refused as a whole item by item.
pub trait Store: Send + Sync + 'static {
    /// Applies each transition to its record and commits the changes, answering item by item, in
    /// order. Linearizable per key: items of one batch on the same key see each other in order.
    /// At most 4,096 items, or all are refused; an item over a limit is refused alone, as
    /// [`StoreError::Invalid`].
    ///
    /// A transition that keeps its record is a linearizable read: it waits for the durability of
    /// what it saw, and costs no write.
    fn update<T: Transition>(
        &self,
        batch: Vec<Update<T>>,
    ) -> impl Future<Output = Vec<Result<T::Outcome, StoreError>>> + Send;

    /// Reads a range in order.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unavailable`] while the engine is down.
    fn scan(&self, scan: Scan) -> impl Future<Output = Result<Page, StoreError>> + Send;

    /// Watches one record: the returned watch wakes after the next committed change. It is armed
    /// when this returns, so a caller that watches first and reads second misses nothing.
    fn watch(&self, key: &[u8]) -> Watch;
}
