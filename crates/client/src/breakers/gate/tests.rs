//! The gate at moments and with words that the tests make up.

use super::*;
use crate::wire::to_wire;
use std::time::Duration;

const ROLL: u64 = 200;

fn told(condition: BreakerCondition, generation: u64) -> BreakerSnapshot {
    let admitted_per_mille = if condition == BreakerCondition::Closed { ALL } else { 0 };
    let condition = condition.into();
    BreakerSnapshot { condition, generation, admitted_per_mille, ..Default::default() }
}

fn told_until(condition: BreakerCondition, generation: u64, ms: u64) -> BreakerSnapshot {
    let look_again = Some(to_wire(Duration::from_millis(ms)));
    BreakerSnapshot { look_again, ..told(condition, generation) }
}

fn record(gate: &mut Gate, outcome: Outcome, times: u32, now_ms: u64) {
    (0..times).for_each(|_| gate.record(outcome, false, now_ms, ROLL));
}

fn refused(gate: &mut Gate, now_ms: u64) -> Option<u64> {
    match gate.admit(now_ms, 0) {
        Admission::Refuse { retry_after_ms } => Some(retry_after_ms),
        _ => None,
    }
}

#[test]
fn without_a_node_it_opens_by_its_own_calls_and_recovers_through_probes_and_a_ramp() {
    let mut gate = Gate::new();
    record(&mut gate, Outcome::Failed, 19, 1_000);
    assert_eq!(gate.is_plain(1_000), Some(0));
    record(&mut gate, Outcome::Failed, 1, 1_000);
    assert_eq!(gate.is_plain(1_000), None);
    assert_eq!(refused(&mut gate, 2_000), Some(29_000));
    for probe in 1..=3_u64 {
        let now_ms = 30_000 + probe * 1_000;
        assert_eq!(gate.admit(now_ms, 0), Admission::Probe(0));
        assert_eq!(refused(&mut gate, now_ms + 1), Some(9_999), "one at a time");
        gate.probed(Some(true), now_ms + 2, ROLL);
    }
    let closed_ms = 33_002;
    assert_eq!(gate.admit(closed_ms, 49), Admission::Pass(0));
    assert_ne!(gate.admit(closed_ms, 50), Admission::Pass(0));
    assert_eq!(gate.is_plain(closed_ms + 14_999), None);
    assert_eq!(gate.is_plain(closed_ms + 15_000), Some(0));
}

#[test]
fn a_failed_probe_keeps_it_open_for_longer_and_a_lost_one_frees_its_place() {
    let mut gate = Gate::new();
    record(&mut gate, Outcome::Failed, 20, 0);
    assert_eq!(gate.admit(30_000, 0), Admission::Probe(0));
    gate.probed(None, 30_100, ROLL);
    assert_eq!(gate.admit(30_100, 0), Admission::Probe(0));
    assert_eq!(gate.admit(40_100, 0), Admission::Probe(0), "one that never ended is given up");
    gate.probed(Some(false), 40_200, ROLL);
    assert_eq!(gate.standing(), Standing::Open { until_ms: 100_200 });
}

#[test]
fn the_fleets_word_stands_above_the_own_calls() {
    let mut gate = Gate::new();
    gate.hear(&told(BreakerCondition::Closed, 3), 0);
    record(&mut gate, Outcome::Failed, 100, 0);
    assert_eq!(gate.admit(1, 999), Admission::Pass(3));
    gate.hear(&told_until(BreakerCondition::Open, 4, 30_000), 10);
    assert_eq!(refused(&mut gate, 10), Some(30_000));
    gate.hear(&told(BreakerCondition::Closed, 3), 20);
    assert!(refused(&mut gate, 20).is_some(), "an older word that comes late changes nothing");
}

#[test]
fn only_one_call_at_a_time_asks_the_node_for_the_permit_to_probe() {
    let mut gate = Gate::new();
    gate.hear(&told_until(BreakerCondition::Open, 1, 5_000), 0);
    assert_eq!(gate.admit(5_000, 0), Admission::Ask);
    assert_eq!(refused(&mut gate, 5_001), Some(9_999));
    gate.ask_again_later(5_010);
    assert_eq!(refused(&mut gate, 5_050), Some(60));
    assert_eq!(gate.admit(5_110, 0), Admission::Ask);
    gate.hear(&BreakerSnapshot { probe_due: true, ..told(BreakerCondition::HalfOpen, 2) }, 5_200);
    assert_eq!(gate.admit(5_200, 0), Admission::Ask, "a new state asks anew");
}

#[test]
fn a_ramp_admits_its_share() {
    let mut gate = Gate::new();
    let told = BreakerSnapshot { admitted_per_mille: 250, ..told(BreakerCondition::Closed, 1) };
    gate.hear(&told, 50_000);
    let admitted = (0..1_000).filter(|roll| gate.admit(50_000, *roll) == Admission::Pass(1));
    assert_eq!(admitted.count(), 250);
    gate.lose(51_000);
    assert_eq!(gate.admit(54_999, 249), Admission::Pass(1), "the ramp goes on where it was");
    assert_ne!(gate.admit(54_999, 250), Admission::Pass(1));
    assert_eq!(gate.is_plain(59_999), None);
    assert_eq!(gate.is_plain(60_000), Some(1));
}

#[test]
fn when_the_nodes_are_lost_an_open_breaker_stays_open_until_its_time() {
    let mut gate = Gate::new();
    gate.hear(&told_until(BreakerCondition::Open, 1, 30_000), 0);
    gate.lose(10_000);
    assert_eq!(refused(&mut gate, 10_000), Some(20_000));
    assert_eq!(gate.admit(30_000, 0), Admission::Probe(1));
}

#[test]
fn one_that_was_forced_open_is_not_probed_while_a_node_says_so() {
    let mut gate = Gate::new();
    gate.hear(&told(BreakerCondition::Open, 1), 0);
    assert_eq!(refused(&mut gate, 1 << 40), Some(1_000));
    gate.lose(5_000);
    assert_eq!(gate.admit(35_000, 0), Admission::Probe(1));
}

#[test]
fn a_process_that_alone_fails_asks_once_a_second_and_holds_back() {
    let mut gate = Gate::new();
    gate.hear(&told(BreakerCondition::Closed, 1), 0);
    record(&mut gate, Outcome::Failed, 20, 100);
    assert!(gate.wants_look(100));
    assert!(!gate.wants_look(200));
    assert!(gate.wants_look(1_100));
    gate.isolate(5_000, 1_200);
    assert_eq!(refused(&mut gate, 1_300), Some(4_900));
    assert_eq!(gate.is_plain(1_300), None);
    assert_eq!(gate.admit(6_200, 0), Admission::Pass(1));
}

#[test]
fn a_young_process_that_loses_its_node_admits_what_the_fleet_did() {
    let mut gate = Gate::new();
    gate.hear(&told(BreakerCondition::Closed, 1), 10);
    gate.lose(20);
    assert_eq!(gate.is_plain(20), Some(1));
}
