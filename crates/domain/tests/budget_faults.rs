//! Faults that other systems of this kind had, each told as the story of what went wrong there.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that meets what it does not expect should stop"
)]

#[path = "support/budget.rs"]
mod support;

use std::time::Duration;

use semel_domain::budget::{
    Amount, Costs, DepositOn, Handing, Incarnation, Policy, Price, Settled, Sync, SyncOutcome,
};
use semel_domain::limits::BUDGET_MEMBERS_MAX;
use semel_domain::time::Timestamp;

use support::*;

/// A node under this policy whose next sync may hand over.
fn known(policy: Policy) -> (Node, Desk) {
    let (mut node, mut desk) = (Node::new(A, policy.clone()), Desk::under(policy));
    node.sync(&mut desk);
    (node, desk)
}

/// All that the store grants to a node that was not there before, in milli-tokens.
fn all_of(desk: &mut Desk, number: u8, now: Timestamp) -> u64 {
    desk.granted(wants(Incarnation([number; 16]), 1, u64::MAX), now)
}

// 1. A ratio of 0.6 and ten requests give ten retries.

#[test]
fn ten_requests_at_a_ratio_of_six_tenths_never_buy_more_than_six_retries() {
    let policy = Policy { ratio_per_mille: 600, ..no_floor() };
    let (mut node, _) = known(policy.clone());
    let mut granted = 0;
    for _ in 0..10 {
        node.deposit(1);
        granted += node.spend_all();
    }
    assert_eq!(granted, 6);

    // Through the store, the same.
    let (mut node, mut desk) = known(policy);
    node.deposit(10);
    node.hear_that_others_want();
    assert_eq!(sum(&node.sync(&mut desk).deposits), 6_000);
    assert_eq!(node.spend_all(), 0);
    assert_eq!(all_of(&mut desk, 7, node.store_now()), 6_000);
}

#[test]
fn a_request_buys_no_whole_retry_at_a_ratio_below_one() {
    let (mut node, _) = known(Policy { ratio_per_mille: 999, ..no_floor() });
    node.deposit(1);
    assert_eq!(node.spend_all(), 0);
}

// 2. Two layers deposit for one request. Reports carry first attempts only, and each counts once.

#[test]
fn what_was_handed_over_counts_once_however_often_it_arrives() {
    let mut desk = Desk::under(no_floor());
    let report = Sync { deposits: vec![Amount { slot: ago(MS), milli: 5_000 }], ..sync(A, 1) };
    for _ in 0..3 {
        desk.sync(report.clone(), NOW);
    }
    desk.sync(Sync { deposits: Vec::new(), ..wants(A, 2, 1) }, NOW);
    for _ in 0..3 {
        assert_eq!(desk.sync(report.clone(), NOW), SyncOutcome::Stale);
    }
    assert_eq!(desk.record(NOW).ledger.deposited_milli(), 5_000);
}

#[test]
fn a_retry_deposits_nothing() {
    let (mut node, _) = known(Policy { ratio_per_mille: 1_000, ..no_floor() });
    node.deposit(3);
    assert_eq!(node.spend_all(), 3, "and not three more for the retries");
    assert_eq!(node.balance(), 0);
}

#[test]
fn a_policy_that_counts_successes_counts_no_failure_and_no_more_than_there_were() {
    let policy = Policy { deposit_on: DepositOn::Success, ..Policy::default() };
    assert_eq!(policy.deposit_milli(100, 3), 300);
    assert_eq!(policy.deposit_milli(3, 100), 300);
    assert_eq!(policy.deposit_milli(100, 0), 0);
    assert_eq!(Policy::default().deposit_milli(u64::MAX, 0), u64::MAX);
}

// 3. Failures that are all in backoff at once pass a budget that is charged later.

#[test]
fn failures_that_are_all_in_backoff_are_charged_before_any_is_sent() {
    let (mut node, mut desk) = known(no_floor());
    node.deposit(100);
    let waiting = Price { delay: 20 * SECOND, ..one() };
    let granted = std::iter::from_fn(|| node.charge(waiting)).count();
    assert_eq!(granted, 10, "at once, though none is sent for 20 s");
    // They count until a window after they are sent: new deposits pay for new ones only.
    node.pass(15 * SECOND);
    node.deposit(100);
    assert_eq!(node.spend_all(), 0);

    // Of a slice, too: the store hears of them before they are sent.
    assert_eq!(desk.granted(wants(B, 1, 1), NOW), 0);
}

#[test]
fn what_is_leased_is_debited_before_it_is_spent() {
    let mut desk = Desk::under(Policy { floor_per_second: 1, ..Policy::default() });
    assert_eq!(all_of(&mut desk, 1, NOW), 10_000);
    let record = desk.record(NOW);
    assert_eq!((record.outstanding_milli(), record.ledger.spent_milli()), (10_000, 0));
    assert_eq!(all_of(&mut desk, 2, NOW), 0, "though the first spent nothing yet");
}

// 4. A drained budget never refills; an idle one overflows; one without traffic freezes.

#[test]
fn a_drained_budget_refills_with_time_alone() {
    let mut desk = Desk::under(Policy::default());
    assert_eq!(all_of(&mut desk, 1, NOW), 100_000);
    assert_eq!(all_of(&mut desk, 2, NOW), 0);
    let again = NOW.after(LEASE).after(WINDOW).after(SECOND);
    assert_eq!(all_of(&mut desk, 3, again), 100_000, "without a single request");
}

#[test]
fn an_idle_budget_does_not_save_up() {
    let mut desk = Desk::under(Policy::default());
    let deposits = vec![Amount { slot: ago(MS), milli: 5_000 }];
    desk.sync(Sync { deposits, ..sync(A, 1) }, NOW);
    let years = NOW.after(Duration::from_secs(10 * 365 * 86_400));
    assert_eq!(all_of(&mut desk, 1, years), 100_000, "one window's floor, and no old deposit");
    let mut endless = Desk::under(Policy::default());
    let end = Timestamp::from_micros(u64::MAX);
    assert_eq!(all_of(&mut endless, 1, end), 100_000, "nor at the end of time");
}

#[test]
fn a_budget_without_traffic_works_on_the_first_call_back() {
    let (mut node, mut desk) = known(Policy::default());
    node.pass(Duration::from_secs(86_400));
    assert_eq!(node.charge(one()), None);
    assert!(node.is_due(), "it asks at once");
    node.sync(&mut desk);
    assert!(node.charge(one()).is_some());
}

#[test]
fn a_budget_that_carries_over_has_no_smaller_floor() {
    let policy = Policy { carry_over: 60 * SECOND, ..Policy::default() };
    // As many a second, whatever is carried over.
    assert_eq!(policy.floor_milli(), 70 * 10_000);
}

// 5. A caller waits for a token while it sends nothing, so that no deposit ever comes.

#[test]
fn who_finds_the_budget_spent_is_told_at_once_and_not_made_to_wait_for_deposits() {
    let (mut node, mut desk) = known(no_floor());
    assert_eq!(node.charge(one()), None);
    node.sync(&mut desk);
    assert!(node.share.is_dry(node.now), "the store said that it has nothing");
    assert_eq!(node.charge(one()), None, "a plain no, at the same instant");
    node.deposit(10);
    assert!(node.charge(one()).is_some(), "and a yes once there is something");
}

// 6. Each refresh refills the bucket; a delta is counted twice; a rolling restart grants anew.

#[test]
fn a_refresh_refills_nothing() {
    let mut desk = Desk::under(Policy { floor_per_second: 1, ..Policy::default() });
    let mut granted = 0;
    for seq in 1..=100 {
        granted += desk.granted(wants(A, seq, 1_000), NOW.after(seq_ms(seq)));
    }
    assert_eq!(granted, 10_000, "one window's floor, in however many pieces");
}

fn seq_ms(seq: u64) -> Duration {
    Duration::from_millis(seq)
}

#[test]
fn an_answer_that_was_lost_is_given_again_and_not_granted_again() {
    let mut desk = Desk::under(Policy::default());
    let first = desk.done(wants(A, 1, 5_000), NOW);
    let again = desk.done(wants(A, 1, 5_000), NOW.after(300 * MS));
    assert_eq!((again.granted, again.repeated), (first.granted, true));
    assert_eq!(desk.record(NOW).outstanding_milli(), 5_000);
}

#[test]
fn what_comes_back_twice_is_credited_once() {
    let mut desk = Desk::under(Policy { floor_per_second: 1, ..Policy::default() });
    desk.done(wants(A, 1, 10_000), NOW);
    let back = vec![Settled { slice: 1, spent: Vec::new(), returned_milli: 10_000 }];
    let back = Sync { settled: back, ..sync(A, 2) };
    for seq in [2, 2, 3] {
        desk.sync(Sync { seq, ..back.clone() }, NOW.after(MS));
    }
    assert_eq!(all_of(&mut desk, 2, NOW.after(MS)), 10_000);
}

#[test]
fn a_rolling_restart_of_the_fleet_grants_nothing_anew() {
    let mut desk = Desk::under(Policy { floor_per_second: 1, ..Policy::default() });
    let mut granted = 0;
    // Fifty starts within five seconds. Each takes what it can get, and is killed.
    for start in 0..50_u8 {
        let now = NOW.after(u32::from(start) * 100 * MS);
        granted += all_of(&mut desk, start, now);
    }
    assert_eq!(granted, 10_000);
}

#[test]
fn a_restart_in_good_order_gives_back_what_was_not_spent_and_only_that() {
    let policy = Policy { floor_per_second: 1, ..Policy::default() };
    let (mut node, mut desk) = known(policy);
    node.share.charge_many(10, &one(), &node.policy, node.now);
    node.sync(&mut desk);
    for _ in 0..4 {
        node.charge(one()).expect("granted");
    }
    let last = node.begin(Handing::All);
    desk.sync(last, node.store_now());
    assert_eq!(all_of(&mut desk, 9, node.store_now()), 6_000);
}

// 7. More members than tokens: every share is below one, and all are denied.

#[test]
fn more_nodes_than_tokens_do_not_split_them_until_none_is_whole() {
    let mut desk = Desk::under(Policy { floor_per_second: 1, ..Policy::default() });
    let ids = |number: u64| Incarnation([u8::try_from(number).expect("few"); 16]);
    for number in 1..=100 {
        desk.sync(wants(ids(number), 1, 0), NOW);
    }
    let granted: Vec<u64> =
        (1..=100).map(|number| desk.granted(wants(ids(number), 2, 1_000), NOW.after(MS))).collect();
    assert_eq!(granted.iter().sum::<u64>(), 10_000, "all of it is in use");
    assert!(granted.iter().all(|milli| milli % 1_000 == 0), "{granted:?}");
}

#[test]
fn tokens_that_cost_more_are_not_split_below_their_price() {
    let costs = Costs { server_error: 4_000, ..Costs::default() };
    let mut desk = Desk::under(Policy { floor_per_second: 1, costs, ..Policy::default() });
    let first = desk.granted(wants(A, 1, u64::MAX), NOW);
    assert_eq!(first, 10_000);
    let back = vec![Settled { slice: 1, spent: Vec::new(), returned_milli: 10_000 }];
    desk.sync(Sync { settled: back, ..wants(A, 2, 0) }, NOW);
    for (number, milli) in [(1, 10_000), (2, 0)] {
        assert_eq!(all_of(&mut desk, number, NOW), milli);
    }
    // Four that want at once, and ten tokens: two get their price, the third what is left.
    let mut desk = Desk::under(Policy { floor_per_second: 1, costs, ..Policy::default() });
    let ask = |number: u8, seq| wants(Incarnation([number; 16]), seq, 5_000);
    let first: Vec<u64> = (1..=4).map(|number| desk.granted(ask(number, 1), NOW)).collect();
    assert_eq!(first, [5_000, 4_000, 1_000, 0]);
}

// 8. A late message with an old timestamp rewinds the refill.

#[test]
fn a_late_message_rewinds_nothing() {
    let mut desk = Desk::under(Policy { floor_per_second: 1, ..Policy::default() });
    let late = wants(A, 1, 10_000);
    assert_eq!(desk.granted(wants(A, 2, 10_000), NOW.after(3 * SECOND)), 10_000);
    let before = desk.clone().record;
    // The clock of whoever brings it is an hour behind.
    let outcome = desk.sync(late, NOW.before(3_600 * SECOND));
    assert_eq!((outcome, &desk.record), (SyncOutcome::Stale, &before));
    assert_eq!(desk.granted(wants(B, 1, 10_000), NOW.before(3_600 * SECOND)), 0);
    let touched_at = desk.record.as_ref().expect("a record").touched_at;
    assert_eq!(touched_at, NOW.after(3 * SECOND), "its time stands");
    // Nor does its time run away: what was granted leaves the window when it should.
    let later = NOW.after(3 * SECOND).after(LEASE).after(WINDOW).after(SECOND);
    assert_eq!(desk.granted(wants(B, 2, 20_000), later), 10_000);
}

#[test]
fn a_clock_that_jumped_ahead_and_back_does_not_freeze_or_refill_a_node() {
    let (mut node, _) = known(no_floor());
    node.deposit(20);
    let now = node.now;
    node.now = now.before(3_600 * SECOND);
    assert_eq!(node.spend_all(), 2, "what is there");
    node.now = now;
    assert_eq!(node.spend_all(), 0, "and not twice");
}

// 12. An overloaded token server makes its clients pass everything.

#[test]
fn a_store_that_does_not_answer_never_means_unlimited() {
    let (mut node, _) = known(Policy::default());
    node.deposit(50);
    let mut granted = 0;
    for _ in 0..200 {
        granted += node.spend_all();
        if node.is_due() {
            node.begin(Handing::Nothing);
            node.share.abandon_sync(node.now);
        }
        node.pass(50 * MS);
    }
    assert_eq!(granted, 5, "what its own callers deposited");
}

#[test]
fn a_budget_with_no_room_for_one_more_node_gives_it_nothing() {
    let mut desk = Desk::under(Policy { floor_per_second: 1_000_000, ..Policy::default() });
    let others = (0..BUDGET_MEMBERS_MAX).map(|number| {
        let mut id = [0xff; 16];
        id[..8].copy_from_slice(&number.to_be_bytes());
        member(Incarnation(id), 1)
    });
    desk.record.as_mut().expect("a record").members = others.collect();
    assert_eq!(desk.granted(wants(A, 1, 1_000), NOW), 0);
    assert_eq!(
        desk.granted(wants(A, 2, 1_000), NOW.after(60 * SECOND)),
        1_000,
        "until others left"
    );
}
