//! What an answer of the handler means for its key.

use std::sync::Arc;

use thiserror::Error;
use tonic::Status;

/// What an answer means for its key. A handler that knows better than the table of its dialect puts one into
/// the extensions of its response, or [on a status](Self::on) of gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Verdict {
    /// It is done: the answer is stored, and replayed.
    #[error("it is done")]
    Succeeded,
    /// It failed, and would fail again: the answer is stored, and replayed.
    #[error("it failed for good")]
    FailedFinal,
    /// It is known not to be done: the answer is handed on, and the next attempt runs. Never after a
    /// timeout or a lost connection to whatever does the work.
    #[error("it is known not to be done")]
    NotDone,
    /// Perhaps it is done: the answer is handed on, and the next attempt meets the layer's
    /// [policy](crate::layers::IdempotencyLayer::on_owner_lost).
    #[error("perhaps it is done")]
    Unknown,
}

impl Verdict {
    /// Puts it on a status, in place of the status's source. Callers don't see it.
    #[must_use]
    pub fn on(self, mut status: Status) -> Status {
        status.set_source(Arc::new(self));
        status
    }

    /// The verdict on a status.
    pub(super) fn of(status: &Status) -> Option<Self> {
        std::error::Error::source(status)?.downcast_ref().copied()
    }
}
