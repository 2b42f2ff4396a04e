//! Golden bytes: what a released version wrote is read as what it meant, for ever.
//!
//! `golden/breaker-v1` holds one file a record. A file is never changed: a change of the encoding is a
//! new version with a folder of its own, and the old one goes on being read. To add a record, write
//! it into [`records`] and run this test once with `SEMEL_BLESS=1`: it writes the files that are
//! missing, and never one that is there.

#![allow(clippy::expect_used, reason = "a file that can't be read should stop the test")]

use std::time::Duration;

use semel_domain::breaker::{
    Counts, Force, ForceKind, NodeSeen, Permit, Policy, PolicySet, Record, ReporterId, Ring, Slot,
    State, Tracked, Window, decode, encode,
};
use semel_domain::time::Timestamp;

#[path = "support/golden.rs"]
mod golden;

const BLESS: &str = "SEMEL_BLESS=1 cargo test -p semel-domain --test breaker_golden";

/// What the files of version 1 say: every state, every choice, every part present and absent.
fn records() -> Vec<(&'static str, Record)> {
    let closed = |recovered| State::Closed { since: at(3), recovered };
    let forced =
        |kind, expires_at| Record { force: Some(force(kind, expires_at)), ..bare(closed(None)) };
    vec![
        ("closed-bare", bare(closed(None))),
        ("closed", full(closed(None))),
        ("closed-recovered", full(closed(Some(3)))),
        ("open", full(State::Open { since: at(3), until: at(33), level: 2 })),
        ("half-open", full(half_open(vec![permit(0xf1), permit(0xf2)]))),
        ("half-open-bare", bare(half_open(Vec::new()))),
        ("forced-open", forced(ForceKind::Open, None)),
        ("forced-closed", forced(ForceKind::Closed, Some(at(3_600)))),
        ("metrics-only", forced(ForceKind::MetricsOnly, Some(at(60)))),
    ]
}

/// A record with everything in it.
fn full(state: State) -> Record {
    let policy = Policy {
        failure_per_mille: 400,
        window: Duration::from_secs(60),
        calls_min: 50,
        cool_down: Duration::from_millis(1_500),
        cool_down_max: Duration::from_secs(90),
        probes_max: 2,
        successes_to_close: 4,
        probe_lease: Duration::from_secs(7),
        ramp_step: Duration::from_secs(8),
        slow_call: Some(Duration::from_millis(250)),
        slow_per_mille: 900,
    };
    let actor = "zoë@example.com".into();
    Record {
        touched_at: at(10),
        policy: Some(PolicySet { policy, version: 5, actor, set_at: at(1) }),
        generation: 0x0102_0304,
        state,
        window: Window {
            totals: Ring(vec![slot(0, 1), slot(6, 300), slot(10, 70_000)]),
            reporters: vec![tracked(0xa1, None), tracked(0xa2, Some(at(40)))],
        },
        force: Some(force(ForceKind::MetricsOnly, Some(at(60)))),
        forces: vec![[0xe1; 16], [0xe2; 16]],
        nodes: vec![seen(0xd1, 12), seen(0xd2, 1_000_000)],
    }
}

/// A record with nothing in it that may be absent.
fn bare(state: State) -> Record {
    Record { touched_at: at(10), generation: 1, state, ..Record::fresh(at(10)) }
}

fn half_open(permits: Vec<Permit>) -> State {
    State::HalfOpen { since: at(3), level: 1, successes: 2, permits }
}

fn permit(byte: u8) -> Permit {
    Permit { id: [byte; 16], probe_id: [byte.wrapping_add(8); 16], expires_at: at(13) }
}

fn force(kind: ForceKind, expires_at: Option<Timestamp>) -> Force {
    let (actor, reason) = ("zoë@example.com".into(), "provider is down: ticket 4711".into());
    Force { kind, actor, reason, since: at(2), expires_at }
}

fn slot(second: i64, succeeded: u64) -> Slot {
    let counts = Counts { succeeded, failed: 7, slow: 128, ignored: 0 };
    Slot { starts_at: at(second), counts }
}

fn tracked(byte: u8, isolated_until: Option<Timestamp>) -> Tracked {
    Tracked { reporter: ReporterId([byte; 16]), ring: Ring(vec![slot(6, 5)]), isolated_until }
}

fn seen(byte: u8, seq: u64) -> NodeSeen {
    NodeSeen { node: [byte; 16], seq, at: at(9) }
}

fn at(seconds: i64) -> Timestamp {
    let micros = 1_700_000_000_000_000_u64.checked_add_signed(seconds * 1_000_000);
    Timestamp::from_micros(micros.expect("in range"))
}

#[test]
fn what_version_1_wrote_is_read_and_written_as_ever() {
    golden::check("breaker-v1", BLESS, &records(), encode, decode);
}
