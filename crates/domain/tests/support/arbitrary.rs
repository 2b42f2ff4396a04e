//! Any record at all: also those that no rule would make, since stored bytes may hold anything.

use std::time::Duration;

use bytes::Bytes;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use semel_domain::fingerprint::{Fingerprint, Fingerprints};
use semel_domain::keys::{
    Answer, Attempt, AttemptEnd, Audit, AuditAction, Claimed, Conclusion, GrantKind, OnOwnerLost,
    OwnerId, Record, State,
};
use semel_domain::response::{Body, Content, Response};
use semel_domain::time::Timestamp;

pub(crate) fn record() -> impl Strategy<Value = Record> {
    let head = (
        fingerprints(),
        select(vec![OnOwnerLost::TakeOver, OnOwnerLost::Reconcile, OnOwnerLost::Block]),
        duration(),
        duration(),
        option::of(time()),
        btree_map(text(), text(), 0..4),
    );
    let body = (time(), time(), any::<u64>(), any::<u32>(), vec(attempt(), 0..4));
    let tail = (option::of(bytes(0..40)), state(), vec(audit(), 0..4));
    (head, body, tail).prop_map(|(head, body, tail)| {
        let (fingerprints, on_owner_lost, retention, allowed_skew, first_sent, labels) = head;
        let (created_at, touched_at, fence, attempts, history) = body;
        let (checkpoint, state, audit) = tail;
        Record {
            fingerprints,
            on_owner_lost,
            retention,
            allowed_skew,
            first_sent,
            labels,
            created_at,
            touched_at,
            fence,
            attempts,
            history,
            checkpoint,
            state,
            audit,
        }
    })
}

pub(crate) fn time() -> impl Strategy<Value = Timestamp> {
    // Its last value has no successor, so no range can end behind it.
    (0..u64::MAX).prop_map(Timestamp::from_micros)
}

fn duration() -> impl Strategy<Value = Duration> {
    any::<u64>().prop_map(Duration::from_micros)
}

fn owner() -> impl Strategy<Value = OwnerId> {
    any::<[u8; 16]>().prop_map(OwnerId)
}

fn text() -> impl Strategy<Value = Box<str>> {
    "\\PC{0,8}".prop_map(String::into_boxed_str)
}

fn bytes(length: std::ops::Range<usize>) -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), length).prop_map(Bytes::from)
}

fn fingerprints() -> impl Strategy<Value = Fingerprints> {
    let algorithms = vec!["sha256", "blake3", "crc/64", "v2:sha256-jcs"];
    let all = (subsequence(algorithms, 1..=4), vec(bytes(16..65), 4));
    all.prop_map(|(algorithms, digests)| {
        let one = |(algorithm, digest)| Fingerprint::new(algorithm, digest).expect("valid");
        Fingerprints::new(algorithms.into_iter().zip(digests).map(one).collect()).expect("valid")
    })
}

fn state() -> impl Strategy<Value = State> {
    prop_oneof![
        claimed().prop_map(State::Claimed),
        (owner(), any::<u64>(), end(), time()).prop_map(|(by, fence, end, expires_at)| {
            State::Released { by, fence, end, expires_at }
        }),
        answer().prop_map(State::Completed),
        (owner(), time(), time()).prop_map(|(by, claimed_at, declared_at)| State::Indeterminate {
            by,
            claimed_at,
            declared_at
        }),
        time().prop_map(|expires_at| State::Forgotten { expires_at }),
    ]
}

fn claimed() -> impl Strategy<Value = Claimed> {
    let kinds = vec![GrantKind::Claimed, GrantKind::TakenOver, GrantKind::ReconcileRequired];
    (owner(), select(kinds), time(), time(), any::<u64>()).prop_map(
        |(owner, kind, claimed_at, expires_at, renewal)| Claimed {
            owner,
            kind,
            claimed_at,
            expires_at,
            renewal,
        },
    )
}

fn answer() -> impl Strategy<Value = Answer> {
    let conclusion = select(vec![Conclusion::Succeeded, Conclusion::FailedFinal]);
    (conclusion, option::of(response()), time(), any::<u64>(), owner(), time()).prop_map(
        |(conclusion, response, completed_at, fence, owner, expires_at)| Answer {
            conclusion,
            response,
            completed_at,
            fence,
            owner,
            expires_at,
        },
    )
}

fn response() -> impl Strategy<Value = Response> {
    (any::<i32>(), text(), vec((text(), text()), 0..4), body()).prop_map(
        |(status, content_type, metadata, body)| Response { status, content_type, metadata, body },
    )
}

fn body() -> impl Strategy<Value = Body> {
    let content = prop_oneof![
        bytes(0..64).prop_map(Content::Plain),
        bytes(0..64).prop_map(Content::Zstd),
        Just(Content::OmittedByCaller),
        Just(Content::OmittedTooLarge),
    ];
    (any::<u64>(), any::<[u8; 32]>(), content).prop_map(|(length, sha256, content)| Body {
        length,
        sha256,
        content,
    })
}

fn attempt() -> impl Strategy<Value = Attempt> {
    (any::<u64>(), owner(), time(), time(), end()).prop_map(
        |(fence, owner, claimed_at, ended_at, end)| Attempt {
            fence,
            owner,
            claimed_at,
            ended_at,
            end,
        },
    )
}

fn end() -> impl Strategy<Value = AttemptEnd> {
    select(vec![
        AttemptEnd::Released,
        AttemptEnd::FailedRetryable,
        AttemptEnd::Lapsed,
        AttemptEnd::Indeterminate,
        AttemptEnd::Reconciled,
    ])
}

fn audit() -> impl Strategy<Value = Audit> {
    let action = select(vec![AuditAction::Reconcile, AuditAction::Forget]);
    (time(), text(), text(), action).prop_map(|(at, actor, reason, action)| Audit {
        at,
        actor,
        reason,
        action,
    })
}
