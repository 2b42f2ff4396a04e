//! The layers around a channel of tonic.
//!
//! tonic's request bodies are streams, which can be read once. A body that is whole as soon as it is sent, as
//! that of every unary call is, is kept to be sent again; one that is not, or is larger than 1 MiB, is
//! [sent once](super::SendOnce). Nothing is ever waited for.
//!
//! # Where a status is
//!
//! A call that fails at once is answered with a head that has the status. One that fails later has it in the
//! trailers, behind a head that says nothing yet. Retries and hedges go by the head alone, as the retries that gRPC
//! itself specifies (proposal A6, "retries are committed once headers were received"): from the head on, messages
//! are handed on as they come, and nobody can take them back. What the breaker is told, and what is measured, waits
//! for the trailers; how long a call took is counted to its head all the same, for a stream may go on for hours.
//! Of a probe the first message is enough: the dependency lives. A body that is dropped before its end was good if
//! a message had come, and cancelled if none had.

mod body;
pub(super) mod service;
mod trailers;

pub use self::body::ReplayBody;
pub use self::service::status_of;
pub use self::trailers::{ToldBody, Trailers};

#[cfg(test)]
mod tests;
