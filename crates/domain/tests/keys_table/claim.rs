//! ClaimKey. The numbers are those of the public table of precedence; 1, malformed requests, never
//! becomes a command.

use std::time::Duration;

use semel_domain::Change;
use semel_domain::keys::ClaimOutcome::{
    self, Expired, FingerprintIncomparable, FirstSentInvalid, Granted, Indeterminate,
    PayloadMismatch, Released,
};
use semel_domain::keys::GrantKind::{self, ReconcileRequired, TakenOver};
use semel_domain::keys::{
    Attempt, AttemptEnd, Claim, Claimed, Command, Conclusion, Grant, InProgress, OnOwnerLost,
    Outcome, OwnerId, Record, State,
};
use semel_domain::time::Timestamp;

use crate::support::{
    A, B, BEGAN, C, GONE, HOUR, LEASE, MICROSECOND, MILLISECOND, NOW, POLICY, RETENTION, SECOND,
    SKEW, answer_of, answered_by, blocking, claim, claimed_by, completed_by, every_state,
    failed_by, fingerprints, forgotten, given_back_by, incomparable, indeterminate_by, lapsed_by,
    leased_until, looking, mismatched, reconciling, released_by, sent, taking_over, touched,
};
use crate::{Expected, Row, check, ended, keep, row};

type Rows = Vec<Row<Claim, ClaimOutcome>>;

#[test]
fn claims_are_decided_in_order_of_precedence() {
    let tables =
        [fingerprints_first(), answers(), indeterminate(), held(), lapsed(), released(), nothing()];
    let rows = tables.into_iter().flatten().collect();
    let outcomes = check("Claim", rows, Command::Claim, Outcome::Claim);

    let granted = |kind: GrantKind, resumed: bool| {
        outcomes.iter().any(|outcome| {
            matches!(outcome, Outcome::Claim(Granted(grant))
                if grant.kind == kind && grant.resumed == resumed)
        })
    };
    for kind in [GrantKind::Claimed, TakenOver, ReconcileRequired] {
        // A kind that is new to the domain does not compile here until it is listed above.
        match kind {
            GrantKind::Claimed | TakenOver | ReconcileRequired => {}
        }
        assert!(granted(kind, false) && granted(kind, true), "no row is granted as {kind:?}");
    }
}

/// 2: another fingerprint outranks every state, whoever asks.
fn fingerprints_first() -> Rows {
    let mut rows = Vec::new();
    for (state, record) in every_state(A) {
        for (policy, record) in [
            ("TAKE_OVER", taking_over(record.clone())),
            ("RECONCILE", reconciling(record.clone())),
            ("BLOCK", blocking(record)),
        ] {
            for (who, owner) in [("its owner", A), ("another", B)] {
                let name = |what: &str| format!("2 {what} by {who}: {state}, {policy}");
                let old = record.clone();
                rows.push(row(
                    name("mismatch"),
                    old.clone(),
                    mismatched(claim(owner)),
                    NOW,
                    keep(PayloadMismatch),
                ));
                rows.push(row(
                    name("incomparable"),
                    old.clone(),
                    incomparable(claim(owner)),
                    NOW,
                    keep(FingerprintIncomparable),
                ));
                rows.push(row(
                    name("a look at a mismatch"),
                    old,
                    looking(mismatched(claim(owner))),
                    NOW,
                    keep(PayloadMismatch),
                ));
            }
        }
    }
    let with = |all: &[(&str, u8)]| Claim { fingerprints: fingerprints(all), ..claim(B) };
    #[rustfmt::skip]
    rows.extend([
        row("2 one of two algorithms differs",     completed_by(A), with(&[("sha256", 1), ("blake3", 9)]), NOW, keep(PayloadMismatch)),
        row("2 the other of two differs",          completed_by(A), with(&[("blake3", 1), ("sha256", 9)]), NOW, keep(PayloadMismatch)),
        row("2 one shared algorithm is enough",    completed_by(A), with(&[("crc64", 9), ("blake3", 1)]),  NOW, keep(replays(&completed_by(A)))),
        row("2 a mismatch outranks first_sent",    completed_by(A), mismatched(sent(BEGAN.before(HOUR), claim(B))), NOW, keep(PayloadMismatch)),
        row("2 a mismatch until the very end",     completed_by(A), mismatched(claim(B)), GONE.before(MICROSECOND), keep(PayloadMismatch)),
    ]);
    rows
}

/// 3 and 4: what is over, is over: whoever asks, whenever the intent was made.
#[rustfmt::skip]
fn answers() -> Rows {
    let bare = || answered_by(A, Conclusion::Succeeded, None);
    vec![
        row("3 forgotten",                          forgotten(),     claim(B), NOW, keep(Expired)),
        row("3 forgotten: its own last owner",      forgotten(),     claim(A), NOW, keep(Expired)),
        row("3 forgotten: a look",                  forgotten(),     looking(claim(B)), NOW, keep(Expired)),
        row("3 forgotten outranks FIRST_SENT",      forgotten(),     sent(NOW.after(HOUR), claim(B)), NOW, keep(Expired)),
        row("3 forgotten, BLOCK",                   blocking(forgotten()), claim(B), NOW, keep(Expired)),
        row("3 forgotten, until the very end",      forgotten(),     claim(B), GONE.before(MICROSECOND), keep(Expired)),
        row("4 succeeded",                          completed_by(A), claim(B), NOW, keep(replays(&completed_by(A)))),
        row("4 succeeded: its own owner",           completed_by(A), claim(A), NOW, keep(replays(&completed_by(A)))),
        row("4 succeeded: a look",                  completed_by(A), looking(claim(B)), NOW, keep(replays(&completed_by(A)))),
        row("4 succeeded without a response",       bare(),          claim(B), NOW, keep(replays(&bare()))),
        row("4 succeeded, TAKE_OVER",               taking_over(completed_by(A)), claim(B), NOW, keep(replays(&completed_by(A)))),
        row("4 failed for good",                    failed_by(A),    claim(B), NOW, keep(replays(&failed_by(A)))),
        row("4 failed for good: its own owner",     failed_by(A),    claim(A), NOW, keep(replays(&failed_by(A)))),
        row("4 an old intent, answered meanwhile",  completed_by(A), sent(BEGAN.before(HOUR), claim(B)), NOW, keep(replays(&completed_by(A)))),
        row("4 an intent of the future, answered",  completed_by(A), sent(NOW.after(HOUR), claim(B)), NOW, keep(replays(&completed_by(A)))),
        row("4 until the very end",                 completed_by(A), claim(B), GONE.before(MICROSECOND), keep(replays(&completed_by(A)))),
        row("4 the clock went back",                completed_by(A), claim(B), BEGAN.before(HOUR), keep(replays(&completed_by(A)))),
    ]
}

/// 5: declared indeterminate, which outranks being the owner.
#[rustfmt::skip]
fn indeterminate() -> Rows {
    let declared = || indeterminate_by(A);
    let doubted = |owner| gets(owner, ReconcileRequired, |old| taken(AttemptEnd::Indeterminate, old));
    vec![
        row("5 BLOCK",                       blocking(declared()),    claim(B), NOW, keep(Indeterminate)),
        row("5 BLOCK: its own owner",        blocking(declared()),    claim(A), NOW, keep(Indeterminate)),
        row("5 BLOCK: a look",               blocking(declared()),    looking(claim(B)), NOW, keep(Indeterminate)),
        row("5 BLOCK, however old",          blocking(declared()),    claim(B), GONE.after(HOUR), keep(Indeterminate)),
        row("5 BLOCK is the record's",       blocking(declared()),    wants(OnOwnerLost::TakeOver, claim(B)), NOW, keep(Indeterminate)),
        row("5 RECONCILE: a look",           reconciling(declared()), looking(claim(B)), NOW, keep(Indeterminate)),
        row("5 TAKE_OVER: a look",           taking_over(declared()), looking(claim(B)), NOW, keep(Indeterminate)),
        row("5 RECONCILE",                   reconciling(declared()), claim(B), NOW, doubted(B)),
        row("5 RECONCILE: its own owner",    reconciling(declared()), claim(A), NOW, doubted(A)),
        row("5 RECONCILE is the record's",   reconciling(declared()), wants(OnOwnerLost::Block, claim(B)), NOW, doubted(B)),
        row("5 TAKE_OVER looks first, too",  taking_over(declared()), claim(B), NOW, doubted(B)),
        row("5 TAKE_OVER: its own owner",    taking_over(declared()), claim(A), NOW, doubted(A)),
    ]
}

/// 6 and 7: somebody holds a live claim, or the owner itself asks again.
#[rustfmt::skip]
fn held() -> Rows {
    let taken_over = || of_kind(TakenOver, claimed_by(A));
    let doubtful = || of_kind(ReconcileRequired, claimed_by(A));
    let renewed = || leased_until(NOW.after(HOUR), claimed_by(A));
    let last_moment = || leased_until(NOW.after(MICROSECOND), claimed_by(A));
    vec![
        row("6 its own owner: the lease anew",      claimed_by(A),              claim(A), NOW, resumes()),
        row("6 asked twice at once: no write",      leased_until(NOW.after(LEASE), claimed_by(A)), claim(A), NOW, resumes_as_it_is(LEASE)),
        row("6 a longer lease is not shortened",    renewed(),                  claim(A), NOW, resumes_as_it_is(HOUR)),
        row("6 repeats TAKEN_OVER",                 taken_over(),               claim(A), NOW, resumes()),
        row("6 repeats RECONCILE_REQUIRED",         doubtful(),                 claim(A), NOW, resumes()),
        row("6 old intent, in its owner's hands",   claimed_by(A),              sent(BEGAN.before(HOUR), claim(A)), NOW, resumes()),
        row("6 BLOCK does not block the owner",     blocking(claimed_by(A)),    claim(A), NOW, resumes()),
        row("6 lapsed but not taken, TAKE_OVER",    taking_over(lapsed_by(A)),  claim(A), NOW, resumes()),
        row("6 lapsed but not taken, RECONCILE",    reconciling(lapsed_by(A)),  claim(A), NOW, resumes()),
        row("6 lapsed but not taken, BLOCK",        blocking(lapsed_by(A)),     claim(A), NOW, resumes()),
        row("6 the clock went back",                touched(NOW, claimed_by(A)), claim(A), BEGAN, resumes()),
        row("6 a look writes nothing",              claimed_by(A),              looking(claim(A)), NOW, in_progress(20 * SECOND, 10 * SECOND)),
        row("6 a look, lapsed but not taken",       lapsed_by(A),               looking(claim(A)), NOW, in_progress(MICROSECOND, 10 * SECOND)),
        row("6 a look, lapsed, BLOCK",              blocking(lapsed_by(A)),     looking(claim(A)), NOW, in_progress(MICROSECOND, 10 * SECOND)),
        row("7 another's",                          claimed_by(A),              claim(B), NOW, in_progress(20 * SECOND, 10 * SECOND)),
        row("7 another's, TAKE_OVER",               taking_over(claimed_by(A)), claim(B), NOW, in_progress(20 * SECOND, 10 * SECOND)),
        row("7 another's, BLOCK",                   blocking(claimed_by(A)),    claim(B), NOW, in_progress(20 * SECOND, 10 * SECOND)),
        row("7 a look",                             claimed_by(A),              looking(claim(B)), NOW, in_progress(20 * SECOND, 10 * SECOND)),
        row("7 outranks first_sent",                claimed_by(A),              sent(NOW.after(HOUR), claim(B)), NOW, in_progress(20 * SECOND, 10 * SECOND)),
        row("7 its last microsecond",               taking_over(last_moment()), claim(B), NOW, in_progress(MICROSECOND, 10 * SECOND)),
        row("7 the clock went back",                touched(ENDED_LATER, claimed_by(A)), claim(B), BEGAN, in_progress(18 * SECOND, 12 * SECOND)),
        row("7 held for longer than a retention",   leased_until(GONE.after(HOUR), claimed_by(A)), claim(B), GONE, in_progress(HOUR, 67 * SECOND)),
    ]
}

const ENDED_LATER: Timestamp = Timestamp::from_micros(BEGAN.as_micros() + 12_000_000);

/// 8: the lease of another ran out.
#[rustfmt::skip]
fn lapsed() -> Rows {
    let lost = |kind| gets(B, kind, |old| taken(AttemptEnd::Lapsed, old));
    let often = || Record { history: (0..8).map(earlier).collect(), attempts: 9, ..taking_over(lapsed_by(A)) };
    vec![
        row("8 BLOCK",                       blocking(lapsed_by(A)),    claim(B), NOW, keep(Indeterminate)),
        row("8 BLOCK: a look",               blocking(lapsed_by(A)),    looking(claim(B)), NOW, keep(Indeterminate)),
        row("8 BLOCK, however old",          blocking(lapsed_by(A)),    claim(B), GONE.after(HOUR), keep(Indeterminate)),
        row("8 BLOCK is the record's",       blocking(lapsed_by(A)),    wants(OnOwnerLost::TakeOver, claim(B)), NOW, keep(Indeterminate)),
        row("8 RECONCILE",                   reconciling(lapsed_by(A)), claim(B), NOW, lost(ReconcileRequired)),
        row("8 RECONCILE is the record's",   reconciling(lapsed_by(A)), wants(OnOwnerLost::TakeOver, claim(B)), NOW, lost(ReconcileRequired)),
        row("8 TAKE_OVER",                   taking_over(lapsed_by(A)), claim(B), NOW, lost(TakenOver)),
        row("8 TAKE_OVER is the record's",   taking_over(lapsed_by(A)), wants(OnOwnerLost::Block, claim(B)), NOW, lost(TakenOver)),
        row("8 TAKE_OVER, the doubt stays",  of_kind(ReconcileRequired, taking_over(lapsed_by(A))), claim(B), NOW, lost(ReconcileRequired)),
        row("8 outranks first_sent",         taking_over(lapsed_by(A)), sent(BEGAN.before(HOUR), claim(B)), NOW, lost(TakenOver)),
        row("8 RECONCILE: a look",           reconciling(lapsed_by(A)), looking(claim(B)), NOW, in_progress(MICROSECOND, 10 * SECOND)),
        row("8 TAKE_OVER: a look",           taking_over(lapsed_by(A)), looking(claim(B)), NOW, in_progress(MICROSECOND, 10 * SECOND)),
        row("8 lapsed by its own time only", taking_over(touched(NOW, lapsed_by(A))), claim(B), BEGAN, lost(TakenOver)),
        row("8 the last 8 attempts stay",    often(), claim(B), NOW, gets(B, TakenOver, |old| {
            let mut record = taken(AttemptEnd::Lapsed, old);
            record.history.remove(0);
            record
        })),
    ]
}

fn earlier(fence: u64) -> Attempt {
    Attempt { fence, owner: C, claimed_at: BEGAN, ended_at: BEGAN, end: AttemptEnd::Lapsed }
}

/// 9: given back, in any of three ways.
#[rustfmt::skip]
fn released() -> Rows {
    let given_back = |end| given_back_by(A, end);
    let again = || gets(B, GrantKind::Claimed, |old| old);
    let soon = || in_progress(MILLISECOND, MILLISECOND);
    vec![
        row("9 released: a late copy",           released_by(A), claim(A), NOW, keep(Released)),
        row("9 failed: a late copy",             given_back(AttemptEnd::FailedRetryable), claim(A), NOW, keep(Released)),
        row("9 settled: a late copy",            given_back(AttemptEnd::Reconciled), claim(A), NOW, keep(Released)),
        row("9 released: a late look",           released_by(A), looking(claim(A)), NOW, keep(Released)),
        row("9 a late copy of an old intent",    released_by(A), sent(BEGAN.before(HOUR), claim(A)), NOW, keep(Released)),
        row("9 released: a look",                released_by(A), looking(claim(B)), NOW, soon()),
        row("9 released",                        released_by(A), claim(B), NOW, again()),
        row("9 released, BLOCK",                 blocking(released_by(A)), claim(B), NOW, again()),
        row("9 released, TAKE_OVER",             taking_over(released_by(A)), claim(B), NOW, again()),
        row("9 failed, may be tried again",      given_back(AttemptEnd::FailedRetryable), claim(B), NOW, again()),
        row("9 settled as not done",             given_back(AttemptEnd::Reconciled), claim(B), NOW, again()),
        row("9 outranks first_sent",             released_by(A), sent(BEGAN.before(HOUR), claim(B)), NOW, again()),
        row("9 the clock went back",             touched(NOW, released_by(A)), claim(B), BEGAN, again()),
    ]
}

/// 10 and 11: there is no record, or one that has outlived its retention.
#[rustfmt::skip]
fn nothing() -> Rows {
    let young = NOW.before(RETENTION);
    let old = young.before(MICROSECOND);
    let near = NOW.after(SKEW);
    let far = near.after(MICROSECOND);
    let epoch = Timestamp::default();
    let soon = || in_progress(MILLISECOND, MILLISECOND);
    let begins = |claim: Claim| row("", None, claim.clone(), NOW, first(claim, NOW, NOW.as_micros()));
    let begins_as = |name: &str, claim| Row { name: name.into(), ..begins(claim) };
    let mut rows = vec![
        row("10 older than the retention",          None, sent(old, claim(B)), NOW, keep(Expired)),
        row("10 older, for a long retention",       None, kept_for(HOUR, sent(old, claim(B))), NOW, keep(Expired)),
        row("10 older, and a look",                 None, looking(sent(old, claim(B))), NOW, keep(Expired)),
        row("10 sent in 1970 is not unset",         None, sent(epoch, claim(B)), NOW, keep(Expired)),
        row("10 too far in the future",             None, sent(far, claim(B)), NOW, keep(FirstSentInvalid)),
        row("10 too far in the future, and a look", None, looking(sent(far, claim(B))), NOW, keep(FirstSentInvalid)),
        row("10 older than what outlived it",       completed_by(A), sent(BEGAN, claim(B)), GONE, keep(Expired)),
        row("11 a look",                            None, looking(claim(B)), NOW, soon()),
        row("11 a look at what outlived it",        completed_by(A), looking(claim(B)), GONE, soon()),
        begins_as("11 no record",                   claim(B)),
        begins_as("11 sent just within retention",  sent(young, claim(B))),
        begins_as("11 sent just within the skew",   sent(near, claim(B))),
        begins_as("11 a longer retention counts",   kept_for(HOUR, claim(B))),
        begins_as("11 a shorter one does not",      kept_for(SECOND, claim(B))),
        begins_as("11 the policy for a lost owner", wants(OnOwnerLost::Block, claim(B))),
    ];
    // What has outlived its retention lends nothing to what comes after, and its fence least of all.
    for (name, record) in [
        ("succeeded", completed_by(A)),
        ("failed for good", failed_by(A)),
        ("released", released_by(A)),
        ("forgotten", forgotten()),
    ] {
        let newest = GONE.as_micros() + 5;
        let ahead = Record { fence: newest, ..record.clone() };
        let name = |what: &str| format!("11 {name} and outlived{what}");
        rows.push(row(name(""), record.clone(), claim(B), GONE, first(claim(B), GONE, GONE.as_micros())));
        rows.push(row(name(": its owner"), record.clone(), claim(A), GONE, first(claim(A), GONE, GONE.as_micros())));
        rows.push(row(name(": another payload"), record, mismatched(claim(B)), GONE, first(mismatched(claim(B)), GONE, GONE.as_micros())));
        rows.push(row(name(", with a fence ahead"), ahead, claim(B), GONE, first(claim(B), GONE, newest + 1)));
    }
    rows
}

// Variations of commands and records.

fn wants(on_owner_lost: OnOwnerLost, claim: Claim) -> Claim {
    Claim { on_owner_lost, ..claim }
}

fn kept_for(retention: Duration, claim: Claim) -> Claim {
    Claim { retention: Some(retention), ..claim }
}

fn of_kind(kind: GrantKind, mut record: Record) -> Record {
    if let State::Claimed(claimed) = &mut record.state {
        claimed.kind = kind;
    }
    record
}

/// The record that its owner lost: the attempt is remembered and the next fence is due.
fn taken(end: AttemptEnd, record: Record) -> Record {
    Record { fence: record.fence + 1, ..ended(end, record) }
}

// Answers.

fn replays(record: &Record) -> ClaimOutcome {
    ClaimOutcome::Replay(Box::new(answer_of(record)))
}

fn in_progress(lease_left: Duration, held_for: Duration) -> Expected<ClaimOutcome> {
    keep(ClaimOutcome::InProgress(InProgress { lease_left, held_for }))
}

fn grant_of(record: &Record, resumed: bool, lease: Duration) -> ClaimOutcome {
    let State::Claimed(Claimed { kind, expires_at, .. }) = record.state else {
        panic!("a claimed record")
    };
    let (attempt, checkpoint) = (record.attempts, record.checkpoint.clone());
    let (fence, history) = (record.fence, record.history.clone());
    let grant = Grant { kind, resumed, fence, lease, expires_at, attempt, checkpoint, history };
    Granted(Box::new(grant))
}

fn held_by(owner: OwnerId, kind: GrantKind, now: Timestamp) -> State {
    let expires_at = now.after(LEASE);
    State::Claimed(Claimed { owner, kind, claimed_at: now, expires_at, renewal: 0 })
}

/// `owner` gets the claim of the record as `edit` leaves it.
fn gets(
    owner: OwnerId,
    kind: GrantKind,
    edit: impl FnOnce(Record) -> Record + 'static,
) -> Expected<ClaimOutcome> {
    Box::new(move |old| {
        let edited = edit(old.cloned().expect("a record"));
        let attempts = edited.attempts + 1;
        let state = held_by(owner, kind, NOW);
        let record = Record { state, attempts, touched_at: NOW, ..edited };
        let outcome = grant_of(&record, false, LEASE);
        (Change::Put(record), outcome)
    })
}

/// The owner gets its claim once more, with the lease from now on.
fn resumes() -> Expected<ClaimOutcome> {
    Box::new(|old| {
        let record = old.cloned().expect("a record");
        let record = touched(NOW, leased_until(NOW.after(LEASE), record));
        let outcome = grant_of(&record, true, LEASE);
        (Change::Put(record), outcome)
    })
}

fn resumes_as_it_is(lease: Duration) -> Expected<ClaimOutcome> {
    Box::new(move |old| (Change::Keep, grant_of(old.expect("a record"), true, lease)))
}

/// The first claim of a key.
fn first(claim: Claim, now: Timestamp, fence: u64) -> Expected<ClaimOutcome> {
    Box::new(move |_| {
        let record = Record {
            fingerprints: claim.fingerprints,
            on_owner_lost: claim.on_owner_lost,
            retention: claim.retention.map_or(RETENTION, |asked| asked.max(RETENTION)),
            allowed_skew: POLICY.allowed_skew,
            first_sent: claim.first_sent,
            labels: claim.labels,
            created_at: now,
            touched_at: now,
            fence,
            attempts: 1,
            history: Vec::new(),
            checkpoint: None,
            state: held_by(claim.owner, GrantKind::Claimed, now),
            audit: Vec::new(),
        };
        let outcome = grant_of(&record, false, LEASE);
        (Change::Put(record), outcome)
    })
}
