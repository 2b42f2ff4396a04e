//! What callers were told, held against what can be true.
//!
//! An oracle shares no code with the rules, reads no record, and knows nothing but what callers sent
//! and were answered, and when. Of a call it knows the interval in which it was carried out: from its
//! sending to its answer, or, without an answer, to the end of time. It says that a promise is broken
//! only if no order of events within those intervals keeps it: what is unknown stays unknown.
//!
//! # Layout
//!
//! - `keys`, `budgets`, `breakers`: one for each service

pub(crate) mod breakers;
pub(crate) mod budgets;
pub(crate) mod keys;

/// When a call was sent and when it was answered, in microseconds of virtual time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) sent_us: u64,
    pub(crate) answered_us: u64,
}
