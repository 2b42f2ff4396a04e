//! The layers around a channel of tonic.
//!
//! tonic's request bodies are streams, which can be read once. A body that is whole as soon as it is sent, as
//! that of every unary call is, is kept to be sent again; one that is not, or is larger than 1 MiB, is
//! [sent once](super::SendOnce). Nothing is ever waited for.

mod body;
mod service;

pub use self::body::ReplayBody;
pub use self::service::{GrpcService, GrpcStack, status_of};

#[cfg(test)]
mod tests;
