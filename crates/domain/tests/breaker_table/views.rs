//! A breaker at one moment.

use std::time::Duration;

use semel_domain::breaker::Condition::{Closed, HalfOpen, Open};
use semel_domain::breaker::{
    Condition, ForceKind, Policy, Record, ReporterId, isolated_for, snapshot, standing,
};
use semel_domain::time::Timestamp;

use crate::support::*;

/// What is seen: condition, share, generation, what comes next and whether a probe is due.
type Seen = (Condition, u32, u64, Option<Duration>, bool);

#[rustfmt::skip]
#[test]
fn breakers_are_seen_as_they_stand() {
    let g = GENERATION;
    let s = |seconds: u64| Some(Duration::from_secs(seconds));
    let at = |seconds: u32| BEGAN.after(seconds * SECOND);
    let two = Policy { probes_max: 2, ..POLICY };
    let no_ramp = Policy { ramp_step: Duration::ZERO, ..POLICY };
    let soon = permit(1, at(12));
    let rows: Vec<(&str, Option<Record>, Timestamp, Seen)> = vec![
        ("no record",             None, at(10), (Closed, 1_000, 0, None, false)),
        ("closed",                Some(closed()), at(10), (Closed, 1_000, g, None, false)),
        ("ramp, at first",        Some(recovered(0)), at(0), (Closed, 50, g, s(5), false)),
        ("ramp, the first step",  Some(recovered(0)), at(5).before(MICROSECOND), (Closed, 50, g, Some(MICROSECOND), false)),
        ("ramp, the second step", Some(recovered(0)), at(5), (Closed, 250, g, s(5), false)),
        ("ramp, the third step",  Some(recovered(0)), at(10), (Closed, 500, g, s(5), false)),
        ("ramp, over",            Some(recovered(0)), at(15), (Closed, 1_000, g, None, false)),
        ("no ramp",               Some(with_policy(no_ramp, recovered(0))), at(0), (Closed, 1_000, g, None, false)),
        ("open",                  Some(open_until(at(20), 0)), at(10), (Open, 0, g, s(10), false)),
        ("open, cooled down",     Some(open_until(at(10), 0)), at(10), (Open, 0, g, None, true)),
        ("half-open",             Some(half_open(1, vec![])), at(10), (HalfOpen, 0, g, None, true)),
        ("half-open, taken",      Some(half_open(1, vec![soon])), at(10), (HalfOpen, 0, g, s(2), false)),
        ("half-open, run out",    Some(half_open(1, vec![soon])), at(12), (HalfOpen, 0, g, None, true)),
        ("half-open, of two",     Some(with_policy(two, half_open(1, vec![soon]))), at(10), (HalfOpen, 0, g, None, true)),
        ("forced open",           Some(forced(ForceKind::Open, None)), at(10), (Open, 0, g, None, false)),
        ("forced closed",         Some(forced(ForceKind::Closed, Some(at(11)))), at(10), (Closed, 1_000, g, s(1), false)),
        ("metrics only",          Some(forced(ForceKind::MetricsOnly, None)), at(10), (Closed, 1_000, g, None, false)),
        ("was forced open",       Some(forced(ForceKind::Open, Some(at(9)))), at(10), (Closed, 50, g + 1, s(4), false)),
        ("was forced closed",     Some(forced(ForceKind::Closed, Some(at(9)))), at(10), (Closed, 1_000, g + 1, None, false)),
        ("the clock went back",   Some(Record { touched_at: at(5), ..recovered(0) }), at(0), (Closed, 250, g, s(5), false)),
    ];
    for (name, record, now, expected) in rows {
        let seen = snapshot(record.as_ref(), now);
        let found = { let s = seen.standing; (s.condition, s.admitted_per_mille, s.generation, s.look_again, s.probe_due) };
        assert_eq!(found, expected, "{name}");
        assert_eq!(standing(record.as_ref(), now), seen.standing, "{name}");
        assert_eq!(seen.force.is_some(), name.starts_with("forced") || name == "metrics only", "{name}");
        assert_eq!(seen.policy_version, record.map_or(0, |_| 3), "{name}");
    }
}

#[test]
fn counts_and_isolation_are_seen_while_they_last() {
    let mut record = reported(&[(A, counts(1, 2)), (B, counts(3, 0))], closed());
    record.window.reporters[0].isolated_until = Some(NOW.after(20 * SECOND));
    let seen = |record: &Record, now| {
        let seen = snapshot(Some(record), now);
        (seen.counts, seen.reporters)
    };
    let over = NOW.after(10 * SECOND);
    assert_eq!(seen(&record, NOW), (counts(4, 2), 2));
    assert_eq!(seen(&record, over.before(MICROSECOND)), (counts(4, 2), 2));
    assert_eq!(seen(&record, over), (counts(0, 0), 0));
    let held_back = |reporter, now| isolated_for(Some(&record), reporter, now);
    assert_eq!(held_back(A, NOW), Some(20 * SECOND));
    assert_eq!(held_back(A, over), Some(10 * SECOND));
    assert_eq!(held_back(A, NOW.after(20 * SECOND)), None);
    assert_eq!((held_back(B, NOW), held_back(ReporterId([9; 16]), NOW)), (None, None));
    assert_eq!(isolated_for(None, A, NOW), None);
}
