//! Changes that come of themselves.

use std::time::Duration;

use semel_domain::breaker::{
    AdvanceOutcome, Counts, ForceKind, Outcome, Policy, Record, ReporterId, State, Window,
};
use semel_domain::time::Timestamp;

use crate::support::*;
use crate::{Expected, check, keep, put, row};

fn nothing() -> Expected {
    keep(Outcome::Advance(AdvanceOutcome::NothingDue))
}

fn opens(now: Timestamp, level: u32, until: Timestamp) -> Expected {
    put(Outcome::Advance(AdvanceOutcome::Opened), move |old| Record {
        state: State::Open { since: now, until, level },
        generation: GENERATION + 1,
        touched_at: now,
        ..old
    })
}

fn isolates(reporter: ReporterId) -> Expected {
    put(Outcome::Advance(AdvanceOutcome::Isolated(reporter)), move |mut old| {
        for tracked in &mut old.window.reporters {
            if tracked.reporter == reporter {
                tracked.isolated_until = Some(NOW.after(POLICY.cool_down));
            }
        }
        old
    })
}

fn ends(at: Timestamp, recovered: Option<u32>) -> Expected {
    put(Outcome::Advance(AdvanceOutcome::OverrideEnded), move |old| Record {
        state: State::Closed { since: at, recovered },
        generation: GENERATION + 1,
        window: Window::default(),
        force: None,
        touched_at: NOW,
        ..old
    })
}

fn isolated(reporter: ReporterId, mut record: Record) -> Record {
    for tracked in &mut record.window.reporters {
        if tracked.reporter == reporter {
            tracked.isolated_until = Some(NOW.after(MICROSECOND));
        }
    }
    record
}

const SLOW_RULE: Policy = Policy { slow_call: Some(Duration::from_millis(1)), ..POLICY };

fn slow(succeeded: u64, slow: u64) -> Counts {
    Counts { succeeded, slow, ..Counts::default() }
}

#[rustfmt::skip]
#[test]
fn changes_are_made_in_order_of_precedence() {
    let bad = || reported(&[(A, counts(0, 20))], closed());
    let bad_and = |record| reported(&[(A, counts(0, 20))], record);
    let cool = |seconds| NOW.after(seconds * SECOND);
    let slow_rule = |all: &[(ReporterId, Counts)]| with_policy(SLOW_RULE, reported(all, closed()));
    let late = cool(15);
    check(vec![
        row("no record",                     None, advance(), NOW, nothing()),
        row("forced open, for a while yet",  forced(ForceKind::Open, Some(cool(1))), advance(), NOW, nothing()),
        row("forced, for ever",              bad_and(forced(ForceKind::Closed, None)), advance(), NOW, nothing()),
        row("metrics only",                  bad_and(forced(ForceKind::MetricsOnly, None)), advance(), NOW, nothing()),
        row("forced open, until now",        forced(ForceKind::Open, Some(NOW)), advance(), NOW, ends(NOW, Some(0))),
        row("forced open, until before",     forced(ForceKind::Open, Some(BEGAN)), advance(), NOW, ends(BEGAN, Some(0))),
        row("its end outranks failures",     bad_and(forced(ForceKind::MetricsOnly, Some(BEGAN))), advance(), NOW, ends(BEGAN, None)),
        row("forced closed, until now",      forced(ForceKind::Closed, Some(NOW)), advance(), NOW, ends(NOW, None)),
        row("open",                          bad_and(open_until(BEGAN, 0)), advance(), NOW, nothing()),
        row("half-open",                     bad_and(half_open(0, vec![])), advance(), NOW, nothing()),
        row("too few calls",                 reported(&[(A, counts(0, 19))], closed()), advance(), NOW, nothing()),
        row("too few failures",              reported(&[(A, counts(11, 10))], closed()), advance(), NOW, nothing()),
        row("out of the window",             bad(), advance(), cool(10), nothing()),
        row("one reporter, and no other",    bad(), advance(), NOW, opens(NOW, 0, cool(10))),
        row("just in the window",            bad(), advance(), cool(10).before(MICROSECOND), opens(cool(10).before(MICROSECOND), 0, cool(20).before(MICROSECOND))),
        row("just enough",                   reported(&[(A, counts(10, 10))], closed()), advance(), NOW, opens(NOW, 0, cool(10))),
        row("two of two fail",               reported(&[(A, counts(0, 15)), (B, counts(0, 5))], closed()), advance(), NOW, opens(NOW, 0, cool(10))),
        row("the other has no say: few",     reported(&[(A, counts(0, 16)), (B, counts(0, 4))], closed()), advance(), NOW, isolates(A)),
        row("the other is well",             reported(&[(A, counts(0, 30)), (B, counts(30, 0))], closed()), advance(), NOW, isolates(A)),
        row("the others are well",           reported(&[(A, counts(5, 0)), (B, counts(0, 90)), (C, counts(5, 0))], closed()), advance(), NOW, isolates(B)),
        row("it holds back already",         isolated(A, reported(&[(A, counts(0, 30)), (B, counts(30, 0))], closed())), advance(), NOW, nothing()),
        row("two of three fail",             reported(&[(A, counts(0, 30)), (B, counts(0, 30)), (C, counts(20, 0))], closed()), advance(), NOW, opens(NOW, 0, cool(10))),
        row("nobody alone is to blame",      reported(&[(A, counts(5, 5)), (B, counts(5, 5))], closed()), advance(), NOW, opens(NOW, 0, cool(10))),
        row("slow, but that rule is off",    reported(&[(A, slow(20, 20))], closed()), advance(), NOW, nothing()),
        row("too few are slow",              slow_rule(&[(A, slow(20, 9))]), advance(), NOW, nothing()),
        row("slow",                          slow_rule(&[(A, slow(20, 10))]), advance(), NOW, opens(NOW, 0, cool(10))),
        row("one is slow",                   slow_rule(&[(A, slow(20, 20)), (B, slow(9, 0))]), advance(), NOW, isolates(A)),
        row("again, in the ramp",            bad_and(recovered(0)), advance(), NOW, opens(NOW, 1, cool(20))),
        row("again and again",               bad_and(recovered(1)), advance(), NOW, opens(NOW, 2, cool(40))),
        row("no longer than the longest",    bad_and(recovered(90)), advance(), NOW, opens(NOW, 91, cool(60))),
        row("just on trial",                 reported_at(late.before(MICROSECOND), &[(A, counts(0, 20))], recovered(1)), advance(), late.before(MICROSECOND), opens(late.before(MICROSECOND), 2, late.before(MICROSECOND).after(40 * SECOND))),
        row("after its trial",               reported_at(late, &[(A, counts(0, 20))], recovered(1)), advance(), late, opens(late, 0, late.after(10 * SECOND))),
        row("the clock went back",           bad(), advance(), BEGAN, opens(NOW, 0, cool(10))),
    ], &["NothingDue", "OverrideEnded", "Opened", "Isolated"]);
}

#[test]
fn cool_downs_differ_by_a_fifth_and_never_pass_the_longest() {
    let cool_down = |level, random| POLICY.cool_down_after(level, random).as_millis();
    assert_eq!((cool_down(0, 0), cool_down(0, 400), cool_down(0, 401)), (8_000, 12_000, 8_000));
    assert_eq!((cool_down(1, 0), cool_down(2, 0), cool_down(3, 0)), (16_000, 32_000, 48_000));
    assert_eq!((cool_down(3, 400), cool_down(u32::MAX, 400)), (60_000, 60_000));
}
