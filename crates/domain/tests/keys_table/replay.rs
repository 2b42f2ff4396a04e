//! ReplayKey: whatever it is answered, nothing is written.

use std::time::Duration;

use semel_domain::keys::ReplayOutcome::{self, Expired, Unanswered, Unknown};
use semel_domain::keys::{
    AttemptEnd, Command, Conclusion, InProgress, Outcome, Record, Replay, Stage,
};

use crate::support::{
    A, BEGAN, GONE, MICROSECOND, NOW, SECOND, answer_of, answered_by, blocking, claimed_by,
    completed_by, every_state, failed_by, fingerprints, foreign_payload, forgotten, given_back_by,
    indeterminate_by, lapsed_by, leased_until, other_payload, released_by, replay, touched,
};
use crate::{Expected, check, keep, row};

#[rustfmt::skip]
#[test]
fn replays_are_decided_in_order_of_precedence() {
    let bare = || answered_by(A, Conclusion::Succeeded, None);
    let failed = || given_back_by(A, AttemptEnd::FailedRetryable);
    let settled = || given_back_by(A, AttemptEnd::Reconciled);
    let last_moment = || leased_until(NOW.after(MICROSECOND), claimed_by(A));
    let wrong = Replay { fingerprints: other_payload() };
    let foreign = Replay { fingerprints: foreign_payload() };
    let half_wrong = Replay { fingerprints: fingerprints(&[("sha256", 1), ("blake3", 9)]) };
    let unanswered = |stage| keep(Unanswered(stage));
    let mut rows = vec![
        row("no record",                  None,                  replay(), NOW, keep(Unknown)),
        row("an outlived answer",         completed_by(A),       replay(), GONE, keep(Unknown)),
        row("an outlived release",        released_by(A),        replay(), GONE, keep(Unknown)),
        row("an outlived tombstone",      forgotten(),           replay(), GONE, keep(Unknown)),
        row("one of two digests differs", completed_by(A),       half_wrong, NOW, keep(Unknown)),
        row("forgotten",                  forgotten(),           replay(), NOW, keep(Expired)),
        row("succeeded",                  completed_by(A),       replay(), NOW, answers(&completed_by(A))),
        row("succeeded, to the very end", completed_by(A),       replay(), GONE.before(MICROSECOND), answers(&completed_by(A))),
        row("succeeded, clock went back", completed_by(A),       replay(), BEGAN, answers(&completed_by(A))),
        row("succeeded, no response",     bare(),                replay(), NOW, answers(&bare())),
        row("failed for good",            failed_by(A),          replay(), NOW, answers(&failed_by(A))),
        row("claimed",                    claimed_by(A),         replay(), NOW, in_progress(20 * SECOND, 10 * SECOND)),
        row("claimed, last microsecond",  last_moment(),         replay(), NOW, in_progress(MICROSECOND, 10 * SECOND)),
        row("claimed, clock went back",   touched(NOW, claimed_by(A)), replay(), BEGAN, in_progress(20 * SECOND, 10 * SECOND)),
        row("lapsed",                     lapsed_by(A),          replay(), NOW, unanswered(Stage::Lapsed)),
        row("lapsed, BLOCK",              blocking(lapsed_by(A)), replay(), NOW, unanswered(Stage::Lapsed)),
        row("indeterminate",              indeterminate_by(A),   replay(), NOW, unanswered(Stage::Indeterminate)),
        row("released",                   released_by(A),        replay(), NOW, unanswered(Stage::Released)),
        row("failed, may be tried again", failed(),              replay(), NOW, unanswered(Stage::Released)),
        row("settled as not done",        settled(),             replay(), NOW, unanswered(Stage::Released)),
    ];
    for (state, record) in every_state(A) {
        rows.push(row(format!("a guess learns nothing: {state}"), record.clone(), wrong.clone(), NOW, keep(Unknown)));
        rows.push(row(format!("no common algorithm: {state}"), record, foreign.clone(), NOW, keep(Unknown)));
    }
    check("Replay", rows, Command::Replay, Outcome::Replay);
}

fn answers(record: &Record) -> Expected<ReplayOutcome> {
    keep(ReplayOutcome::Replay(Box::new(answer_of(record))))
}

fn in_progress(lease_left: Duration, held_for: Duration) -> Expected<ReplayOutcome> {
    keep(ReplayOutcome::InProgress(InProgress { lease_left, held_for }))
}
