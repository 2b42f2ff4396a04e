//! The rule of a retry: one wide table of every verdict, in order of precedence.
//!
//! Each row of the first part breaks its own condition and all later ones, so that the earlier is seen to
//! win. What is asked of the budget is part of every row: nothing, but where the budget decides.

use std::time::Duration;

use semel_domain::budget::{Backoff, Costs, Policy};
use semel_domain::retry::{
    AttemptKind, BackoffStrategy, Breaker, Denial, Failure, FailureKind, Plan, Question, Root,
    Verdict, WorkDone, decide, judge, plan,
};

use Denial::*;
use FailureKind::*;

const MS: Duration = Duration::from_millis(1);
const US: Duration = Duration::from_micros(1);
/// The jitter at its most: the delay is the whole step.
const ROLL: u64 = u64::MAX;

/// Each cost is another one, so that a wrong one shows.
fn policy() -> Policy {
    Policy {
        attempts_max: 3,
        retries_per_root: 4,
        retry_layer: Some("gateway".into()),
        costs: Costs {
            not_sent: 100,
            throttled: 2_000,
            unknown_outcome: 3_000,
            server_error: 4_000,
            in_progress: 500,
        },
        backoff: Backoff {
            strategy: BackoffStrategy::FullJitter,
            base: 50 * MS,
            base_throttled: 1_000 * MS,
            cap: 20_000 * MS,
        },
        ..Policy::default()
    }
}

fn failed(kind: FailureKind) -> AttemptKind {
    AttemptKind::Retry(Failure { kind, server_delay: None })
}

fn told_to_wait(kind: FailureKind, server_delay: Duration) -> AttemptKind {
    AttemptKind::Retry(Failure { kind, server_delay: Some(server_delay) })
}

const fn root(carried: Option<u32>, granted: u32) -> Option<Root> {
    Some(Root { carried, granted })
}

const fn granted(delay: Duration, cost_milli: u64) -> Verdict<()> {
    Verdict::Granted(Plan { delay, cost_milli }, ())
}

struct Row {
    name: &'static str,
    kind: AttemptKind,
    repeatable: bool,
    layer: &'static str,
    attempt: u32,
    root: Option<Root>,
    remaining: Option<Duration>,
    open: bool,
    paid: bool,
    expected: Verdict<()>,
}

type Parts = (
    &'static str,
    AttemptKind,
    bool,
    &'static str,
    u32,
    Option<Root>,
    Option<Duration>,
    bool,
    bool,
    Verdict<()>,
);

fn row(parts: Parts) -> Row {
    let (name, kind, repeatable, layer, attempt, root, remaining, open, paid, expected) = parts;
    Row { name, kind, repeatable, layer, attempt, root, remaining, open, paid, expected }
}

/// Decides every row, and says all that is wrong at once.
fn check(policy: &Policy, expected_attempt_time: Duration, rows: impl IntoIterator<Item = Parts>) {
    let mut wrong = String::new();
    for row in rows.into_iter().map(row) {
        let question = Question {
            kind: row.kind,
            repeatable: row.repeatable,
            attempt: row.attempt,
            root: row.root,
            layer: row.layer,
            remaining: row.remaining,
            expected_attempt_time,
        };
        let breaker = Breaker { open: row.open, look_again: None };
        let mut asked = Vec::new();
        let actual = decide(&question, policy, breaker, ROLL, |plan| {
            asked.push(plan);
            row.paid.then_some(())
        });
        let may_ask = match &row.expected {
            Verdict::Granted(plan, ()) => vec![*plan],
            Verdict::Denied(BudgetExhausted) => vec![plan(&question, policy, ROLL)],
            Verdict::Denied(_) => vec![],
        };
        if actual != row.expected || asked != may_ask {
            let (name, expected) = (row.name, row.expected);
            wrong +=
                &format!("\n{name}\n  expected {expected:?}\n  got {actual:?}, paid {asked:?}");
        }
    }
    assert!(wrong.is_empty(), "these are wrong:\n{wrong}");
}

#[rustfmt::skip]
#[test]
fn the_first_reason_that_applies_is_the_answer() {
    let denied = |denial| Verdict::Denied(denial);
    let none = Some(Duration::ZERO);
    let spent = root(Some(0), 4);
    check(&policy(), Duration::ZERO, [
        // What it says              what failed              twice   layer      nth spent  left   open  paid
        ("all is wrong: rejected",   failed(Rejected),        false, "client",  3, spent, none,  true,  false, denied(NotRetryable)),
        ("all is wrong: cancelled",  failed(Cancelled),       false, "client",  3, spent, none,  true,  false, denied(NotRetryable)),
        ("from unsafe on",           failed(UnknownOutcome),  false, "client",  3, spent, none,  true,  false, denied(Unsafe)),
        ("from unsafe on: an error", failed(ServerError),     false, "client",  3, spent, none,  true,  false, denied(Unsafe)),
        ("from unsafe on: a hedge",  AttemptKind::Hedge,      false, "client",  3, spent, none,  true,  false, denied(Unsafe)),
        ("from the layer on",        failed(UnknownOutcome),  true,  "client",  3, spent, none,  true,  false, denied(NotThisLayer)),
        ("from the layer on: none",  failed(NotSent),         false, "",        3, spent, none,  true,  false, denied(NotThisLayer)),
        ("from attempts on",         failed(UnknownOutcome),  true,  "gateway", 3, spent, none,  true,  false, denied(AttemptsExhausted)),
        ("from attempts on: beyond", failed(UnknownOutcome),  true,  "gateway", u32::MAX, spent, none, true, false, denied(AttemptsExhausted)),
        ("from the root on",         failed(UnknownOutcome),  true,  "gateway", 2, spent, none,  true,  false, denied(RootExhausted)),
        ("from the deadline on",     failed(UnknownOutcome),  true,  "gateway", 2, None,  none,  true,  false, denied(Deadline)),
        ("from the breaker on",      failed(UnknownOutcome),  true,  "gateway", 2, None,  None,  true,  false, denied(BreakerOpen)),
        ("the budget alone",         failed(UnknownOutcome),  true,  "gateway", 2, None,  None,  false, false, denied(BudgetExhausted)),
        ("the budget alone: a hedge", AttemptKind::Hedge,     true,  "gateway", 2, None,  None,  false, false, denied(BudgetExhausted)),
        // One thing alone is wrong, and the budget would pay.
        ("rejected",                 failed(Rejected),        true,  "gateway", 1, None,  None,  false, true,  denied(NotRetryable)),
        ("unsafe",                   failed(UnknownOutcome),  false, "gateway", 1, None,  None,  false, true,  denied(Unsafe)),
        ("the layer",                failed(NotSent),         true,  "gatewa",  1, None,  None,  false, true,  denied(NotThisLayer)),
        ("attempts",                 failed(NotSent),         true,  "gateway", 3, None,  None,  false, true,  denied(AttemptsExhausted)),
        ("the root",                 failed(NotSent),         true,  "gateway", 1, spent, None,  false, true,  denied(RootExhausted)),
        ("the deadline",             failed(NotSent),         true,  "gateway", 1, None,  none,  false, true,  denied(Deadline)),
        ("the breaker",              failed(NotSent),         true,  "gateway", 1, None,  None,  true,  true,  denied(BreakerOpen)),
        // Nothing is wrong. What may be repeated, what it costs, and how long to wait.
        ("never left",               failed(NotSent),         false, "gateway", 1, None,  None,  false, true,  granted(50 * MS, 100)),
        ("turned away",              failed(Throttled),       false, "gateway", 1, None,  None,  false, true,  granted(1_000 * MS, 2_000)),
        ("in progress",              failed(InProgress),      false, "gateway", 1, None,  None,  false, true,  granted(50 * MS, 500)),
        ("no answer",                failed(UnknownOutcome),  true,  "gateway", 1, None,  None,  false, true,  granted(50 * MS, 3_000)),
        ("an error",                 failed(ServerError),     true,  "gateway", 1, None,  None,  false, true,  granted(50 * MS, 4_000)),
        ("the last attempt",         failed(NotSent),         true,  "gateway", 2, None,  None,  false, true,  granted(100 * MS, 100)),
        ("a hedge waits for nothing", AttemptKind::Hedge,     true,  "gateway", 2, None,  None,  false, true,  granted(Duration::ZERO, 3_000)),
    ]);
}

#[rustfmt::skip]
#[test]
fn roots_are_capped_by_what_they_carry_and_by_what_is_remembered() {
    let full = || granted(50 * MS, 100);
    let spent = || Verdict::Denied(RootExhausted);
    let rows = [
        ("the root itself",          None,            full()),
        ("carries none, granted none", root(None, 0), full()),
        ("carries none, one left",   root(None, 3),   full()),
        ("carries none, none left",  root(None, 4),   spent()),
        ("carries none, more than all", root(None, u32::MAX), spent()),
        ("carries one",              root(Some(1), 0), full()),
        ("carries one, one left",    root(Some(1), 3), full()),
        ("carries nothing",          root(Some(0), 0), spent()),
        ("carries more than the policy allows", root(Some(u32::MAX), 3), full()),
        ("carries more, but none left", root(Some(u32::MAX), 4), spent()),
    ];
    check(&policy(), Duration::ZERO, rows.map(|(name, root, expected)| {
        (name, failed(NotSent), true, "gateway", 1, root, None, false, true, expected)
    }));
}

#[test]
fn what_is_left_of_a_root_is_the_least_of_both_counts() {
    let policy = policy();
    for (carried, granted, left) in
        [(None, 0, 4), (None, 3, 1), (Some(2), 0, 2), (Some(3), 2, 2), (Some(9), 0, 4)]
    {
        assert_eq!(Root { carried, granted }.left(&policy), left, "{carried:?}, {granted}");
    }
    let none = Policy { retries_per_root: 0, ..policy };
    assert_eq!(Root { carried: Some(9), granted: 0 }.left(&none), 0);
}

/// The delay, the expected time, and nothing to spare: what fits exactly comes too late.
#[rustfmt::skip]
#[test]
fn a_retry_needs_its_delay_and_an_attempts_time_before_the_deadline() {
    let late = || Verdict::Denied(Deadline);
    let on_time = || granted(50 * MS, 100);
    let wait = told_to_wait(NotSent, 200 * MS);
    let longest = told_to_wait(NotSent, Duration::MAX);
    let hedge = AttemptKind::Hedge;
    let rows = [
        ("nothing left",             failed(NotSent), Some(Duration::ZERO),  late()),
        ("the delay alone",          failed(NotSent), Some(50 * MS),         late()),
        ("exactly both",             failed(NotSent), Some(80 * MS),         late()),
        ("both, and a moment",       failed(NotSent), Some(80 * MS + US),    on_time()),
        ("no deadline",              failed(NotSent), None,                  on_time()),
        ("told to wait, too long",   wait,            Some(280 * MS),        late()),
        ("told to wait, on time",    wait,            Some(280 * MS + US),   granted(250 * MS, 100)),
        ("told to wait for ever",    longest,         Some(Duration::MAX),   late()),
        ("a hedge has no delay",     hedge,           Some(30 * MS),         late()),
        ("a hedge in time",          hedge,           Some(30 * MS + US),    granted(Duration::ZERO, 3_000)),
    ];
    check(&policy(), 30 * MS, rows.map(|(name, kind, remaining, expected)| {
        (name, kind, true, "gateway", 1, None, remaining, false, true, expected)
    }));
}

#[rustfmt::skip]
#[test]
fn a_policy_that_names_no_layer_lets_any_retry() {
    let policy = Policy { retry_layer: None, ..policy() };
    check(&policy, Duration::ZERO, ["", "gateway", "client"].map(|layer| {
        ("any layer", failed(NotSent), true, layer, 1, None, None, false, true, granted(50 * MS, 100))
    }));
}

/// Every kind of failure, of a request that may and that may not be repeated.
#[test]
fn only_work_that_was_surely_not_done_is_repeated_without_care() {
    let policy = Policy { retry_layer: None, ..policy() };
    let shut = Breaker { open: false, look_again: None };
    for kind in FailureKind::ALL {
        for repeatable in [false, true] {
            let question = Question {
                kind: failed(kind),
                repeatable,
                attempt: 1,
                root: None,
                layer: "",
                remaining: None,
                expected_attempt_time: Duration::ZERO,
            };
            let expected = match (kind, repeatable) {
                (Rejected | Cancelled, _) => Err(NotRetryable),
                (UnknownOutcome | ServerError, false) => Err(Unsafe),
                (NotSent | Throttled | InProgress, _) | (UnknownOutcome | ServerError, true) => {
                    Ok(plan(&question, &policy, ROLL))
                }
            };
            assert_eq!(judge(&question, &policy, shut, ROLL), expected, "{kind:?}, {repeatable}");
        }
    }
    let done = FailureKind::ALL.map(FailureKind::work_done);
    let count = |which| done.iter().filter(|done| **done == which).count();
    assert_eq!((count(WorkDone::No), count(WorkDone::Perhaps)), (3, 2));
}

#[test]
fn the_list_of_denials_is_in_order_of_precedence() {
    assert!(Denial::ALL.is_sorted() && Denial::ALL.len() == 8);
    assert_eq!(
        Denial::ALL.first().zip(Denial::ALL.last()),
        Some((&NotRetryable, &BudgetExhausted))
    );
}
