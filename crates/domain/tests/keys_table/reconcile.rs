//! ReconcileKey.

use bytes::Bytes;
use semel_domain::keys::ReconcileOutcome::{
    self, ClaimLive, Conflict, Expired, Fenced, Settled, Unknown,
};
use semel_domain::keys::Resolution::{self, NotDone};
use semel_domain::keys::{
    AttemptEnd, Audit, AuditAction, Command, Conclusion, Outcome, Reconcile, Record, Stage, State,
};
use semel_domain::response::Content;

use crate::complete::answers;
use crate::support::{
    A, BEGAN, FENCE, GONE, HOUR, MICROSECOND, NOW, RETENTION, SECOND, SKEW, act, answered_by,
    blocking, claimed_by, completed_by, every_state, failed_by, forgotten, given_back_by,
    indeterminate_by, lapsed_by, leased_until, released_by, response, stored_as, taking_over,
    touched,
};
use crate::{Expected, Row, becomes, check, ended, keep, put, row, since};

type Rows = Vec<Row<Reconcile, ReconcileOutcome>>;

#[test]
fn reconciliations_are_decided_in_order_of_precedence() {
    let tables = [unsettled(), settled_before(), settled_now()];
    let rows = tables.into_iter().flatten().collect();
    check("Reconcile", rows, Command::Reconcile, Outcome::Reconcile);
}

/// All that an operator may find.
fn findings() -> [(&'static str, Resolution); 4] {
    [
        ("done", done("paid")),
        ("failed for good", failed("no funds")),
        ("done without a response", done_without_response()),
        ("not done", NotDone),
    ]
}

#[rustfmt::skip]
fn unsettled() -> Rows {
    let mut rows = Vec::new();
    for (what, resolution) in findings() {
        let found = |fence| found(fence, resolution.clone());
        let name = |which: &str| format!("{which}: {what}");
        let last_moment = || leased_until(NOW.after(MICROSECOND), claimed_by(A));
        let live = |lease_left| keep(ClaimLive { lease_left });
        rows.extend([
            row(name("no record"),              None,            found(FENCE), NOW, keep(Unknown)),
            row(name("an outlived answer"),     completed_by(A), found(FENCE), GONE, keep(Unknown)),
            row(name("an outlived release"),    released_by(A),  found(FENCE), GONE, keep(Unknown)),
            row(name("an outlived tombstone"),  forgotten(),     found(FENCE), GONE, keep(Unknown)),
            row(name("forgotten"),              forgotten(),     found(FENCE), NOW, keep(Expired)),
            row(name("forgotten, older fence"), forgotten(),     found(FENCE - 1), NOW, keep(Expired)),
            row(name("given back"),             released_by(A),  found(FENCE), NOW, keep(Fenced { current: FENCE + 1 })),
            row(name("given back, next fence"), released_by(A),  found(FENCE + 1), NOW, keep(Fenced { current: FENCE + 1 })),
            row(name("failed by its owner"),    given_back_by(A, AttemptEnd::FailedRetryable), found(FENCE), NOW, keep(Fenced { current: FENCE + 1 })),
            row(name("taken over"),             Record { fence: FENCE + 1, ..lapsed_by(A) }, found(FENCE), NOW, keep(Fenced { current: FENCE + 1 })),
            row(name("its owner is at work"),   claimed_by(A),   found(FENCE), NOW, live(20 * SECOND)),
            row(name("its last microsecond"),   last_moment(),   found(FENCE), NOW, live(MICROSECOND)),
            row(name("live, BLOCK"),            blocking(claimed_by(A)), found(FENCE), NOW, live(20 * SECOND)),
            row(name("live, clock went back"),  touched(NOW, claimed_by(A)), found(FENCE), BEGAN, live(20 * SECOND)),
        ]);
        for (state, record) in every_state(A) {
            let current = record.fence;
            if record.stage(NOW) == Stage::Forgotten {
                continue;
            }
            let name = |which: &str| format!("{which}: {state}, {what}");
            rows.push(row(name("an older fence"), record.clone(), found(FENCE - 1), NOW, keep(Fenced { current })));
            rows.push(row(name("a guessed fence"), record, found(FENCE + 2), NOW, keep(Fenced { current })));
        }
    }
    rows
}

#[rustfmt::skip]
fn settled_before() -> Rows {
    let settled = || given_back_by(A, AttemptEnd::Reconciled);
    let bare = || answered_by(A, Conclusion::Succeeded, None);
    let kept_as = |content| answered_by(A, Conclusion::Succeeded, Some(stored_as(content, response("paid"))));
    let frame = Content::Zstd(Bytes::from_static(b"(zstd)"));
    let before = |stage| keep(Settled { already: true, stage });
    let moved_on = || keep(Fenced { current: FENCE + 1 });
    vec![
        row("not done before, now done",      settled(),       found(FENCE, done("paid")), NOW, moved_on()),
        row("not done before, now failed",    settled(),       found(FENCE, failed("no funds")), NOW, moved_on()),
        row("done, now another body",         completed_by(A), found(FENCE, done("paid!")), NOW, keep(Conflict)),
        row("done, now failed",               completed_by(A), found(FENCE, failed("paid")), NOW, keep(Conflict)),
        row("done, now without a response",   completed_by(A), found(FENCE, done_without_response()), NOW, keep(Conflict)),
        row("done without, now with one",     bare(),          found(FENCE, done("paid")), NOW, keep(Conflict)),
        row("done, now not done",             completed_by(A), found(FENCE, NotDone), NOW, keep(Conflict)),
        row("failed, now not done",           failed_by(A),    found(FENCE, NotDone), NOW, keep(Conflict)),
        row("failed, now done",               failed_by(A),    found(FENCE, done("no funds")), NOW, keep(Conflict)),
        row("done again",                     completed_by(A), found(FENCE, done("paid")), NOW, before(Stage::Succeeded)),
        row("done again, without a response", bare(),          found(FENCE, done_without_response()), NOW, before(Stage::Succeeded)),
        row("done again, kept compressed",    kept_as(frame),  found(FENCE, done("paid")), NOW, before(Stage::Succeeded)),
        row("done again, clock went back",    completed_by(A), found(FENCE, done("paid")), BEGAN, before(Stage::Succeeded)),
        row("failed again",                   failed_by(A),    found(FENCE, failed("no funds")), NOW, before(Stage::FailedFinal)),
        row("not done again",                 settled(),       found(FENCE, NotDone), NOW, before(Stage::Released)),
        row("not done again, claimed since",  since(settled()), found(FENCE, NotDone), NOW, before(Stage::Claimed)),
        row("not done again, to the end",     settled(),       found(FENCE, NotDone), GONE.before(MICROSECOND), before(Stage::Released)),
    ]
}

fn settled_now() -> Rows {
    let often = |record: Record| Record {
        audit: (0..8).map(|_| act(BEGAN, AuditAction::Reconcile)).collect(),
        ..record
    };
    let mut rows = Vec::new();
    for (state, record) in [
        ("lapsed", lapsed_by(A)),
        ("lapsed, BLOCK", blocking(lapsed_by(A))),
        ("lapsed, TAKE_OVER", taking_over(lapsed_by(A))),
        ("lapsed by its own time", touched(NOW, lapsed_by(A))),
        ("indeterminate", indeterminate_by(A)),
        ("indeterminate, BLOCK", blocking(indeterminate_by(A))),
        ("settled eight times before", often(lapsed_by(A))),
    ] {
        let now = if state.ends_with("time") { BEGAN.before(HOUR) } else { NOW };
        for (what, resolution) in findings() {
            let name = format!("{state}: {what}");
            let command = found(FENCE, resolution.clone());
            rows.push(row(name, record.clone(), command, now, left(resolution)));
        }
    }
    rows
}

/// What an operator's finding on A's key leaves.
fn left(resolution: Resolution) -> Expected<ReconcileOutcome> {
    let expires_at = NOW.after(RETENTION).after(2 * SKEW);
    let settled = |stage| Settled { already: false, stage };
    match resolution {
        Resolution::Concluded { conclusion, response } => {
            let stage = match conclusion {
                Conclusion::Succeeded => Stage::Succeeded,
                Conclusion::FailedFinal => Stage::FailedFinal,
            };
            put(settled(stage), move |old| {
                audited(answers(A, conclusion, response, expires_at, old))
            })
        }
        NotDone => put(settled(Stage::Released), move |old| {
            let end = AttemptEnd::Reconciled;
            let state = State::Released { by: A, fence: FENCE, end, expires_at };
            audited(Record { fence: FENCE + 1, ..becomes(state, ended(end, old)) })
        }),
    }
}

/// The record with the act noted, and the last 8 notes kept.
fn audited(mut record: Record) -> Record {
    record.audit.push(Audit { at: NOW, ..act(NOW, AuditAction::Reconcile) });
    if record.audit.len() > 8 {
        record.audit.remove(0);
    }
    record
}

fn found(fence: u64, resolution: Resolution) -> Reconcile {
    let Audit { actor, reason, .. } = act(NOW, AuditAction::Reconcile);
    Reconcile { fence, resolution, actor, reason }
}

fn done(body: &'static str) -> Resolution {
    let response = Some(response(body));
    Resolution::Concluded { conclusion: Conclusion::Succeeded, response }
}

fn done_without_response() -> Resolution {
    Resolution::Concluded { conclusion: Conclusion::Succeeded, response: None }
}

fn failed(body: &'static str) -> Resolution {
    let response = Some(response(body));
    Resolution::Concluded { conclusion: Conclusion::FailedFinal, response }
}
