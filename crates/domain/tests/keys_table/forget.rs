//! ForgetKey.

use std::collections::BTreeMap;

use semel_domain::keys::ForgetOutcome::{self, Forgotten, NotCompleted, Unknown};
use semel_domain::keys::{
    Attempt, AttemptEnd, Audit, AuditAction, Command, Conclusion, Forget, Outcome, Record, Stage,
    State,
};

use crate::support::{
    A, B, BEGAN, ENDED, GONE, MICROSECOND, NOW, act, answered_by, blocking, claimed_by,
    completed_by, failed_by, forgotten, given_back_by, indeterminate_by, lapsed_by, released_by,
    touched,
};
use crate::{Expected, becomes, check, keep, put, row};

#[rustfmt::skip]
#[test]
fn erasures_are_decided_in_order_of_precedence() {
    let refused = |stage| keep(NotCompleted(stage));
    let before = || keep(Forgotten { already: true, expires_at: GONE });
    let bare = || answered_by(A, Conclusion::Succeeded, None);
    let failed = || given_back_by(A, AttemptEnd::FailedRetryable);
    let settled = || given_back_by(A, AttemptEnd::Reconciled);
    let rows = vec![
        row("no record",                   None,                 forget(), NOW, keep(Unknown)),
        row("an outlived answer",          completed_by(A),      forget(), GONE, keep(Unknown)),
        row("an outlived release",         released_by(A),       forget(), GONE, keep(Unknown)),
        row("an outlived tombstone",       forgotten(),          forget(), GONE, keep(Unknown)),
        row("claimed",                     claimed_by(A),        forget(), NOW, refused(Stage::Claimed)),
        row("claimed, clock went back",    touched(NOW, claimed_by(A)), forget(), BEGAN, refused(Stage::Claimed)),
        row("lapsed",                      lapsed_by(A),         forget(), NOW, refused(Stage::Lapsed)),
        row("lapsed, BLOCK",               blocking(lapsed_by(A)), forget(), NOW, refused(Stage::Lapsed)),
        row("indeterminate",               indeterminate_by(A),  forget(), NOW, refused(Stage::Indeterminate)),
        row("released",                    released_by(A),       forget(), NOW, refused(Stage::Released)),
        row("failed, may be tried again",  failed(),             forget(), NOW, refused(Stage::Released)),
        row("settled as not done",         settled(),            forget(), NOW, refused(Stage::Released)),
        row("forgotten before",            forgotten(),          forget(), NOW, before()),
        row("forgotten, to the very end",  forgotten(),          forget(), GONE.before(MICROSECOND), before()),
        row("succeeded",                   completed_by(A),      forget(), NOW, erases()),
        row("succeeded, no response",      bare(),               forget(), NOW, erases()),
        row("succeeded after attempts",    tried_before(completed_by(A)), forget(), NOW, erases()),
        row("failed for good",             failed_by(A),         forget(), NOW, erases()),
        row("succeeded, clock went back",  touched(NOW, completed_by(A)), forget(), BEGAN, erases()),
    ];
    check("Forget", rows, Command::Forget, Outcome::Forget);
}

/// The tombstone stays as long as the answer would have, and says who stands for it.
fn erases() -> Expected<ForgetOutcome> {
    put(Forgotten { already: false, expires_at: GONE }, |old| {
        let mut record = becomes(State::Forgotten { expires_at: GONE }, old);
        record.labels = BTreeMap::new();
        record.audit.push(act(NOW, AuditAction::Forget));
        record
    })
}

fn tried_before(record: Record) -> Record {
    let end = AttemptEnd::Lapsed;
    let earlier = Attempt { fence: 3, owner: B, claimed_at: BEGAN, ended_at: ENDED, end };
    let settled = act(ENDED, AuditAction::Reconcile);
    Record { attempts: 2, history: vec![earlier], audit: vec![settled], ..record }
}

fn forget() -> Forget {
    let Audit { actor, reason, .. } = act(NOW, AuditAction::Forget);
    Forget { actor, reason }
}
