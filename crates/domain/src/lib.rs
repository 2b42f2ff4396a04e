//! The rules of Semel, as plain functions of plain values.
//!
//! Every rule has one form: `decide(record, command, now) -> (change, outcome)`. It is total and
//! pure: no clock, no randomness, no I/O, no panic. A business rejection is an outcome, never an
//! error, and the outcomes of a rule stand in its enum in the order in which they are tried.
//!
//! # Layout
//!
//! - [`limits`]: every bound of the domain, in one file
//! - [`time`]: instants as values
//! - [`name`]: tenants, operations and keys, valid by construction
//! - [`fingerprint`]: what a key stands for
//! - [`response`]: the stored answer of a piece of work
//! - [`codec`]: the primitives of the stored encoding
//! - [`downstream`]: a tenant's dependency, what budgets and breakers belong to
//! - [`budget`]: retry budgets: their bound, their records, what a node holds of them
//! - [`retry`]: whether a request may be sent again, and when
//! - [`breaker`]: circuit breakers: one state per dependency for the whole fleet
//! - [`node`]: the nodes of a cluster: who is there, and how each of them is
//! - [`keys`]: idempotency keys: the record, its commands, its rules, its encoding and its index
//!
//! # Invariants
//!
//! - A loser never writes: an outcome that refuses comes with [`Change::Keep`].
//! - A fence never goes back and is never given twice; a fingerprint never changes; a completed
//!   answer is the same bytes for ever; time inside a record never goes back.
//! - Deciding the same command again on the record that it left gives the same answer, marked as a
//!   repetition, as long as nobody else changed it meanwhile.
//!
//! # What it does not do
//!
//! It parses no wire message, compresses nothing, and holds no policy of its own: what an
//! operation's policy says arrives inside the command.

pub mod breaker;
pub mod budget;
pub mod codec;
pub mod downstream;
pub mod fingerprint;
pub mod keys;
pub mod limits;
pub mod name;
pub mod node;
pub mod response;
pub mod retry;
pub mod time;

/// What a rule asks to be done with the record that it was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<R> {
    /// Nothing is written.
    Keep,
    /// This becomes the record.
    Put(R),
    /// The record is removed.
    Delete,
}

impl<R> Change<R> {
    /// Writes `record` only if it differs from what is there, so that repeating a command that was
    /// already carried out costs no write.
    pub(crate) fn put_if_changed(old: &R, record: R) -> Self
    where
        R: PartialEq,
    {
        if *old == record { Self::Keep } else { Self::Put(record) }
    }
}
