//! Whether a retry may be made, but for the budget. The first reason that applies is the answer. Pure.

use std::time::Duration;

use semel_proto::v1::RetryVerdict;

use super::backoff::delay;
use crate::failure::{Failure, WorkDone};
use crate::layers::Criticality;
use crate::rules::Rules;

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question<'a> {
    /// `None`: the attempt is only slow, and a second one is to race it.
    pub(crate) failure: Option<Failure>,
    pub(crate) is_repeatable: bool,
    /// Attempts that the call has had, from 1.
    pub(crate) attempt: u32,
    pub(crate) layer: &'a str,
    pub(crate) criticality: Criticality,
    /// What remains of the operation's deadline; `None`: it has none.
    pub(crate) remaining: Option<Duration>,
    pub(crate) expected: Duration,
    pub(crate) is_breaker_open: bool,
}

/// How long to wait before the retry, if the budget pays for it. The root has so many retries left; `roll` is
/// uniform.
///
/// # Errors
///
/// Why not.
pub(super) fn judge(
    question: &Question<'_>,
    root_left: u32,
    rules: &Rules,
    roll: u64,
) -> Result<Duration, RetryVerdict> {
    // The attempt before may be about to succeed.
    let work_done = question.failure.map_or(WorkDone::Perhaps, |failure| failure.kind.work_done());
    let is_forbidden = question.failure.is_some_and(|failure| failure.forbids_retries);
    if work_done == WorkDone::Irrelevant || is_forbidden {
        return Err(RetryVerdict::NotRetryable);
    }
    if work_done == WorkDone::Perhaps && !question.is_repeatable {
        return Err(RetryVerdict::Unsafe);
    }
    if !rules.retry_layer.is_empty() && rules.retry_layer != question.layer {
        return Err(RetryVerdict::NotThisLayer);
    }
    if question.attempt >= rules.attempts_max {
        return Err(RetryVerdict::AttemptsExhausted);
    }
    if root_left == 0 {
        return Err(RetryVerdict::RootExhausted);
    }
    let wait = question.failure.map(|failure| delay(rules, &failure, question.attempt, roll));
    let wait = wait.unwrap_or_default();
    let fits = match question.remaining {
        Some(remaining) => wait.saturating_add(question.expected) < remaining,
        // A dependency that asks for a day does not hold a call up that long.
        None => wait <= rules.cap.saturating_mul(2),
    };
    if !fits {
        return Err(RetryVerdict::Deadline);
    }
    if question.is_breaker_open {
        return Err(RetryVerdict::BreakerOpen);
    }
    Ok(wait)
}

/// The verdict in metrics.
pub(super) const fn name(verdict: RetryVerdict) -> &'static str {
    match verdict {
        RetryVerdict::Unspecified => "unspecified",
        RetryVerdict::NotRetryable => "not_retryable",
        RetryVerdict::Unsafe => "unsafe",
        RetryVerdict::NotThisLayer => "not_this_layer",
        RetryVerdict::AttemptsExhausted => "attempts_exhausted",
        RetryVerdict::RootExhausted => "root_exhausted",
        RetryVerdict::Deadline => "deadline",
        RetryVerdict::BreakerOpen => "breaker_open",
        RetryVerdict::BudgetExhausted => "budget_exhausted",
        RetryVerdict::Granted => "granted",
    }
}

#[cfg(test)]
mod tests {
    use semel_proto::v1::RetryPolicy;

    use super::*;
    use crate::failure::FailureKind;

    fn rules() -> Rules {
        Rules::of(&RetryPolicy { retry_layer: "edge".into(), ..RetryPolicy::default() })
    }

    fn fine() -> Question<'static> {
        Question {
            failure: Some(Failure::of(FailureKind::UnknownOutcome)),
            is_repeatable: true,
            attempt: 1,
            layer: "edge",
            criticality: Criticality::Default,
            remaining: Some(Duration::from_millis(61)),
            expected: Duration::from_millis(10),
            is_breaker_open: false,
        }
    }

    #[test]
    fn the_first_reason_that_applies_is_the_answer() {
        let last = Question { is_breaker_open: true, ..fine() };
        let sixth = Question { remaining: Some(Duration::from_millis(60)), ..last };
        let fourth = Question { attempt: 3, ..sixth };
        let third = Question { layer: "client", ..fourth };
        let second = Question { is_repeatable: false, ..third };
        let first = Question { failure: Some(Failure::of(FailureKind::Rejected)), ..second };
        let with =
            |question: &Question<'_>, root_left| judge(question, root_left, &rules(), u64::MAX);
        let of = |question: &Question<'_>| with(question, 0);
        assert_eq!(of(&first), Err(RetryVerdict::NotRetryable));
        assert_eq!(of(&second), Err(RetryVerdict::Unsafe));
        assert_eq!(of(&third), Err(RetryVerdict::NotThisLayer));
        assert_eq!(of(&fourth), Err(RetryVerdict::AttemptsExhausted));
        assert_eq!(of(&sixth), Err(RetryVerdict::RootExhausted));
        let of = |question: &Question<'_>| with(question, 4);
        assert_eq!(of(&sixth), Err(RetryVerdict::Deadline));
        assert_eq!(of(&last), Err(RetryVerdict::BreakerOpen));
        assert_eq!(of(&fine()), Ok(Duration::from_millis(50)));
    }

    #[test]
    fn without_a_deadline_no_dependency_holds_a_call_up_for_longer_than_backoffs_may() {
        let asked = |secs| {
            let failure = Failure::of(FailureKind::Throttled);
            let failure = Some(failure.with_delay(Some(Duration::from_secs(secs))));
            judge(&Question { failure, remaining: None, ..fine() }, 4, &rules(), 0)
        };
        assert_eq!(asked(40), Ok(Duration::from_secs(40)), "twice the longest backoff");
        assert_eq!(asked(41), Err(RetryVerdict::Deadline));
        assert_eq!(asked(u64::MAX), Err(RetryVerdict::Deadline));
    }

    #[test]
    fn a_dependency_that_asks_for_no_retry_gets_none_whatever_failed() {
        for kind in FailureKind::ALL {
            let failure = Some(Failure::of(*kind).forbidding_retries());
            let verdict = judge(&Question { failure, ..fine() }, 4, &rules(), 0);
            assert_eq!(verdict, Err(RetryVerdict::NotRetryable), "{kind:?}");
        }
    }

    #[test]
    fn what_never_left_may_be_sent_whatever_it_is_and_a_hedge_only_what_may_be_repeated() {
        let unsafe_one = Question { is_repeatable: false, ..fine() };
        for kind in [FailureKind::NotSent, FailureKind::InProgress] {
            let question = Question { failure: Some(Failure::of(kind)), ..unsafe_one };
            assert!(judge(&question, 4, &rules(), 0).is_ok(), "{kind:?}");
        }
        let hedge = Question { failure: None, ..fine() };
        assert_eq!(judge(&hedge, 4, &rules(), u64::MAX), Ok(Duration::ZERO));
        let hedge = Question { failure: None, ..unsafe_one };
        assert_eq!(judge(&hedge, 4, &rules(), 0), Err(RetryVerdict::Unsafe));
    }
}
