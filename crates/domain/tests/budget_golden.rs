//! Golden bytes: what a released version wrote is read as what it meant, for ever.
//!
//! `golden/budget-v1` holds one file a record. A file is never changed: a change of the encoding is a
//! new version with a folder of its own, and the old one goes on being read. To add a record, write
//! it into [`records`] and run this test once with `SEMEL_BLESS=1`: it writes the files that are
//! missing, and never one that is there.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that meets what it does not expect should stop"
)]

use std::time::Duration;

use semel_domain::budget::ledger::{SLOT, Slot};
use semel_domain::budget::{
    Backoff, Costs, DepositOn, Enforcement, FailMode, Granted, Incarnation, Ledger, Member, Policy,
    Record, SetPolicy, Slice, decode, encode,
};
use semel_domain::retry::BackoffStrategy;
use semel_domain::time::{Timestamp, micros};

#[path = "support/golden.rs"]
mod golden;

const BLESS: &str = "SEMEL_BLESS=1 cargo test -p semel-domain --test budget_golden";

/// What the files of version 1 say: every choice, every part present and absent.
fn records() -> Vec<(&'static str, Record)> {
    let other = Policy {
        retry_layer: None,
        backoff: Backoff { strategy: BackoffStrategy::FullJitter, ..policy().backoff },
        deposit_on: DepositOn::Request,
        fail_mode: FailMode::LocalBounded,
        enforcement: Enforcement::Enforce,
        ..policy()
    };
    let third = Policy {
        backoff: Backoff { strategy: BackoffStrategy::EqualJitter, ..policy().backoff },
        fail_mode: FailMode::Deny,
        ..policy()
    };
    let fourth = Policy {
        backoff: Backoff { strategy: BackoffStrategy::None, ..policy().backoff },
        ..third.clone()
    };
    let with = |policy| Record { policy: Some(set(policy)), ..Record::default() };
    vec![
        ("empty", Record::default()),
        ("default-policy", with(Policy::default())),
        ("policy-local-bounded", with(other)),
        ("policy-deny", with(third)),
        ("policy-no-backoff", with(fourth)),
        ("slots", Record { ledger: ledger(), touched_at: at(10), ..Record::default() }),
        ("members", Record { members: members(), touched_at: at(10), ..Record::default() }),
        (
            "full",
            Record {
                policy: Some(set(policy())),
                ledger: ledger(),
                members: members(),
                touched_at: at(10),
            },
        ),
    ]
}

/// Each number another one, so that none is taken for its neighbour.
fn policy() -> Policy {
    Policy {
        ratio_per_mille: 101,
        floor_per_second: 11,
        window: Duration::from_secs(12),
        carry_over: Duration::from_millis(1_300),
        costs: Costs {
            not_sent: 1_001,
            throttled: 1_002,
            unknown_outcome: 1_003,
            server_error: 1_004,
            in_progress: 1_005,
        },
        attempts_max: 5,
        retries_per_root: 6,
        retry_layer: Some("gateway".into()),
        backoff: Backoff {
            strategy: BackoffStrategy::DecorrelatedJitter,
            base: Duration::from_millis(51),
            base_throttled: Duration::from_millis(1_001),
            cap: Duration::from_secs(21),
        },
        deposit_on: DepositOn::Success,
        fail_mode: FailMode::Allow,
        reserve_per_mille: 250,
        enforcement: Enforcement::Observe,
        lease: Duration::from_millis(1_500),
    }
}

fn set(policy: Policy) -> SetPolicy {
    SetPolicy { policy, version: 7, actor: "zoë@example.com".into(), set_at: at(-60) }
}

fn ledger() -> Ledger {
    let number = |seconds| at(seconds).as_micros() / micros(SLOT);
    Ledger::of_slots([
        Slot { number: number(0), deposited_milli: 0, spent_milli: 1_000 },
        Slot { number: number(0) + 1, deposited_milli: 12_345, spent_milli: 678 },
        Slot { number: number(9), deposited_milli: 1 << 40, spent_milli: 0 },
    ])
}

fn members() -> Vec<Member> {
    let slice = |seq, left_milli, ends| Slice { seq, left_milli, expires_at: at(ends) };
    let granted = Granted { milli: 5_000, high_only: true, granted_at: at(9), expires_at: at(11) };
    vec![
        Member {
            node: Incarnation([0xa1; 16]),
            seq: 12,
            granted: Some(granted),
            wants: true,
            slices: vec![slice(11, 300, 10), slice(12, 5_000, 11)],
            touched_at: at(9),
        },
        Member {
            node: Incarnation([0xb2; 16]),
            seq: 1,
            granted: Some(Granted { high_only: false, ..granted }),
            wants: false,
            slices: Vec::new(),
            touched_at: at(8),
        },
        Member {
            node: Incarnation([0xc3; 16]),
            seq: u64::MAX,
            granted: None,
            wants: false,
            slices: Vec::new(),
            touched_at: at(7),
        },
    ]
}

fn at(seconds: i64) -> Timestamp {
    let micros = 1_700_000_000_000_000_u64.checked_add_signed(seconds * 1_000_000);
    Timestamp::from_micros(micros.expect("in range"))
}

#[test]
fn what_version_1_wrote_is_read_and_written_as_ever() {
    golden::check("budget-v1", BLESS, &records(), encode, decode);
}
