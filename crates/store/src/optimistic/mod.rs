//! How engines over a shared database update: read many records at one moment, decide here, and write each
//! only over the very version that was read. Nothing is held in the database between the two.
//!
//! An engine brings two requests, a read and a write of many records ([`Engine`]); the rest is here, the
//! same for each: [`Updates`], and the thread on which they run, [`StoreThread`].
//!
//! # Invariants
//!
//! - Updates of one record by one node go one after the other; those of several nodes are settled by the
//!   write, which fails for a record that somebody else wrote since it was read.
//! - What batches ask at the same time shares a request; nothing is held back for that.
//! - An item is answered once its record was written over what its transition saw, or was not written.
//! - What a caller read and watches is remembered, so that polling finds each change that no wake-up told.
//!
//! # What it does not do
//!
//! It runs nothing again whose result is unknown.

mod batch;
mod lane;
mod parts;
mod random;
mod thread;
mod turns;
mod updates;
mod watched;

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;

use crate::contract::{Durability, StoreError};

pub use batch::{Answers, Decision, Found, Write};
pub use parts::parts;
pub use random::random_number;
pub use thread::{Ending, StoreThread};
pub use updates::{Patience, Updates};
pub use watched::Watched;

/// What an engine over a shared database must be able to do.
pub trait Engine: Send + Sync {
    /// What a read found.
    type Answer: Answer;

    /// Reads the records of `keys`, all at one moment, which is after this was called. Gives up when nobody
    /// waits any more, after `patience`; `None`: by its own rules.
    ///
    /// # Errors
    ///
    /// [`Lost::Again`] if another try may succeed at once.
    fn read(
        &self,
        keys: &[Bytes],
        patience: Option<Duration>,
    ) -> impl Future<Output = Result<Self::Answer, Lost>> + Send;

    /// Writes the records of `decisions`, which are distinct, in the order of their keys, and all synced or all relaxed,
    /// each in one commit with its index entries, and over nothing but what was read. Answers for each, in
    /// order, with its new version.
    fn write(
        &self,
        durability: Durability,
        decisions: &[Decision],
        patience: Option<Duration>,
    ) -> impl Future<Output = Vec<Result<i64, Lost>>> + Send;

    /// Waits until all that was committed relaxed before is on disk.
    ///
    /// # Errors
    ///
    /// Why that can't be told.
    fn flush(
        &self,
        patience: Option<Duration>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// A record was changed by `decision`, and that is committed: tells the other nodes. `watched`: somebody
    /// waits for it on this one.
    fn changed(&self, decision: &Decision, watched: bool);
}

/// What a read found.
pub trait Answer: Send + Sync + 'static {
    /// The time to decide by: see [`Transition::apply`](crate::Transition::apply).
    fn now_us(&self) -> u64;

    /// The moment of the read, if the write has to know it: it comes with each [`Decision`].
    fn snapshot(&self) -> i64;

    /// The record of the `place`th key, from 0; `None`: there is none.
    ///
    /// # Errors
    ///
    /// What is stored can't be read.
    fn get(&self, place: usize) -> Result<Option<Found<'_>>, StoreError>;
}

/// Why a request did nothing for a record.
#[derive(Clone, Debug)]
pub enum Lost {
    /// Somebody else wrote it, or the database asks for another try.
    Again,
    /// It is not to be tried again here.
    Failed(StoreError),
}

/// The longest of several; `None` is for ever.
pub fn longest(patience: impl Iterator<Item = Option<Duration>>) -> Option<Duration> {
    patience.reduce(|one, other| Some(one?.max(other?))).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_wait_is_that_of_the_most_patient() {
        let seconds = |seconds: &[Option<u64>]| {
            longest(seconds.iter().map(|it| it.map(Duration::from_secs))).map(|it| it.as_secs())
        };
        assert_eq!(seconds(&[Some(1), Some(3), Some(2)]), Some(3));
        assert_eq!(seconds(&[Some(1), None, Some(2)]), None);
        assert_eq!(seconds(&[]), None);
    }
}
