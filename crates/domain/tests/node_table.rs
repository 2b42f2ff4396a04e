//! The rules of nodes: one table a rule, every outcome in its order.

use std::time::Duration;

use semel_domain::Change;
use semel_domain::node::{
    ClockSample, Command, Format, Heartbeat, HeartbeatOutcome, Load, Outcome, Record, decide,
    is_live,
};
use semel_domain::time::Timestamp;

const BEGAN: Timestamp = Timestamp::from_micros(1_000_000_000_000_000);
const NOW: Timestamp = Timestamp::from_micros(1_000_000_100_000_000);
const SECOND: Duration = Duration::from_secs(1);
const MICROSECOND: Duration = Duration::from_micros(1);

fn heartbeat(seq: u64) -> Heartbeat {
    Heartbeat {
        seq,
        up_for: 40 * SECOND,
        interval: 2 * SECOND,
        version: "0.2.0".into(),
        address: "10.0.0.7:7450".into(),
        formats: vec![Format { record: "keys".into(), reads_from: 1, reads_to: 2, writes: 1 }],
        load: Load { connections: 3, calls_under_way: 2, calls_per_second: 1 },
        clock: Some(ClockSample { offset_us: -5, round_trip: SECOND }),
    }
}

/// What the record says after that heartbeat.
fn told(seq: u64, started_at: Timestamp, touched_at: Timestamp) -> Record {
    let Heartbeat { interval, version, address, formats, load, clock, .. } = heartbeat(seq);
    Record { touched_at, started_at, seq, interval, version, address, formats, load, clock }
}

/// The record of a node that started at [`BEGAN`], and last told of itself then.
fn record() -> Record {
    Record {
        touched_at: BEGAN,
        started_at: BEGAN,
        seq: 7,
        interval: SECOND,
        version: "0.1.0".into(),
        address: "10.0.0.6:7450".into(),
        formats: Vec::new(),
        load: Load::default(),
        clock: None,
    }
}

#[test]
fn heartbeats() {
    let beat = |seq| Command::Heartbeat(heartbeat(seq));
    let answered = Outcome::Heartbeat;
    let started = NOW.before(40 * SECOND);
    let cases = [
        ("an older one", Some(record()), 6, NOW, Change::Keep, HeartbeatOutcome::Repeated),
        ("the same again", Some(record()), 7, NOW, Change::Keep, HeartbeatOutcome::Repeated),
        ("the first", None, 1, NOW, Change::Put(told(1, started, NOW)), HeartbeatOutcome::Joined),
        (
            "the first after its record was removed",
            None,
            99,
            NOW,
            Change::Put(told(99, started, NOW)),
            HeartbeatOutcome::Joined,
        ),
        (
            "the next",
            Some(record()),
            8,
            NOW,
            Change::Put(told(8, BEGAN, NOW)),
            HeartbeatOutcome::Noted,
        ),
        (
            "a later one, by a clock that went back",
            Some(record()),
            20,
            BEGAN.before(SECOND),
            Change::Put(told(20, BEGAN, BEGAN)),
            HeartbeatOutcome::Noted,
        ),
    ];
    for (case, before, seq, now, change, outcome) in cases {
        let decided = decide(before.as_ref(), &beat(seq), now);
        assert_eq!(decided, (change.clone(), answered(outcome)), "{case}");
        if let Change::Put(after) = change {
            let again = decide(Some(&after), &beat(seq), now);
            assert_eq!(again, (Change::Keep, answered(HeartbeatOutcome::Repeated)), "{case}");
        }
    }
}

#[test]
fn leaving_and_reading() {
    let left = |left| Outcome::Leave { left };
    assert_eq!(decide(Some(&record()), &Command::Leave, NOW), (Change::Delete, left(true)));
    assert_eq!(decide(None, &Command::Leave, NOW), (Change::Keep, left(false)));
    let read = Outcome::Get(Some(Box::new(record())));
    assert_eq!(decide(Some(&record()), &Command::Get, NOW), (Change::Keep, read));
    assert_eq!(decide(None, &Command::Get, NOW), (Change::Keep, Outcome::Get(None)));
}

#[test]
fn a_node_is_live_for_three_intervals_and_its_record_stays_a_minute_longer() {
    let (silent, gone) = (BEGAN.after(3 * SECOND), BEGAN.after(63 * SECOND));
    let cases = [
        (BEGAN.before(SECOND), true, false),
        (BEGAN, true, false),
        (silent, true, false),
        (silent.after(MICROSECOND), false, false),
        (gone, false, false),
        (gone.after(MICROSECOND), false, true),
    ];
    for (now, live, removed) in cases {
        assert_eq!(is_live(&record(), now), live, "{now:?}");
        let change = if removed { Change::Delete } else { Change::Keep };
        let decided = decide(Some(&record()), &Command::Expire, now);
        assert_eq!(decided, (change, Outcome::Expire { removed }), "{now:?}");
    }
    let nothing = (Change::Keep, Outcome::Expire { removed: false });
    assert_eq!(decide(None, &Command::Expire, NOW), nothing);
}

#[test]
fn a_clock_is_off_only_when_that_is_certain() {
    let at = |ms: u64| BEGAN.after(Duration::from_millis(ms));
    let ms = Duration::from_millis;
    // Sent, answered, how long it took, when the store saw it; the offset, and what it shows.
    let cases = [
        (100, 300, 200, 200, 0, (false, true)),
        (100, 300, 200, 100, 100, (false, true)),
        (1_200, 1_400, 200, 300, 1_000, (false, true)),
        (1_300, 1_500, 200, 300, 1_100, (false, false)),
        (1_302, 1_502, 200, 300, 1_102, (true, false)),
        (100, 300, 200, 1_302, -1_102, (true, false)),
        // A slow answer says little.
        (0, 10_000, 10_000, 10_000, -5_000, (false, false)),
        // The wall clock was set while the question was under way: forwards, and back.
        (100, 60_100, 200, 300, 29_800, (false, false)),
        (60_100, 100, 200, 60_200, -30_100, (false, false)),
    ];
    for (sent, answered, took, seen, offset_ms, (off, right)) in cases {
        let sample = ClockSample::measured(at(sent), at(answered), ms(took), at(seen));
        let case = format!("{sent} to {answered}, seen at {seen}");
        assert_eq!(sample.offset_us, offset_ms * 1_000, "{case}");
        assert_eq!((sample.is_off(SECOND), sample.seems_right(SECOND)), (off, right), "{case}");
    }
}
