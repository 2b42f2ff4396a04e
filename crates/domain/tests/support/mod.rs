//! Words for the tests of idempotency keys: records in every state, and what can be asked of them.
//!
//! Every record here is written out, never made by the rules that are tested. A story stands behind
//! them: the claim of fence [`FENCE`] began at [`BEGAN`]; whatever ended it did so at [`ENDED`]; it is
//! [`NOW`], ten seconds after the beginning; an answer may go at [`GONE`].

#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::expect_used, reason = "what is written out here is valid")]

pub(crate) mod variants;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use proptest::test_runner::{Config as ProptestConfig, FileFailurePersistence, RngAlgorithm};
use semel_domain::Change;
use semel_domain::fingerprint::{Fingerprint, Fingerprints};
use semel_domain::keys::{
    Answer, Attempt, AttemptEnd, Audit, AuditAction, Claim, Claimed, Command, Complete, Completed,
    Conclusion, GrantKind, OnOwnerLost, Outcome, OwnerId, Policy, Record, Release, Renew, Replay,
    State, decide,
};
use semel_domain::response::{Body, Content, Response};
use semel_domain::time::Timestamp;

pub(crate) const A: OwnerId = OwnerId([0xa; 16]);
pub(crate) const B: OwnerId = OwnerId([0xb; 16]);
pub(crate) const C: OwnerId = OwnerId([0xc; 16]);

/// The fence of the claim behind every record.
pub(crate) const FENCE: u64 = 7;

pub(crate) const MICROSECOND: Duration = Duration::from_micros(1);
pub(crate) const MILLISECOND: Duration = Duration::from_millis(1);
pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

pub(crate) const LEASE: Duration = Duration::from_secs(30);
pub(crate) const RETENTION: Duration = Duration::from_secs(60);
pub(crate) const SKEW: Duration = SECOND;
pub(crate) const POLICY: Policy = Policy { retention: RETENTION, allowed_skew: SKEW };

pub(crate) const BEGAN: Timestamp = Timestamp::from_micros(1_000_000_000_000_000);
pub(crate) const ENDED: Timestamp = Timestamp::from_micros(1_000_000_005_000_000);
pub(crate) const NOW: Timestamp = Timestamp::from_micros(1_000_000_010_000_000);
/// The retention and twice the skew after [`ENDED`].
pub(crate) const GONE: Timestamp = Timestamp::from_micros(1_000_000_067_000_000);

// Payloads.

pub(crate) fn fingerprints(all: &[(&str, u8)]) -> Fingerprints {
    let one = |&(algorithm, byte): &(&str, u8)| {
        Fingerprint::new(algorithm, Bytes::from(vec![byte; 32])).expect("valid")
    };
    Fingerprints::new(all.iter().map(one).collect()).expect("valid")
}

/// What the keys of all records stand for.
pub(crate) fn payload() -> Fingerprints {
    fingerprints(&[("sha256", 1), ("blake3", 1)])
}

/// Another payload.
pub(crate) fn other_payload() -> Fingerprints {
    fingerprints(&[("sha256", 2), ("blake3", 2)])
}

/// A payload that nobody can compare with the others.
pub(crate) fn foreign_payload() -> Fingerprints {
    fingerprints(&[("crc64", 1)])
}

/// A response whose digest is told by its body; rules only compare digests.
pub(crate) fn response(body: &'static str) -> Response {
    let mut sha256 = [0; 32];
    for (place, byte) in sha256.iter_mut().zip(body.bytes()) {
        *place = byte;
    }
    Response {
        status: 201,
        content_type: "application/json".into(),
        metadata: vec![("location".into(), "/charges/42".into())],
        body: Body {
            length: u64::try_from(body.len()).expect("short"),
            sha256,
            content: Content::Plain(Bytes::from_static(body.as_bytes())),
        },
    }
}

/// The same response, kept in another way.
pub(crate) fn stored_as(content: Content, mut response: Response) -> Response {
    response.body.content = content;
    response
}

// Records, in every state.

fn record(touched_at: Timestamp, state: State) -> Record {
    Record {
        fingerprints: payload(),
        on_owner_lost: OnOwnerLost::Reconcile,
        retention: RETENTION,
        allowed_skew: SKEW,
        first_sent: Some(BEGAN),
        labels: labels(),
        created_at: BEGAN,
        touched_at,
        fence: FENCE,
        attempts: 1,
        history: Vec::new(),
        checkpoint: Some(Bytes::from_static(b"halfway")),
        state,
        audit: Vec::new(),
    }
}

fn labels() -> BTreeMap<Box<str>, Box<str>> {
    BTreeMap::from([("order".into(), "42".into())])
}

/// A claim with 20 seconds left.
pub(crate) fn claimed_by(owner: OwnerId) -> Record {
    let expires_at = BEGAN.after(LEASE);
    let kind = GrantKind::Claimed;
    record(
        BEGAN,
        State::Claimed(Claimed { owner, kind, claimed_at: BEGAN, expires_at, renewal: 5 }),
    )
}

/// A claim whose lease ends at this very moment.
pub(crate) fn lapsed_by(owner: OwnerId) -> Record {
    leased_until(NOW, claimed_by(owner))
}

/// A claim given back with ReleaseKey.
pub(crate) fn released_by(owner: OwnerId) -> Record {
    given_back_by(owner, AttemptEnd::Released)
}

/// A claim given back: known not done.
pub(crate) fn given_back_by(owner: OwnerId, end: AttemptEnd) -> Record {
    let state = State::Released { by: owner, fence: FENCE, end, expires_at: GONE };
    let attempt = Attempt { fence: FENCE, owner, claimed_at: BEGAN, ended_at: ENDED, end };
    Record { fence: FENCE + 1, history: vec![attempt], ..record(ENDED, state) }
}

/// An answer: succeeded.
pub(crate) fn completed_by(owner: OwnerId) -> Record {
    answered_by(owner, Conclusion::Succeeded, Some(response("paid")))
}

/// An answer: failed for good.
pub(crate) fn failed_by(owner: OwnerId) -> Record {
    answered_by(owner, Conclusion::FailedFinal, Some(response("no funds")))
}

pub(crate) fn answered_by(
    owner: OwnerId,
    conclusion: Conclusion,
    response: Option<Response>,
) -> Record {
    let answer =
        Answer { conclusion, response, completed_at: ENDED, fence: FENCE, owner, expires_at: GONE };
    Record { checkpoint: None, ..record(ENDED, State::Completed(answer)) }
}

/// Perhaps done, says its owner.
pub(crate) fn indeterminate_by(owner: OwnerId) -> Record {
    record(ENDED, State::Indeterminate { by: owner, claimed_at: BEGAN, declared_at: ENDED })
}

/// A tombstone.
pub(crate) fn forgotten() -> Record {
    Record {
        labels: BTreeMap::new(),
        checkpoint: None,
        audit: vec![act(ENDED, AuditAction::Forget)],
        ..record(ENDED, State::Forgotten { expires_at: GONE })
    }
}

/// Every state that a record of `owner` may be in.
pub(crate) fn every_state(owner: OwnerId) -> Vec<(&'static str, Record)> {
    vec![
        ("claimed", claimed_by(owner)),
        ("lapsed", lapsed_by(owner)),
        ("released", released_by(owner)),
        ("failed, may be tried again", given_back_by(owner, AttemptEnd::FailedRetryable)),
        ("settled as not done", given_back_by(owner, AttemptEnd::Reconciled)),
        ("succeeded", completed_by(owner)),
        ("failed for good", failed_by(owner)),
        ("indeterminate", indeterminate_by(owner)),
        ("forgotten", forgotten()),
    ]
}

// Variations of records.

pub(crate) fn taking_over(record: Record) -> Record {
    Record { on_owner_lost: OnOwnerLost::TakeOver, ..record }
}

pub(crate) fn reconciling(record: Record) -> Record {
    Record { on_owner_lost: OnOwnerLost::Reconcile, ..record }
}

pub(crate) fn blocking(record: Record) -> Record {
    Record { on_owner_lost: OnOwnerLost::Block, ..record }
}

/// A claim, with its lease ending at `expires_at`.
pub(crate) fn leased_until(expires_at: Timestamp, mut record: Record) -> Record {
    if let State::Claimed(claimed) = &mut record.state {
        claimed.expires_at = expires_at;
    }
    record
}

pub(crate) fn touched(touched_at: Timestamp, record: Record) -> Record {
    Record { touched_at, ..record }
}

pub(crate) fn act(at: Timestamp, action: AuditAction) -> Audit {
    Audit { at, actor: "ops@example.com".into(), reason: "ticket 9".into(), action }
}

/// The answer that a completed record keeps.
pub(crate) fn answer_of(record: &Record) -> Answer {
    match &record.state {
        State::Completed(answer) => Some(answer.clone()),
        _ => None,
    }
    .expect("a completed record")
}

// Commands.

pub(crate) fn claim(owner: OwnerId) -> Claim {
    Claim {
        owner,
        fingerprints: payload(),
        lease: LEASE,
        retention: None,
        policy: POLICY,
        first_sent: None,
        on_owner_lost: OnOwnerLost::Reconcile,
        labels: labels(),
        may_acquire: true,
    }
}

pub(crate) fn mismatched(claim: Claim) -> Claim {
    Claim { fingerprints: other_payload(), ..claim }
}

pub(crate) fn incomparable(claim: Claim) -> Claim {
    Claim { fingerprints: foreign_payload(), ..claim }
}

/// A claim that may only look.
pub(crate) fn looking(claim: Claim) -> Claim {
    Claim { may_acquire: false, ..claim }
}

/// A claim of an intent that was made at `first_sent`.
pub(crate) fn sent(first_sent: Timestamp, claim: Claim) -> Claim {
    Claim { first_sent: Some(first_sent), ..claim }
}

pub(crate) fn complete(owner: OwnerId, fence: u64, completed: Completed) -> Complete {
    Complete { fence, owner, completed }
}

pub(crate) fn succeeded(body: &'static str) -> Completed {
    let response = Some(response(body));
    Completed::Concluded { conclusion: Conclusion::Succeeded, response }
}

pub(crate) fn failed_for_good(body: &'static str) -> Completed {
    let response = Some(response(body));
    Completed::Concluded { conclusion: Conclusion::FailedFinal, response }
}

pub(crate) fn renew(owner: OwnerId, fence: u64, renewal: u64) -> Renew {
    Renew { fence, owner, renewal, lease: LEASE, checkpoint: None }
}

pub(crate) fn release(owner: OwnerId, fence: u64) -> Release {
    Release { fence, owner }
}

pub(crate) fn replay() -> Replay {
    Replay { fingerprints: payload() }
}

/// One key, to play a story on: its record is what the decisions so far left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Desk {
    pub(crate) record: Option<Record>,
}

impl Desk {
    pub(crate) fn of(record: Record) -> Self {
        Self { record: Some(record) }
    }

    /// Decides, keeps what the decision leaves, and hands the answer over.
    pub(crate) fn ask(&mut self, command: &Command, now: Timestamp) -> Outcome {
        let (change, outcome) = decide(self.record.as_ref(), command, now);
        self.apply(change);
        outcome
    }

    pub(crate) fn apply(&mut self, change: Change<Record>) {
        match change {
            Change::Keep => {}
            Change::Put(record) => self.record = Some(record),
            Change::Delete => self.record = None,
        }
    }
}

/// So many cases, or as many times more as `PROPTEST_CASES` is more than its usual 256. Drawing is
/// most of the work of a test that is not optimised, so the draws are cheap ones.
pub(crate) fn config(cases: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig {
        cases: (cases * default.cases).div_ceil(256),
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        rng_algorithm: RngAlgorithm::XorShift,
        ..default
    }
}
