//! CompleteKey.

use bytes::Bytes;
use semel_domain::keys::CompleteOutcome::{self, Accepted, Conflict, Expired, Fenced, Unknown};
use semel_domain::keys::Completed::{self, FailedRetryable, Indeterminate};
use semel_domain::keys::{
    Answer, AttemptEnd, Command, Complete, Conclusion, Outcome, OwnerId, Record, Stage, State,
};
use semel_domain::response::{Content, Response};
use semel_domain::time::Timestamp;

use crate::support::{
    A, B, BEGAN, FENCE, GONE, HOUR, MICROSECOND, NOW, RETENTION, SKEW, answered_by, blocking,
    claimed_by, complete, completed_by, every_state, failed_by, failed_for_good, forgotten,
    given_back_by, indeterminate_by, lapsed_by, released_by, response, stored_as, succeeded,
    touched,
};
use crate::{Expected, Row, becomes, check, ended, keep, put, row, since};

type Rows = Vec<Row<Complete, CompleteOutcome>>;

#[test]
fn completions_are_decided_in_order_of_precedence() {
    let tables = [unknown_and_expired(), fenced(), conflicts(), again(), accepted()];
    let rows = tables.into_iter().flatten().collect();
    check("Complete", rows, Command::Complete, Outcome::Complete);
}

/// All that work may come to.
fn everything() -> [(&'static str, Completed); 4] {
    [
        ("SUCCEEDED", succeeded("paid")),
        ("FAILED_FINAL", failed_for_good("no funds")),
        ("FAILED_RETRYABLE", FailedRetryable),
        ("INDETERMINATE", Indeterminate),
    ]
}

#[rustfmt::skip]
fn unknown_and_expired() -> Rows {
    let mut rows = Vec::new();
    for (what, completed) in everything() {
        let by = |owner, fence| complete(owner, fence, completed.clone());
        let name = |which: &str| format!("{which}: {what}");
        rows.extend([
            row(name("no record"),               None,                                  by(A, FENCE), NOW, keep(Unknown)),
            row(name("an outlived answer"),      completed_by(A),                       by(A, FENCE), GONE, keep(Unknown)),
            row(name("an outlived release"),     released_by(A),                        by(A, FENCE), GONE, keep(Unknown)),
            row(name("an outlived tombstone"),   forgotten(),                           by(A, FENCE), GONE, keep(Unknown)),
            row(name("forgotten"),               forgotten(),                           by(A, FENCE), NOW, keep(Expired)),
            row(name("forgotten, older fence"),  forgotten(),                           by(A, FENCE - 1), NOW, keep(Expired)),
            row(name("forgotten, another owner"), forgotten(),                          by(B, FENCE), NOW, keep(Expired)),
            row(name("forgotten, to the end"),   forgotten(),                           by(A, FENCE), GONE.before(MICROSECOND), keep(Expired)),
        ]);
    }
    rows
}

/// Whoever does not hold the newest fence under its own name has lost, in every state.
#[rustfmt::skip]
fn fenced() -> Rows {
    let mut rows = Vec::new();
    for (what, completed) in everything() {
        for (state, record) in every_state(A) {
            if record.owner().is_none() {
                continue;
            }
            let current = record.fence;
            let name = |who: &str| format!("{who}: {state}, {what}");
            for (who, owner, fence) in [
                ("another owner", B, FENCE),
                ("another owner, newest fence", B, current),
                ("an older fence", A, FENCE - 1),
                ("a guessed fence", A, FENCE + 2),
                ("another owner, older fence", B, FENCE - 1),
                ("no fence", A, 0),
            ] {
                let by = complete(owner, fence, completed.clone());
                rows.push(row(name(who), record.clone(), by, NOW, keep(Fenced { current })));
            }
        }
        let by = |owner, fence| complete(owner, fence, completed.clone());
        let name = |which: &str| format!("{which}: {what}");
        let lost = Fenced { current: FENCE + 1 };
        rows.extend([
            row(name("taken over since"),         Record { fence: FENCE + 1, ..claimed_by(B) }, by(A, FENCE), NOW, keep(lost.clone())),
            row(name("taken over, newest fence"), Record { fence: FENCE + 1, ..claimed_by(B) }, by(A, FENCE + 1), NOW, keep(lost.clone())),
            row(name("given back by its owner"),  released_by(A), by(A, FENCE), NOW, keep(lost.clone())),
            row(name("given back, next fence"),   released_by(A), by(A, FENCE + 1), NOW, keep(lost.clone())),
            row(name("settled as not done"),      given_back_by(A, AttemptEnd::Reconciled), by(A, FENCE), NOW, keep(lost)),
        ]);
    }
    rows
}

#[rustfmt::skip]
fn conflicts() -> Rows {
    let failed = || given_back_by(A, AttemptEnd::FailedRetryable);
    let bare = || answered_by(A, Conclusion::Succeeded, None);
    let done = |completed| complete(A, FENCE, completed);
    let other_body = |body| succeeded(body);
    vec![
        row("done, now another body",          completed_by(A), done(other_body("paid!")), NOW, keep(Conflict)),
        row("done, now as long a body",        completed_by(A), done(other_body("said")), NOW, keep(Conflict)),
        row("done, now another length",        completed_by(A), done(said(longer(response("paid")))), NOW, keep(Conflict)),
        row("done, now another status",        completed_by(A), done(said(Response { status: 200, ..response("paid") })), NOW, keep(Conflict)),
        row("done, now another content type",  completed_by(A), done(said(Response { content_type: "".into(), ..response("paid") })), NOW, keep(Conflict)),
        row("done, now other metadata",        completed_by(A), done(said(Response { metadata: vec![], ..response("paid") })), NOW, keep(Conflict)),
        row("done, now without a response",    completed_by(A), done(without_response()), NOW, keep(Conflict)),
        row("done without, now with one",      bare(),          done(succeeded("paid")), NOW, keep(Conflict)),
        row("done, now failed for good",       completed_by(A), done(failed_for_good("paid")), NOW, keep(Conflict)),
        row("done, now may be tried again",    completed_by(A), done(FailedRetryable), NOW, keep(Conflict)),
        row("done, now indeterminate",         completed_by(A), done(Indeterminate), NOW, keep(Conflict)),
        row("failed for good, now done",       failed_by(A),    done(succeeded("no funds")), NOW, keep(Conflict)),
        row("may be tried again, now done",    failed(),        done(succeeded("paid")), NOW, keep(Conflict)),
        row("may be tried again, now for good", failed(),       done(failed_for_good("no")), NOW, keep(Conflict)),
        row("may be tried again, now unknown", failed(),        done(Indeterminate), NOW, keep(Conflict)),
    ]
}

/// Said before: the same answer, and nothing is written.
#[rustfmt::skip]
fn again() -> Rows {
    let failed = || given_back_by(A, AttemptEnd::FailedRetryable);
    let bare = || answered_by(A, Conclusion::Succeeded, None);
    let done = |completed| complete(A, FENCE, completed);
    let frame = Content::Zstd(Bytes::from_static(b"(zstd)"));
    let kept_as = |content| answered_by(A, Conclusion::Succeeded, Some(stored_as(content, response("paid"))));
    let succeeded_before = |expires_at| keep(Accepted { already: true, stage: Stage::Succeeded, expires_at: Some(expires_at) });
    let before = |stage, expires_at| keep(Accepted { already: true, stage, expires_at });
    vec![
        row("done again",                      completed_by(A), done(succeeded("paid")), NOW, succeeded_before(GONE)),
        row("done again, to the very end",     completed_by(A), done(succeeded("paid")), GONE.before(MICROSECOND), succeeded_before(GONE)),
        row("done again, clock went back",     completed_by(A), done(succeeded("paid")), BEGAN, succeeded_before(GONE)),
        row("done again without a response",   bare(),          done(without_response()), NOW, succeeded_before(GONE)),
        row("done again, kept compressed",     kept_as(frame.clone()), done(succeeded("paid")), NOW, succeeded_before(GONE)),
        row("done again, left out as too large", kept_as(Content::OmittedTooLarge), done(succeeded("paid")), NOW, succeeded_before(GONE)),
        row("done again, left out by caller",  completed_by(A), done(said(stored_as(Content::OmittedByCaller, response("paid")))), NOW, succeeded_before(GONE)),
        row("failed for good again",           failed_by(A),    done(failed_for_good("no funds")), NOW, before(Stage::FailedFinal, Some(GONE))),
        row("failed again, to be tried again", failed(),        done(FailedRetryable), NOW, before(Stage::Released, Some(GONE))),
        row("failed again, claimed since",     since(failed()), done(FailedRetryable), NOW, before(Stage::Claimed, None)),
        row("indeterminate again",             indeterminate_by(A), done(Indeterminate), NOW, before(Stage::Indeterminate, None)),
    ]
}

/// The holder of the fence is believed, in time or late.
fn accepted() -> Rows {
    let mut rows = Vec::new();
    for (state, record) in [
        ("claimed", claimed_by(A)),
        ("lapsed", lapsed_by(A)),
        ("lapsed, BLOCK", blocking(lapsed_by(A))),
        ("claimed, clock went back", touched(NOW, claimed_by(A))),
        ("indeterminate", indeterminate_by(A)),
        ("indeterminate, BLOCK", blocking(indeterminate_by(A))),
    ] {
        let now = if state.ends_with("back") { BEGAN.before(HOUR) } else { NOW };
        for (what, completed) in everything() {
            if completed == Indeterminate && record.stage(NOW) == Stage::Indeterminate {
                continue; // said before: not a change
            }
            let command = complete(A, FENCE, completed.clone());
            rows.push(row(
                format!("{state}: {what}"),
                record.clone(),
                command,
                now,
                left(completed),
            ));
        }
        let bare = complete(A, FENCE, without_response());
        let name = format!("{state}: SUCCEEDED without a response");
        rows.push(row(name, record, bare, now, left(without_response())));
    }
    for (name, record, expires_at) in [
        (
            "a long retention counts from now",
            Record { retention: HOUR, ..claimed_by(A) },
            NOW.after(HOUR).after(2 * SKEW),
        ),
        (
            "an intent of the near future is kept from then on",
            Record { first_sent: Some(NOW.after(SKEW)), ..claimed_by(A) },
            NOW.after(SKEW).after(RETENTION).after(2 * SKEW),
        ),
    ] {
        let (stage, until) = (Stage::Succeeded, Some(expires_at));
        let expected = put(Accepted { already: false, stage, expires_at: until }, move |old| {
            answers(A, Conclusion::Succeeded, None, expires_at, old)
        });
        rows.push(row(name, record, complete(A, FENCE, without_response()), NOW, expected));
    }
    rows
}

/// What a completion of A's leaves.
fn left(completed: Completed) -> Expected<CompleteOutcome> {
    let until = NOW.after(RETENTION).after(2 * SKEW);
    let accepted = |stage, expires_at| Accepted { already: false, stage, expires_at };
    match completed {
        Completed::Concluded { conclusion, response } => {
            let stage = match conclusion {
                Conclusion::Succeeded => Stage::Succeeded,
                Conclusion::FailedFinal => Stage::FailedFinal,
            };
            put(accepted(stage, Some(until)), move |old| {
                answers(A, conclusion, response, until, old)
            })
        }
        FailedRetryable => put(accepted(Stage::Released, Some(until)), move |old| {
            let end = AttemptEnd::FailedRetryable;
            let state = State::Released { by: A, fence: FENCE, end, expires_at: until };
            Record { fence: FENCE + 1, ..becomes(state, ended(end, old)) }
        }),
        Indeterminate => put(accepted(Stage::Indeterminate, None), |old| {
            becomes(State::Indeterminate { by: A, claimed_at: BEGAN, declared_at: NOW }, old)
        }),
    }
}

/// The record with an answer of now, which nobody will take over any more.
pub(crate) fn answers(
    owner: OwnerId,
    conclusion: Conclusion,
    response: Option<Response>,
    expires_at: Timestamp,
    record: Record,
) -> Record {
    let fence = record.fence;
    let answer = Answer { conclusion, response, completed_at: NOW, fence, owner, expires_at };
    Record { checkpoint: None, ..becomes(State::Completed(answer), record) }
}

fn said(response: Response) -> Completed {
    Completed::Concluded { conclusion: Conclusion::Succeeded, response: Some(response) }
}

/// The same digest, said to be of a longer body.
fn longer(mut response: Response) -> Response {
    response.body.length += 1;
    response
}

fn without_response() -> Completed {
    Completed::Concluded { conclusion: Conclusion::Succeeded, response: None }
}
