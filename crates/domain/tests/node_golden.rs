//! Golden bytes: what a released version wrote is read as what it meant, for ever.
//!
//! `golden/node-v1` holds one file a record. A file is never changed: a change of the encoding is a new
//! version with a folder of its own, and the old one goes on being read. To add a record, write it into
//! [`records`] and run this test once with `SEMEL_BLESS=1`: it writes the files that are missing, and
//! never one that is there.

#![allow(clippy::expect_used, reason = "a file that can't be read should stop the test")]

use std::time::Duration;

use semel_domain::node::{ClockSample, Format, Load, Record, decode, encode};
use semel_domain::time::Timestamp;

#[path = "support/golden.rs"]
mod golden;

const BLESS: &str = "SEMEL_BLESS=1 cargo test -p semel-domain --test node_golden";

/// What the files of version 1 say: every part present and absent.
fn records() -> Vec<(&'static str, Record)> {
    let ahead = ClockSample { offset_us: 1_500_000, round_trip: Duration::from_micros(700) };
    let behind = ClockSample { offset_us: -1, round_trip: Duration::from_secs(2) };
    let format = |record: &str, reads_to, writes| Format {
        record: record.into(),
        reads_from: 1,
        reads_to,
        writes,
    };
    let full = Record {
        touched_at: Timestamp::from_micros(1_700_000_100_000_000),
        started_at: Timestamp::from_micros(1_700_000_000_000_000),
        seq: 50,
        interval: Duration::from_secs(2),
        version: "0.1.0".into(),
        address: "zoë.example.com:7450".into(),
        formats: vec![format("breaker", 2, 1), format("keys", 3, 3)],
        load: Load { connections: 300, calls_under_way: 7, calls_per_second: 70_000 },
        clock: Some(ahead),
    };
    let bare = Record {
        version: "".into(),
        address: "".into(),
        formats: Vec::new(),
        load: Load::default(),
        clock: None,
        ..full.clone()
    };
    vec![("bare", bare), ("behind", Record { clock: Some(behind), ..full.clone() }), ("full", full)]
}

#[test]
fn what_version_1_wrote_is_read_and_written_as_ever() {
    golden::check("node-v1", BLESS, &records(), encode, decode);
}
