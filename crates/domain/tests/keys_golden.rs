//! Golden bytes: what a released version wrote is read as what it meant, for ever.
//!
//! `golden/keys-v1` holds one file a record. A file is never changed: a change of the encoding is a
//! new version with a folder of its own, and the old one goes on being read. To add a record, write
//! it into [`records`] and run this test once with `SEMEL_BLESS=1`: it writes the files that are
//! missing, and never one that is there.

#![allow(clippy::expect_used, reason = "a file that can't be read should stop the test")]

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use semel_domain::fingerprint::{Fingerprint, Fingerprints};
use semel_domain::keys::{
    Answer, Attempt, AttemptEnd, Audit, AuditAction, Claimed, Conclusion, GrantKind, OnOwnerLost,
    OwnerId, Record, State, decode, encode,
};
use semel_domain::response::{Body, Content, Response};
use semel_domain::time::Timestamp;

#[path = "support/golden.rs"]
mod golden;

const BLESS: &str = "SEMEL_BLESS=1 cargo test -p semel-domain --test keys_golden";

/// What the files of version 1 say: every state, every choice, every part present and absent.
fn records() -> Vec<(&'static str, Record)> {
    let claimed = |kind| {
        let (claimed_at, expires_at) = (at(3), at(33));
        State::Claimed(Claimed { owner: owner(0xa1), kind, claimed_at, expires_at, renewal: 12 })
    };
    let released = |end| State::Released { by: owner(0xa1), fence: 6, end, expires_at: at(86_402) };
    let indeterminate =
        State::Indeterminate { by: owner(0xa1), claimed_at: at(3), declared_at: at(9) };
    let succeeded = |content| answered(Conclusion::Succeeded, Some(response(content)));
    vec![
        ("claimed", full(claimed(GrantKind::Claimed))),
        ("claimed-bare", bare(claimed(GrantKind::Claimed))),
        ("claimed-taken-over", taking_over(full(claimed(GrantKind::TakenOver)))),
        ("claimed-reconcile-required", full(claimed(GrantKind::ReconcileRequired))),
        ("released", full(released(AttemptEnd::Released))),
        ("released-failed-retryable", full(released(AttemptEnd::FailedRetryable))),
        ("released-reconciled", full(released(AttemptEnd::Reconciled))),
        ("succeeded", full(succeeded(Content::Plain(Bytes::from_static(b"{\"paid\":true}"))))),
        ("succeeded-zstd", full(succeeded(Content::Zstd(Bytes::from_static(b"\x28\xb5\x2f\xfd"))))),
        ("succeeded-omitted-by-caller", full(succeeded(Content::OmittedByCaller))),
        ("succeeded-omitted-too-large", full(succeeded(Content::OmittedTooLarge))),
        ("failed-final-bare", bare(answered(Conclusion::FailedFinal, None))),
        ("indeterminate", full(indeterminate)),
        ("forgotten", full(State::Forgotten { expires_at: at(86_402) })),
    ]
}

/// A record with everything in it.
fn full(state: State) -> Record {
    let attempt = |fence, who, from, to, end| Attempt {
        fence,
        owner: owner(who),
        claimed_at: at(from),
        ended_at: at(to),
        end,
    };
    let audit = |second, action| Audit {
        at: at(second),
        actor: "zoë@example.com".into(),
        reason: "the provider says so: ticket 4711".into(),
        action,
    };
    Record {
        fingerprints: fingerprints(&[("sha256", 0x11), ("v2:blake3/jcs", 0x22)]),
        on_owner_lost: OnOwnerLost::Block,
        retention: Duration::from_secs(86_400),
        allowed_skew: Duration::from_secs(1),
        first_sent: Some(at(-2)),
        labels: [("customer", "c-7"), ("region", "")]
            .map(|(name, value)| (name.into(), value.into()))
            .into(),
        created_at: at(0),
        touched_at: at(10),
        fence: 1_700_000_000_000_007,
        attempts: 6,
        history: vec![
            attempt(1, 0xb1, 0, 1, AttemptEnd::Released),
            attempt(2, 0xb2, 1, 1, AttemptEnd::FailedRetryable),
            attempt(3, 0xb3, 1, 2, AttemptEnd::Lapsed),
            attempt(4, 0xb4, 2, 2, AttemptEnd::Indeterminate),
            attempt(5, 0xb5, 2, 3, AttemptEnd::Reconciled),
        ],
        checkpoint: Some(Bytes::from_static(b"step 3 \x00\xff")),
        state,
        audit: vec![audit(3, AuditAction::Reconcile), audit(10, AuditAction::Forget)],
    }
}

/// A record with nothing in it that may be absent.
fn bare(state: State) -> Record {
    Record {
        fingerprints: fingerprints(&[("sha256", 0x11)]),
        on_owner_lost: OnOwnerLost::Reconcile,
        first_sent: None,
        labels: BTreeMap::new(),
        attempts: 1,
        history: Vec::new(),
        checkpoint: None,
        audit: Vec::new(),
        ..full(state)
    }
}

fn taking_over(record: Record) -> Record {
    Record { on_owner_lost: OnOwnerLost::TakeOver, ..record }
}

fn answered(conclusion: Conclusion, response: Option<Response>) -> State {
    State::Completed(Answer {
        conclusion,
        response,
        completed_at: at(10),
        fence: 1_700_000_000_000_007,
        owner: owner(0xa1),
        expires_at: at(86_412),
    })
}

fn response(content: Content) -> Response {
    Response {
        status: -201,
        content_type: "application/json".into(),
        metadata: [("location", "/charges/42"), ("location", "/again")]
            .map(|(name, value)| (name.into(), value.into()))
            .into(),
        body: Body { length: 13, sha256: [0x5a; 32], content },
    }
}

fn at(seconds: i64) -> Timestamp {
    let micros = 1_700_000_000_000_000_u64.checked_add_signed(seconds * 1_000_000);
    Timestamp::from_micros(micros.expect("in range"))
}

fn owner(byte: u8) -> OwnerId {
    OwnerId([byte; 16])
}

fn fingerprints(all: &[(&str, u8)]) -> Fingerprints {
    let one = |&(algorithm, byte): &(&str, u8)| {
        Fingerprint::new(algorithm, Bytes::from(vec![byte; 32])).expect("valid")
    };
    Fingerprints::new(all.iter().map(one).collect()).expect("valid")
}

#[test]
fn what_version_1_wrote_is_read_and_written_as_ever() {
    golden::check("keys-v1", BLESS, &records(), encode, decode);
}
