//! ReleaseKey.

use semel_domain::keys::ReleaseOutcome::{self, Fenced, Released, Unknown};
use semel_domain::keys::{AttemptEnd, Command, Outcome, Record, State};

use crate::support::{
    A, B, BEGAN, FENCE, GONE, MICROSECOND, NOW, RETENTION, SKEW, blocking, claimed_by,
    completed_by, every_state, failed_by, forgotten, given_back_by, indeterminate_by, lapsed_by,
    release, released_by, touched,
};
use crate::{Expected, becomes, check, ended, keep, put, row, since};

#[rustfmt::skip]
#[test]
fn releases_are_decided_in_order_of_precedence() {
    let fenced = |current| keep(Fenced { current });
    let before = || keep(Released { already: true });
    let failed = || given_back_by(A, AttemptEnd::FailedRetryable);
    let settled = || given_back_by(A, AttemptEnd::Reconciled);
    let mut rows = vec![
        row("no record",                     None,                release(A, FENCE), NOW, keep(Unknown)),
        row("an outlived answer",            completed_by(A),     release(A, FENCE), GONE, keep(Unknown)),
        row("an outlived release",           released_by(A),      release(A, FENCE), GONE, keep(Unknown)),
        row("an outlived tombstone",         forgotten(),         release(A, FENCE), GONE, keep(Unknown)),
        row("completed: its own owner",      completed_by(A),     release(A, FENCE), NOW, fenced(FENCE)),
        row("failed for good: its own owner", failed_by(A),       release(A, FENCE), NOW, fenced(FENCE)),
        row("indeterminate: its own owner",  indeterminate_by(A), release(A, FENCE), NOW, fenced(FENCE)),
        row("forgotten: its last owner",     forgotten(),         release(A, FENCE), NOW, fenced(FENCE)),
        row("failed, may be tried again",    failed(),            release(A, FENCE), NOW, fenced(FENCE + 1)),
        row("settled as not done",           settled(),           release(A, FENCE), NOW, fenced(FENCE + 1)),
        row("given back, with the next fence", released_by(A),    release(A, FENCE + 1), NOW, fenced(FENCE + 1)),
        row("taken over",                    Record { fence: FENCE + 1, ..claimed_by(B) }, release(A, FENCE), NOW, fenced(FENCE + 1)),
        row("given back before",             released_by(A),      release(A, FENCE), NOW, before()),
        row("given back before, to the end", released_by(A),      release(A, FENCE), GONE.before(MICROSECOND), before()),
        row("given back, clock went back",   released_by(A),      release(A, FENCE), BEGAN, before()),
        row("given back before, claimed since", since(released_by(A)), release(A, FENCE), NOW, before()),
        row("claimed",                       claimed_by(A),       release(A, FENCE), NOW, gives_back()),
        row("lapsed, but not taken",         lapsed_by(A),        release(A, FENCE), NOW, gives_back()),
        row("lapsed, but not taken, BLOCK",  blocking(lapsed_by(A)), release(A, FENCE), NOW, gives_back()),
        row("claimed, clock went back",      touched(NOW, claimed_by(A)), release(A, FENCE), BEGAN, gives_back()),
    ];
    for (state, record) in every_state(A) {
        let current = record.fence;
        let name = |who: &str| format!("{who}: {state}");
        rows.extend([
            row(name("another owner"),   record.clone(), release(B, FENCE), NOW, fenced(current)),
            row(name("newest fence, another owner"), record.clone(), release(B, current), NOW, fenced(current)),
            row(name("an older fence"),  record.clone(), release(A, FENCE - 1), NOW, fenced(current)),
            row(name("a guessed fence"), record,         release(A, FENCE + 2), NOW, fenced(current)),
        ]);
    }
    check("Release", rows, Command::Release, Outcome::Release);
}

fn gives_back() -> Expected<ReleaseOutcome> {
    put(Released { already: false }, |old| {
        let end = AttemptEnd::Released;
        let expires_at = NOW.after(RETENTION).after(2 * SKEW);
        let state = State::Released { by: A, fence: FENCE, end, expires_at };
        Record { fence: FENCE + 1, ..becomes(state, ended(end, old)) }
    })
}
