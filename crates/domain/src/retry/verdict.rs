//! The rule of a retry: may it be sent, and when. The first reason that applies is the answer.

use std::time::Duration;

use super::backoff::delay;
use super::failure::{FailureKind, WorkDone};
use crate::budget::Policy;

/// Why another attempt is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptKind {
    /// The attempt before failed.
    Retry(Failure),
    /// The attempt before is slow, and a second one races it.
    Hedge,
}

/// How an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What it looked like.
    pub kind: FailureKind,
    /// The delay that the dependency asked for.
    pub server_delay: Option<Duration>,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question<'a> {
    /// Retry or hedge.
    pub kind: AttemptKind,
    /// Doing it twice does no harm.
    pub repeatable: bool,
    /// Attempts that the call has had, from 1.
    pub attempt: u32,
    /// What the call tree has left.
    pub root: Option<Root>,
    /// The layer that asks.
    pub layer: &'a str,
    /// What remains of the operation's deadline; `None`: it has none.
    pub remaining: Option<Duration>,
    /// How long an attempt is expected to take.
    pub expected_attempt_time: Duration,
}

/// What is known of the call tree above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// Retries that the caller's part of the tree may still make, as the root's header says; `None`: the
    /// caller is the root, and the policy says.
    pub carried: Option<u32>,
    /// Retries of this root that the node remembers to have granted.
    pub granted: u32,
}

impl Root {
    /// How many retries are left: by what was carried, and by what the node remembers.
    #[must_use]
    pub fn left(self, policy: &Policy) -> u32 {
        let most = policy.retries_per_root;
        self.carried.unwrap_or(most).min(most.saturating_sub(self.granted))
    }
}

/// What the dependency's breaker says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Breaker {
    /// It is open, or half-open: only probes go through.
    pub open: bool,
    /// When to look again.
    pub look_again: Option<Duration>,
}

/// Why not, in order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Denial {
    /// No retry mends the failure.
    NotRetryable,
    /// The work may have been done, and the request may not be repeated.
    Unsafe,
    /// The policy names another layer as the one that retries.
    NotThisLayer,
    /// The call has had all its attempts.
    AttemptsExhausted,
    /// The call tree has had all its retries.
    RootExhausted,
    /// The wait and the attempt do not fit into what remains.
    Deadline,
    /// The breaker is open.
    BreakerOpen,
    /// The budget is spent.
    BudgetExhausted,
}

impl Denial {
    /// Every reason, in order of precedence.
    pub const ALL: [Self; 8] = [
        Self::NotRetryable,
        Self::Unsafe,
        Self::NotThisLayer,
        Self::AttemptsExhausted,
        Self::RootExhausted,
        Self::Deadline,
        Self::BreakerOpen,
        Self::BudgetExhausted,
    ];
}

/// A retry that may be made if the budget pays for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How long to wait first.
    pub delay: Duration,
    /// What it costs, in milli-tokens.
    pub cost_milli: u64,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<C> {
    /// No.
    Denied(Denial),
    /// Yes, and how it was paid.
    Granted(Plan, C),
}

/// Decides a question: the reasons that need no budget, then `pay`, which is asked for nothing else.
pub fn decide<C>(
    question: &Question<'_>,
    policy: &Policy,
    breaker: Breaker,
    roll: u64,
    pay: impl FnOnce(Plan) -> Option<C>,
) -> Verdict<C> {
    match judge(question, policy, breaker, roll) {
        Err(denial) => Verdict::Denied(denial),
        Ok(plan) => pay(plan).map_or(Verdict::Denied(Denial::BudgetExhausted), |charge| {
            Verdict::Granted(plan, charge)
        }),
    }
}

/// Decides all that does not need the budget. `roll` is uniform, for the jitter.
///
/// # Errors
///
/// The first reason that applies.
pub fn judge(
    question: &Question<'_>,
    policy: &Policy,
    breaker: Breaker,
    roll: u64,
) -> Result<Plan, Denial> {
    let work_done = match question.kind {
        AttemptKind::Retry(failure) => failure.kind.work_done(),
        // The attempt before may be about to succeed.
        AttemptKind::Hedge => WorkDone::Perhaps,
    };
    if work_done == WorkDone::Irrelevant {
        return Err(Denial::NotRetryable);
    }
    if work_done == WorkDone::Perhaps && !question.repeatable {
        return Err(Denial::Unsafe);
    }
    if policy.retry_layer.as_deref().is_some_and(|layer| layer != question.layer) {
        return Err(Denial::NotThisLayer);
    }
    if question.attempt >= policy.attempts_max {
        return Err(Denial::AttemptsExhausted);
    }
    if question.root.is_some_and(|root| root.left(policy) == 0) {
        return Err(Denial::RootExhausted);
    }
    let plan = plan(question, policy, roll);
    let needed = plan.delay.saturating_add(question.expected_attempt_time);
    if question.remaining.is_some_and(|remaining| needed >= remaining) {
        return Err(Denial::Deadline);
    }
    if breaker.open {
        return Err(Denial::BreakerOpen);
    }
    Ok(plan)
}

fn plan(question: &Question<'_>, policy: &Policy, roll: u64) -> Plan {
    match question.kind {
        AttemptKind::Retry(failure) => Plan {
            delay: delay(&policy.backoff, &failure, question.attempt, roll),
            cost_milli: policy.costs.of(failure.kind),
        },
        AttemptKind::Hedge => {
            Plan { delay: Duration::ZERO, cost_milli: policy.costs.of(FailureKind::UnknownOutcome) }
        }
    }
}
