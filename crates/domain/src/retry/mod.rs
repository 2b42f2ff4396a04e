//! Whether a request may be sent again, and when: all that is decided before the budget is asked.
//!
//! # Layout
//!
//! - [`failure`]: what was seen, and what it says about the work
//! - [`backoff`]: how long to wait
//! - [`verdict`]: the rule, in order of precedence
//! - [`token`]: the name of a retry that was granted
//!
//! # What it does not do
//!
//! It pays for nothing: that is [`crate::budget`]'s.

pub mod backoff;
pub mod failure;
pub mod token;
pub mod verdict;

pub use backoff::{BackoffStrategy, delay};
pub use failure::{FailureKind, WorkDone};
pub use token::Token;
pub use verdict::{
    AttemptKind, Breaker, Denial, Failure, Plan, Question, Root, Verdict, decide, judge,
};
