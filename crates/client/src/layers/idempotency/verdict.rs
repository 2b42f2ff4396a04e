//! What an answer of the handler means for its key.

/// What an answer means for its key. A handler that knows better than the table of its dialect puts one into
/// the extensions of its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It is done: the answer is stored, and replayed.
    Succeeded,
    /// It failed, and would fail again: the answer is stored, and replayed.
    FailedFinal,
    /// It is known not to be done: the answer is handed on, and the next attempt runs. Never after a
    /// timeout or a lost connection to whatever does the work.
    NotDone,
    /// Perhaps it is done: the answer is handed on, and the next attempt meets the layer's
    /// [policy](super::IdempotencyLayer::on_owner_lost).
    Unknown,
}
