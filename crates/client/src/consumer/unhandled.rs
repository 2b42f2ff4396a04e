//! Events that come back because no handler ran.

use std::fmt;

use thiserror::Error;

use super::Event;
use crate::connection::Error;

/// The claims of a delivery were refused as a whole, or not answered: no handler ran.
#[derive(Error)]
#[error("none of {} events was handled: {error}", .events.len())]
#[non_exhaustive]
pub struct Unhandled<T> {
    /// The events, as they were handed in: let them be delivered again.
    pub events: Vec<Event<T>>,
    /// Why.
    #[source]
    pub error: Error,
}

/// Their number: what they say is the caller's.
impl<T> fmt::Debug for Unhandled<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut unhandled = formatter.debug_struct("Unhandled");
        unhandled.field("events", &self.events.len()).field("error", &self.error).finish()
    }
}

/// For who needs the events no more.
impl<T> From<Unhandled<T>> for Error {
    fn from(unhandled: Unhandled<T>) -> Self {
        unhandled.error
    }
}
