//! The way to the nodes: which one to ask, how long, and what to make of an error.
//!
//! # Layout
//!
//! - `client`: the handle, and how one is made
//! - `call`: one request, sent until a node answers or its deadline is there
//! - `nodes`: which node to ask, and which to leave alone for a while
//! - `error`: what a call can fail with
//! - `sticky`: one node at a time, for what is bound to it
//! - `tls`: whom to trust, and who one is
//!
//! It knows nothing of what the calls mean.

mod call;
pub(crate) mod client;
pub(crate) mod error;
mod nodes;
mod sticky;
#[cfg(feature = "tls")]
mod tls;

pub(crate) use self::call::Time;
pub(crate) use self::client::Client;
pub use self::client::ClientBuilder;
pub use self::error::Refusal;
pub(crate) use self::error::{DOMAIN, Error, Reason};
#[cfg(test)]
pub(crate) use self::nodes::{Node, Transport};
pub use self::sticky::StickyChannel;
#[cfg(feature = "tls")]
pub use self::tls::Tls;

/// An error and what it came from, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
