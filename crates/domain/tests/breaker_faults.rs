//! Faults that other breakers had, each told as the story of what went wrong there.

#![allow(clippy::panic, reason = "a story that takes another turn should stop")]

#[path = "breaker_support/mod.rs"]
mod support;

use std::time::Duration;

use semel_domain::breaker::{
    AbsorbOutcome, AdvanceOutcome, Command, Condition, Counts, Grant, Outcome, ProbeOutcome,
    ProbeResult, SettleOutcome, isolated_for, snapshot,
};
use semel_domain::time::Timestamp;

use support::*;

impl Desk {
    fn granted(&mut self, byte: u8, now: Timestamp) -> Grant {
        match self.ask(&probe_of(byte), now) {
            Outcome::Probe(ProbeOutcome::Granted(grant)) => grant,
            other => panic!("not granted: {other:?}"),
        }
    }

    fn settled(&mut self, byte: u8, result: ProbeResult, now: Timestamp) -> SettleOutcome {
        match self.ask(&settle(byte, result), now) {
            Outcome::Settle(outcome) => outcome,
            other => panic!("a settlement is answered as one: {other:?}"),
        }
    }

    fn condition(&self, now: Timestamp) -> Condition {
        snapshot(self.0.as_ref(), now).standing.condition
    }
}

// 8. Time is monotone.

#[test]
fn a_late_message_with_an_old_timestamp_can_not_rewind_a_cool_down() {
    let mut desk = Desk(Some(reported(&[(A, counts(0, 20))], closed())));
    assert_eq!(desk.ask(&advance(), NOW), Outcome::Advance(AdvanceOutcome::Opened));
    let opened = desk.clone();
    // A node whose clock is an hour behind brings counts and asks: the rest of the cool-down stays.
    let behind = NOW.before(Duration::from_secs(3_600));
    desk.ask(&absorb(9, GENERATION + 1, &[(A, counts(1, 0))]), behind);
    let left = Outcome::Probe(ProbeOutcome::CoolingDown(10 * SECOND));
    assert_eq!(desk.ask(&probe(), behind), left);
    assert_eq!(snapshot(desk.0.as_ref(), behind).standing.look_again, Some(10 * SECOND));
    assert_eq!(
        desk.0.map(|record| (record.state, record.touched_at)),
        opened.0.map(|record| (record.state, record.touched_at)),
    );
}

#[test]
fn a_late_message_with_an_old_timestamp_can_not_bring_old_outcomes_back() {
    let mut desk = Desk(Some(reported(&[(A, counts(0, 19))], closed())));
    let later = NOW.after(60 * SECOND);
    desk.ask(&absorb(5, GENERATION, &[(A, counts(1, 0))]), later);
    desk.ask(&absorb(6, GENERATION, &[(A, counts(0, 1))]), NOW);
    assert_eq!(snapshot(desk.0.as_ref(), NOW).counts, counts(1, 1));
    assert_eq!(desk.ask(&advance(), NOW), Outcome::Advance(AdvanceOutcome::NothingDue));
}

// 9. A permit per call, leased.

#[test]
fn eight_threads_of_one_process_can_not_send_eight_probes() {
    let mut desk = Desk(Some(open_until(NOW, 0)));
    let granted = desk.granted(1, NOW);
    for thread in 2..9 {
        let taken = Outcome::Probe(ProbeOutcome::Taken(granted.expires_in));
        assert_eq!(desk.ask(&probe_of(thread), NOW), taken);
    }
}

#[test]
fn a_probe_that_never_settles_can_not_block_for_days() {
    let mut desk = Desk(Some(open_until(NOW, 0)));
    let lost = desk.granted(1, NOW);
    let end = NOW.after(lost.expires_in);
    assert!(!snapshot(desk.0.as_ref(), end.before(MICROSECOND)).standing.probe_due);
    assert!(snapshot(desk.0.as_ref(), end).standing.probe_due);
    let next = desk.granted(2, end);
    assert_eq!(next.generation, lost.generation, "inconclusive: it still is half-open");
    // The lost one comes back after all, and says nothing any more.
    assert_eq!(desk.settled(1, ProbeResult::Failed, end), SettleOutcome::Unknown);
    assert_eq!(desk.settled(2, ProbeResult::Succeeded, end), SettleOutcome::Counted);
}

#[test]
fn a_probe_whose_reply_was_lost_can_not_cost_a_slot() {
    let mut desk = Desk(Some(open_until(NOW, 0)));
    let first = desk.granted(1, NOW);
    let later = NOW.after(SECOND);
    let again = Grant { expires_in: first.expires_in - SECOND, ..first };
    let repeated = Outcome::Probe(ProbeOutcome::Repeated(again));
    assert_eq!(desk.ask(&probe_of(1), later), repeated);
}

#[test]
fn a_rejection_of_the_probe_can_not_count_as_a_failure() {
    // Whoever was turned away with a 4xx was answered: its caller reports SUCCEEDED.
    let mut desk = Desk(Some(open_until(NOW, 0)));
    for byte in 1..4 {
        desk.granted(byte, NOW);
        desk.settled(byte, ProbeResult::Succeeded, NOW);
    }
    assert_eq!(desk.condition(NOW), Condition::Closed);
}

// 10. Generations; joining changes nothing.

#[test]
fn a_result_of_an_earlier_half_open_period_can_not_close_the_breaker() {
    let mut desk = Desk(Some(open_until(NOW, 0)));
    let two_to_go = |desk: &mut Desk, from: u8, now| {
        for byte in [from, from + 1] {
            desk.granted(byte, now);
            assert_eq!(desk.settled(byte, ProbeResult::Succeeded, now), SettleOutcome::Counted);
        }
    };
    two_to_go(&mut desk, 1, NOW);
    desk.granted(3, NOW);
    assert_eq!(desk.settled(3, ProbeResult::Failed, NOW), SettleOutcome::Reopened);
    let second = NOW.after(60 * SECOND);
    two_to_go(&mut desk, 4, second);
    let half_open = desk.clone();
    // Two more successes would close it; these are all of the first period, or were counted.
    for late in 1..6 {
        assert_eq!(desk.settled(late, ProbeResult::Succeeded, second), SettleOutcome::Unknown);
    }
    assert_eq!(desk, half_open);
}

#[test]
fn outcomes_of_calls_made_before_it_opened_can_not_open_it_again() {
    let mut desk = Desk(Some(half_open(2, vec![permit(1, NOW.after(SECOND))])));
    assert_eq!(desk.settled(1, ProbeResult::Succeeded, NOW), SettleOutcome::Closed);
    let closed = desk.clone();
    for generation in 0..=GENERATION {
        let late = absorb(9, generation, &[(A, counts(0, 500)), (B, counts(0, 500))]);
        let stale = Outcome::Absorb { absorbed: AbsorbOutcome::Stale, due: false };
        assert_eq!(desk.ask(&late, NOW), stale);
    }
    assert_eq!(desk.ask(&advance(), NOW), Outcome::Advance(AdvanceOutcome::NothingDue));
    assert_eq!(desk, closed);
}

#[test]
fn a_new_node_or_worker_can_not_reset_shared_state() {
    for record in
        [open_until(NOW.after(SECOND), 1), half_open(1, vec![permit(1, NOW.after(SECOND))])]
    {
        let mut desk = Desk(Some(record.clone()));
        // It looks, it wants to tidy up, and it brings what it believes of a breaker that it never saw.
        for command in [Command::Get, Command::Expire, advance()] {
            desk.ask(&command, NOW);
        }
        desk.ask(&absorb_from([99; 16], 1, 0, &[(C, counts(1_000, 0))]), NOW);
        assert_eq!(desk.0, Some(record));
    }
}

// 11. Ignored.

#[test]
fn callers_own_mistakes_and_cancellations_can_not_open_the_breaker() {
    let mut desk = Desk(Some(closed()));
    let ignored = Counts { succeeded: 1, ignored: 1_000_000, ..Counts::default() };
    for seq in 5..50 {
        let absorbed = AbsorbOutcome::Absorbed { stale_calls: 0 };
        let outcome = desk.ask(&absorb(seq, GENERATION, &[(A, ignored), (B, ignored)]), NOW);
        assert_eq!(outcome, Outcome::Absorb { absorbed, due: false });
    }
    assert_eq!(desk.ask(&advance(), NOW), Outcome::Advance(AdvanceOutcome::NothingDue));
    assert_eq!(desk.condition(NOW), Condition::Closed);
}

// What this design adds.

#[test]
fn one_sick_caller_can_not_open_the_breaker_of_the_fleet() {
    let mut desk = Desk(Some(closed()));
    let all = [(A, counts(0, 1_000)), (B, counts(40, 0)), (C, counts(40, 1))];
    desk.ask(&absorb(5, GENERATION, &all), NOW);
    assert_eq!(desk.ask(&advance(), NOW), Outcome::Advance(AdvanceOutcome::Isolated(A)));
    assert_eq!(desk.condition(NOW), Condition::Closed);
    let held_back = |reporter| isolated_for(desk.0.as_ref(), reporter, NOW);
    assert_eq!((held_back(A), held_back(B)), (Some(10 * SECOND), None));
}

#[test]
fn a_breaker_that_flaps_can_not_hammer_what_it_protects() {
    let (mut desk, mut now, mut waits) = (Desk(Some(closed())), NOW, Vec::new());
    for round in 0..5_u8 {
        let generation = desk.0.as_ref().map_or(0, |record| record.generation);
        let seq = u64::from(round) + 5;
        desk.ask(&absorb(seq, generation, &[(A, counts(0, 20)), (B, counts(0, 20))]), now);
        assert_eq!(desk.ask(&advance(), now), Outcome::Advance(AdvanceOutcome::Opened));
        let wait = snapshot(desk.0.as_ref(), now).standing.look_again.unwrap_or_default();
        waits.push(wait.as_secs());
        now = now.after(wait);
        for probe in 0..3 {
            let byte = round * 3 + probe;
            desk.granted(byte, now);
            desk.settled(byte, ProbeResult::Succeeded, now);
        }
        // Closed, and at once it fails again.
        assert_eq!(snapshot(desk.0.as_ref(), now).standing.admitted_per_mille, 50);
    }
    assert_eq!(waits, [10, 20, 40, 60, 60]);
}
