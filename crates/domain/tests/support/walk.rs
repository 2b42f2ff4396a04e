//! Random walks of one key: many callers, many nodes, clocks that stall and disagree.
//!
//! True time only goes on, but every decision reads it off another node's clock, which may be off by
//! nearly the allowed skew. What a walk gives is a trace: what was there, what was asked, what was
//! answered, what was left. The properties are told from the trace alone.

use std::time::Duration;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use semel_domain::Change;
use semel_domain::fingerprint::Fingerprints;
use semel_domain::keys::{
    Claim, ClaimOutcome, Command, Complete, Completed, Conclusion, Forget, OnOwnerLost, Outcome,
    OwnerId, Reconcile, Record, Release, Renew, Replay, Resolution, decide,
};
use semel_domain::time::Timestamp;

use crate::support::{
    A, B, BEGAN, C, Desk, LEASE, MICROSECOND, POLICY, RETENTION, SECOND, SKEW, claim,
    failed_for_good, fingerprints, foreign_payload, other_payload, payload, succeeded,
};

/// One decision of a walk.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// What the node's clock said.
    pub(crate) now: Timestamp,
    /// What counts: never earlier than the record's last change.
    pub(crate) at: Timestamp,
    pub(crate) before: Option<Record>,
    pub(crate) command: Command,
    pub(crate) change: Change<Record>,
    pub(crate) outcome: Outcome,
    pub(crate) after: Option<Record>,
}

/// A claim, as its holder knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle {
    pub(crate) owner: OwnerId,
    pub(crate) fence: u64,
}

/// Some time goes by, and something is asked at a node whose clock is off.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    idle: Duration,
    clock_ahead: Duration,
    ask: Ask,
}

#[derive(Clone, Debug)]
enum Ask {
    Claim(Claim),
    Complete(Aim, Completed),
    Renew { aim: Aim, renewal: u64, lease: Duration, checkpoint: Option<Bytes> },
    Release(Aim),
    Replay(Fingerprints),
    Get,
    Reconcile(Aim, Resolution),
    Forget,
    Expire,
}

/// Whose claim a command is about, told only when the walk has come there.
#[derive(Clone, Debug)]
enum Aim {
    /// The newest that was granted.
    Newest,
    /// Any that was granted.
    Granted(Index),
    /// The newest fence, in somebody else's name.
    Stranger(OwnerId),
    /// A fence near the newest, guessed.
    Guess(OwnerId, u64),
}

/// Walks of up to `steps` steps.
pub(crate) fn steps(steps: usize) -> impl Strategy<Value = Vec<Step>> {
    vec(step(), 1..=steps)
}

/// Short lives that end about when their retention does: claimed, completed, swept, claimed again,
/// each at a node whose clock is as far off as it may be.
pub(crate) fn lives() -> impl Strategy<Value = Vec<Step>> {
    let idle_ms = (0..10_u64, 59_500..61_500_u64, 0..300_u64);
    let ends = vec![MICROSECOND, 2 * SKEW - MICROSECOND];
    let asks = [
        Ask::Claim(claim(A)),
        Ask::Complete(Aim::Newest, succeeded("paid")),
        Ask::Expire,
        Ask::Claim(claim(B)),
    ];
    (idle_ms, vec(select(ends), 4)).prop_map(move |((soon, retention, after), clocks)| {
        let idles = [0, soon, retention, after].map(Duration::from_millis);
        let steps = idles.into_iter().zip(clocks).zip(asks.clone());
        steps.map(|((idle, clock_ahead), ask)| Step { idle, clock_ahead, ask }).collect()
    })
}

/// Walks from no record at all. Every claim is of an intent made at `first_sent`, if that is told.
pub(crate) fn walk(steps: &[Step], first_sent: Option<Timestamp>) -> Vec<Event> {
    let (mut desk, mut time, mut granted) = (Desk::default(), BEGAN, Vec::new());
    let mut trace = Vec::with_capacity(steps.len());
    for step in steps {
        time = time.after(step.idle);
        let now = time.before(SKEW).after(step.clock_ahead);
        let command = step.ask.command(&granted, first_sent);
        let before = desk.record.clone();
        let at = before.as_ref().map_or(now, |record| now.max(record.touched_at));
        let (change, outcome) = decide(before.as_ref(), &command, now);
        desk.apply(change.clone());
        if let (Command::Claim(claim), Outcome::Claim(ClaimOutcome::Granted(grant))) =
            (&command, &outcome)
        {
            granted.push(Handle { owner: claim.owner, fence: grant.fence });
        }
        trace.push(Event { now, at, before, command, change, outcome, after: desk.record.clone() });
    }
    trace
}

impl Ask {
    fn command(&self, granted: &[Handle], first_sent: Option<Timestamp>) -> Command {
        match self.clone() {
            Self::Claim(claim) => Command::Claim(Claim { first_sent, ..claim }),
            Self::Complete(aim, completed) => {
                let Handle { owner, fence } = aim.at(granted);
                Command::Complete(Complete { fence, owner, completed })
            }
            Self::Renew { aim, renewal, lease, checkpoint } => {
                let Handle { owner, fence } = aim.at(granted);
                Command::Renew(Renew { fence, owner, renewal, lease, checkpoint })
            }
            Self::Release(aim) => {
                let Handle { owner, fence } = aim.at(granted);
                Command::Release(Release { fence, owner })
            }
            Self::Replay(fingerprints) => Command::Replay(Replay { fingerprints }),
            Self::Get => Command::Get,
            Self::Reconcile(aim, resolution) => Command::Reconcile(Reconcile {
                fence: aim.at(granted).fence,
                resolution,
                actor: "ops".into(),
                reason: "looked".into(),
            }),
            Self::Forget => {
                Command::Forget(Forget { actor: "ops".into(), reason: "asked to".into() })
            }
            Self::Expire => Command::Expire,
        }
    }
}

impl Aim {
    fn at(&self, granted: &[Handle]) -> Handle {
        let Some(&newest) = granted.last() else { return Handle { owner: A, fence: 0 } };
        match self {
            Self::Newest => newest,
            Self::Granted(which) => *which.get(granted),
            Self::Stranger(owner) => Handle { owner: *owner, ..newest },
            Self::Guess(owner, past) => {
                Handle { owner: *owner, fence: newest.fence.saturating_sub(2) + past }
            }
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    (idle(), clock_ahead(), ask()).prop_map(|(idle, clock_ahead, ask)| Step {
        idle,
        clock_ahead,
        ask,
    })
}

/// How far a node's clock is ahead of the slowest that is still believed.
fn clock_ahead() -> impl Strategy<Value = Duration> {
    let skew = 2 * u64::try_from(SKEW.as_micros()).unwrap_or_default();
    // The ends of the range matter most, and the middle is a clock that is right.
    prop_oneof![Just(1), Just(skew / 2), Just(skew - 1), 1..skew].prop_map(Duration::from_micros)
}

fn idle() -> impl Strategy<Value = Duration> {
    prop_oneof![
        3 => Just(Duration::ZERO),
        2 => Just(MICROSECOND),
        3 => (1..1_000_u64).prop_map(Duration::from_millis),
        3 => (1..12_u32).prop_map(|seconds| seconds * SECOND),
        1 => Just(LEASE),
        1 => (0..5_000_u64).prop_map(|ms| RETENTION + Duration::from_millis(ms)),
        1 => Just(10 * RETENTION),
    ]
}

fn ask() -> impl Strategy<Value = Ask> {
    prop_oneof![
        8 => claims().prop_map(Ask::Claim),
        5 => (aim(), completed()).prop_map(|(aim, completed)| Ask::Complete(aim, completed)),
        2 => (aim(), 1..6_u64, lease(), checkpoint()).prop_map(
            |(aim, renewal, lease, checkpoint)| Ask::Renew { aim, renewal, lease, checkpoint }
        ),
        2 => aim().prop_map(Ask::Release),
        2 => payloads().prop_map(Ask::Replay),
        1 => Just(Ask::Get),
        2 => (aim(), resolution()).prop_map(|(aim, resolution)| Ask::Reconcile(aim, resolution)),
        1 => Just(Ask::Forget),
        2 => Just(Ask::Expire),
    ]
}

fn claims() -> impl Strategy<Value = Claim> {
    let policy = select(vec![OnOwnerLost::TakeOver, OnOwnerLost::Reconcile, OnOwnerLost::Block]);
    let retention = prop_oneof![
        4 => Just(None),
        1 => Just(Some(SECOND)),
        1 => Just(Some(3 * RETENTION)),
    ];
    (owner(), payloads(), lease(), retention, policy, prop::bool::weighted(0.8)).prop_map(
        |(owner, fingerprints, lease, retention, on_owner_lost, may_acquire)| Claim {
            fingerprints,
            lease,
            retention,
            policy: POLICY,
            on_owner_lost,
            may_acquire,
            ..claim(owner)
        },
    )
}

fn owner() -> impl Strategy<Value = OwnerId> {
    select(vec![A, B, C])
}

fn payloads() -> impl Strategy<Value = Fingerprints> {
    prop_oneof![
        12 => Just(payload()),
        1 => Just(other_payload()),
        1 => Just(foreign_payload()),
        1 => Just(fingerprints(&[("blake3", 1), ("crc64", 1)])),
    ]
}

fn lease() -> impl Strategy<Value = Duration> {
    select(vec![Duration::from_millis(100), SECOND, 5 * SECOND, LEASE])
}

fn checkpoint() -> impl Strategy<Value = Option<Bytes>> {
    option::of(select(vec![Bytes::from_static(b"one"), Bytes::from_static(b"two"), Bytes::new()]))
}

fn aim() -> impl Strategy<Value = Aim> {
    prop_oneof![
        8 => Just(Aim::Newest),
        2 => any::<Index>().prop_map(Aim::Granted),
        1 => owner().prop_map(Aim::Stranger),
        1 => (owner(), 0..6_u64).prop_map(|(owner, past)| Aim::Guess(owner, past)),
    ]
}

fn completed() -> impl Strategy<Value = Completed> {
    let bare = || Completed::Concluded { conclusion: Conclusion::Succeeded, response: None };
    prop_oneof![
        2 => Just(succeeded("paid")),
        1 => Just(succeeded("paid twice")),
        1 => Just(failed_for_good("no funds")),
        1 => Just(bare()),
        2 => Just(Completed::FailedRetryable),
        2 => Just(Completed::Indeterminate),
    ]
}

fn resolution() -> impl Strategy<Value = Resolution> {
    completed().prop_map(|completed| match completed {
        Completed::Concluded { conclusion, response } => {
            Resolution::Concluded { conclusion, response }
        }
        _ => Resolution::NotDone,
    })
}
