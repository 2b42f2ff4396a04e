//! Calls of any kind.

use super::{Criticality, RequestPolicy};
use crate::failure::{Classify, Failure};

/// Calls whose requests and answers are values of one's own: functions say what there is to know of them.
/// They carry neither deadline nor root nor how much they matter.
///
/// ```
/// use semel_client::layers::Calls;
/// use semel_client::{Failure, FailureKind};
///
/// #[derive(Clone)]
/// struct Read(u64);
///
/// let calls = Calls::new()
///     .repeatable_when(|_: &Read| true)
///     .failed_when(|answer: &Option<String>| {
///         answer.is_none().then_some(Failure::of(FailureKind::ServerError))
///     });
/// ```
#[derive(Debug)]
pub struct Calls<R, T> {
    is_repeatable: fn(&R) -> bool,
    failure: fn(&T) -> Option<Failure>,
    criticality: fn(&R) -> Option<Criticality>,
}

impl<R, T> Calls<R, T> {
    /// No request may be repeated, and every answer is good.
    #[must_use]
    pub fn new() -> Self {
        Self { is_repeatable: |_| false, failure: |_| None, criticality: |_| None }
    }

    /// Says which requests may be repeated.
    #[must_use]
    pub const fn repeatable_when(mut self, is_repeatable: fn(&R) -> bool) -> Self {
        self.is_repeatable = is_repeatable;
        self
    }

    /// Says how much a request matters; `None`: as much as what it is made for.
    #[must_use]
    pub const fn criticality_of(mut self, criticality: fn(&R) -> Option<Criticality>) -> Self {
        self.criticality = criticality;
        self
    }

    /// Says which answers are failures.
    #[must_use]
    pub const fn failed_when(mut self, failure: fn(&T) -> Option<Failure>) -> Self {
        self.failure = failure;
        self
    }
}

impl<R, T> Default for Calls<R, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<R, T> Clone for Calls<R, T> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

impl<R: Clone, T> RequestPolicy<R> for Calls<R, T> {
    fn is_repeatable(&self, request: &R) -> bool {
        (self.is_repeatable)(request)
    }

    fn copy(&self, request: &R) -> Option<R> {
        Some(request.clone())
    }

    fn criticality(&self, request: &R) -> Option<Criticality> {
        (self.criticality)(request)
    }
}

impl<R, T> Classify<T> for Calls<R, T> {
    fn answer(&self, answer: &T) -> Option<Failure> {
        (self.failure)(answer)
    }
}
