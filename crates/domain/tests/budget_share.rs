//! What one node does with its part of a budget: when it asks, what it keeps, and what it gives back.

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

use semel_domain::budget::ledger::{SLOT, slot_of, start_of};
use semel_domain::budget::{
    Amount, Charge, Done, Granted, Handing, Policy, Price, Settled, Spent, SyncOutcome,
};
use semel_domain::time::Timestamp;

use support::*;

/// So long before its end, a slice comes back.
const MARGIN: Duration = Duration::from_millis(250);

fn node() -> Node {
    Node::new(A, no_floor())
}

/// A node that the store was heard by, with nothing in its hands.
fn known() -> (Node, Desk) {
    let (mut node, mut desk) = (node(), Desk::under(no_floor()));
    node.sync(&mut desk);
    (node, desk)
}

fn high() -> Price {
    Price { high: true, ..one() }
}

fn nothing(more_at: Option<Timestamp>) -> SyncOutcome {
    SyncOutcome::Done(Done { granted: None, more_at, others_want: false, repeated: false })
}

// When it asks, and for how much.

#[test]
fn a_new_budget_is_asked_for_at_once_and_then_left_in_peace() {
    let mut node = node();
    assert!(node.is_due(), "its policy is not known yet");
    let sync = node.begin(Handing::Surplus);
    assert_eq!((sync.seq, sync.want_milli), (1, 0));
    assert_eq!(node.due_in(), None, "one at a time");
    node.finish(&nothing(None));
    assert_eq!(node.due_in(), Some(2 * SECOND));
}

#[test]
fn what_was_not_met_is_asked_for_in_whole_tokens() {
    let (mut node, _) = known();
    node.pass(SECOND);
    assert_eq!(node.charge(Price { milli: 300, ..one() }), None);
    assert_eq!(node.charge(Price { milli: 1_800, ..one() }), None);
    assert!(node.is_due(), "it can't wait");
    let sync = node.begin(Handing::Surplus);
    assert_eq!((sync.seq, sync.want_milli, sync.high_milli), (2, 3_000, 0));
}

#[test]
fn demand_is_asked_for_before_it_runs_dry() {
    let (mut node, _) = known();
    let give = |node: &mut Node, milli| {
        let at = node.store_now();
        let granted = Granted { granted_at: at, expires_at: at.after(LEASE), ..granted(milli) };
        node.given(granted)
    };
    give(&mut node, 200_000);
    // A hundred a second, for half a second.
    for _ in 0..50 {
        node.pass(10 * MS);
        node.charge(one()).expect("there is enough");
    }
    // The next sync learns the rate. It wants a second's worth, but holds more.
    let sync = node.begin(Handing::Surplus);
    assert_eq!(sync.want_milli, 0);
    node.finish(&nothing(None));
    while node.balance() > 25_000 {
        assert!(!node.is_due(), "there is enough until slices are settled");
        node.pass(MS);
        node.charge(one()).expect("there is enough");
    }
    node.charge(one()).expect("there is enough");
    assert!(node.is_due(), "24 tokens are gone within a quarter of a lease");
    let sync = node.begin(Handing::Surplus);
    assert!(sync.want_milli >= 100_000 - 24_000, "a lease's time of demand, less what is at hand");
}

#[test]
fn demand_that_ended_is_not_asked_for() {
    let (mut node, _) = known();
    for _ in 0..10 {
        node.pass(10 * MS);
        node.charge(one());
    }
    node.begin(Handing::Surplus);
    node.finish(&nothing(None));
    node.pass(LEASE);
    let sync = node.begin(Handing::Surplus);
    assert_eq!(sync.want_milli, 0, "nobody asked for a lease's time");
}

// While the store has nothing.

#[test]
fn a_dry_store_is_not_asked_again_at_once() {
    for (more_in, pause) in
        [(None, SLOT), (Some(MS), SLOT), (Some(300 * MS), 300 * MS), (Some(9 * SECOND), SECOND)]
    {
        let (mut node, _) = known();
        assert_eq!(node.charge(one()), None);
        assert!(node.begin(Handing::Surplus).want_milli > 0);
        let more_at = more_in.map(|more_in| node.store_now().after(more_in));
        node.finish(&nothing(more_at));
        assert!(node.share.is_dry(node.now), "{more_in:?}");
        assert_eq!(node.share.dry_until().since(node.now), pause, "{more_in:?}");
        assert_eq!(node.charge(one()), None);
        assert_eq!(node.due_in(), Some(pause), "{more_in:?}");
        // A sync for another reason does not ask, either.
        assert_eq!(node.begin(Handing::Surplus).want_milli, 0, "{more_in:?}");
        node.finish(&nothing(None));
        node.pass(pause);
        assert!(!node.share.is_dry(node.now), "{more_in:?}");
        assert_eq!(node.charge(one()), None);
        assert!(node.begin(Handing::Surplus).want_milli > 0, "{more_in:?}");
    }
}

#[test]
fn who_was_given_less_than_he_wanted_asks_again_soon() {
    let (mut node, _) = known();
    node.pass(SECOND);
    node.share.charge_many(5, &one(), &node.policy, node.now);
    let sync = node.begin(Handing::Surplus);
    assert_eq!(sync.want_milli, 5_000, "all that was missing");
    let more_at = Some(node.store_now().after(9 * SECOND));
    let done = Done { granted: Some(granted(2_000)), more_at, others_want: false, repeated: false };
    node.finish(&SyncOutcome::Done(done));
    assert_eq!(node.share.dry_until().since(node.now), node.policy.span() / 40);
    assert_eq!(node.spend_all(), 2);
}

#[test]
fn a_store_that_is_dry_for_all_may_have_a_reserve_for_the_high() {
    let (mut node, _) = known();
    assert_eq!(node.charge(one()), None);
    node.begin(Handing::Surplus);
    node.finish(&nothing(None));
    assert!(node.share.is_dry(node.now));
    assert_eq!(node.charge(high()), None);
    assert!(!node.share.is_dry(node.now) && node.is_due());
    let sync = node.begin(Handing::Surplus);
    assert_eq!((sync.want_milli > 0, sync.high_milli), (true, 1_000));
    node.finish(&nothing(None));
    assert_eq!(node.charge(high()), None);
    assert!(node.share.is_dry(node.now), "not even for the high");
}

// What it holds.

#[test]
fn own_deposits_go_first_and_a_price_is_paid_in_one_place() {
    let (mut node, _) = known();
    node.deposit(15);
    node.given(granted(2_500));
    assert_eq!(node.balance(), 4_000);
    assert_eq!(node.charge(one()).expect("granted").slice, None);
    assert_eq!(node.charge(one()).expect("granted").slice, Some(2));
    assert_eq!(node.charge(one()).expect("granted").slice, Some(2));
    assert_eq!(node.charge(one()), None, "half a token here, half a token there");
    assert_eq!(node.balance(), 1_000);
    let half = Price { milli: 500, ..one() };
    assert_eq!(node.charge(half).expect("granted").slice, None);
}

#[test]
fn a_slice_ends_here_before_it_ends_in_the_store() {
    let (mut node, _) = known();
    let asked_at = node.now;
    node.begin(Handing::Surplus);
    // The question took 100 ms to the store, and the answer 200 ms back.
    node.pass(100 * MS);
    let at = node.store_now();
    let done = Done {
        granted: Some(Granted { granted_at: at, expires_at: at.after(LEASE), ..granted(9_000) }),
        more_at: None,
        others_want: false,
        repeated: false,
    };
    node.pass(200 * MS);
    node.share.finish_sync(&SyncOutcome::Done(done), at, node.now);
    let charge = node.charge(one()).expect("granted");
    assert_eq!(node.share.slice_ends(&charge), Some(asked_at.after(LEASE)));
    node.now = asked_at.after(LEASE - MS);
    assert!(node.charge(one()).is_some());
    node.now = asked_at.after(LEASE);
    assert_eq!(node.charge(one()), None);
    assert_eq!(node.balance(), 0);
}

#[test]
fn what_is_left_of_a_slice_comes_back_before_its_end_and_is_spent_no_more() {
    let (mut node, _) = known();
    node.given(granted(9_000));
    node.pass(300 * MS);
    let spent = node.charge(one()).expect("granted");
    assert_eq!(node.due_in(), Some(LEASE - MARGIN - 300 * MS));
    node.pass(LEASE - MARGIN - 300 * MS);
    let sync = node.begin(Handing::Surplus);
    let used = start_of(spent.amount.slot + 1).as_micros();
    let offset_us = i64::try_from(used).unwrap() - i64::try_from(node.now.as_micros()).unwrap();
    let spent = vec![Spent { offset_us, milli: 1_000 }];
    assert_eq!(sync.settled, [Settled { slice: 2, spent, returned_milli: 8_000 }]);
    assert_eq!((node.charge(one()), node.balance()), (None, 0));
}

#[test]
fn what_was_spent_of_a_slice_is_told_once_by_its_slots() {
    let (mut node, _) = known();
    node.given(granted(9_000));
    let later = Price { delay: 500 * MS, ..one() };
    for price in [one(), later, one(), later, later] {
        node.charge(price).expect("granted");
    }
    let told = |sync: &semel_domain::budget::Sync| -> Vec<u64> {
        sync.settled.iter().flat_map(|settled| &settled.spent).map(|spent| spent.milli).collect()
    };
    let sync = node.begin(Handing::Surplus);
    assert_eq!(told(&sync), [2_000, 3_000]);
    assert_eq!(sync.settled[0].returned_milli, 0, "it goes on spending the rest");
    node.finish(&nothing(None));
    assert_eq!(told(&node.begin(Handing::Surplus)), []);
    assert_eq!(node.balance(), 4_000);
}

#[test]
fn the_reserve_is_for_the_high_and_a_recovering_breaker_admits_a_part() {
    let mut node = Node::new(A, Policy { reserve_per_mille: 500, ..no_floor() });
    node.deposit(80);
    assert_eq!(node.spend_all(), 4, "half of eight");
    assert!(node.charge(high()).is_some());
    assert_eq!(node.charge(Price { admitted_per_mille: 500, ..high() }), None, "five of four");
    node.given(Granted { high_only: true, ..granted(5_000) });
    assert_eq!(node.charge(one()), None, "this slice is of the reserve");
    let all: Vec<_> = std::iter::from_fn(|| node.charge(high())).collect();
    assert_eq!(all.len(), 3 + 5);
}

// What it hands over.

#[test]
fn what_nobody_else_wants_stays_where_it_was_deposited() {
    let (mut node, mut desk) = known();
    node.deposit(70);
    for _ in 0..3 {
        node.pass(2 * SECOND);
        assert!(node.is_due(), "it hears how things stand");
        assert_eq!(node.sync(&mut desk).deposits, []);
    }
    assert_eq!(node.spend_all(), 7);
}

#[test]
fn surplus_is_handed_over_when_others_want_it_and_is_no_longer_its_own() {
    let (mut node, mut desk) = known();
    node.deposit(70);
    node.pass(SECOND);
    node.deposit(30);
    node.pass(SECOND);
    node.hear_that_others_want();
    let sync = node.sync(&mut desk);
    // By slots of the store's time, at which both clocks stood together; the newest first.
    let at = |age| slot_of(node.store_now().before(age));
    let expected = [(SECOND, 3_000), (2 * SECOND, 7_000)];
    assert_eq!(sync.deposits, expected.map(|(age, milli)| Amount { slot: at(age), milli }));
    assert_eq!((node.balance(), node.charge(one())), (0, None));
    assert_eq!(desk.record(node.store_now()).ledger.deposited_milli(), 10_000);
    assert_eq!(node.due_in(), Some(Duration::ZERO), "it was asked for what it no longer has");
}

#[test]
fn a_windows_demand_is_kept_back() {
    let (mut node, mut desk) = known();
    node.deposit(1_500);
    for _ in 0..20 {
        node.pass(100 * MS);
        node.charge(one()).expect("there is enough");
    }
    node.hear_that_others_want();
    let sync = node.sync(&mut desk);
    // Ten a second by then, and half as much once the rate is closed again: 50 in a window of ten seconds.
    assert_eq!(sum(&sync.deposits), 150_000 - 20_000 - 50_000);
    assert_eq!(node.spend_all(), 50);
}

#[test]
fn who_never_heard_of_the_stores_time_hands_nothing_over() {
    let mut node = node();
    node.deposit(100);
    node.pass(3 * SECOND);
    for handing in [Handing::Surplus, Handing::All] {
        assert_eq!(node.begin(handing).deposits, []);
        node.share.abandon_sync(node.now);
    }
    assert_eq!(node.spend_all(), 10, "they are still its own");
}

#[test]
fn a_clock_that_is_behind_makes_no_deposit_younger_than_it_is() {
    let (mut node, mut desk) = known();
    desk.sync(wants(B, 1, 1_000_000), node.store_now());
    // The reply to the next sync takes a second: so much the store's clock may be ahead of what is known.
    node.deposit(100);
    let sync = node.begin(Handing::Nothing);
    let (at, outcome) = (node.store_now(), desk.sync(sync, node.store_now()));
    node.pass(SECOND);
    node.share.finish_sync(&outcome, at, node.now);
    let sync = node.begin(Handing::Surplus);
    let deposited_at = slot_of(node.store_now().before(SECOND));
    assert_eq!(sync.deposits, [Amount { slot: deposited_at - 10, milli: 10_000 }]);
}

#[test]
fn a_node_that_closes_gives_everything_back_and_wants_nothing() {
    let (mut node, _) = known();
    node.deposit(80);
    node.given(granted(5_000));
    assert_eq!(node.share.charge_many(10, &one(), &node.policy, node.now).len(), 2);
    node.charge(Price { milli: 9_000, ..one() });
    let sync = node.begin(Handing::All);
    assert_eq!((sync.want_milli, sum(&sync.deposits)), (0, 0));
    assert_eq!(sync.settled[0].returned_milli, 3_000);
    assert_eq!((node.balance(), node.spend_all()), (0, 0));

    let (mut node, _) = known();
    node.deposit(80);
    node.charge(one()).expect("granted");
    assert_eq!(sum(&node.begin(Handing::All).deposits), 7_000);
    assert_eq!((node.balance(), node.spend_all()), (0, 0));
}

#[test]
fn while_the_store_may_be_away_nothing_is_put_on_its_way() {
    let (mut node, _) = known();
    node.deposit(80);
    node.pass(3 * SECOND);
    assert_eq!(node.begin(Handing::Nothing).deposits, []);
    assert_eq!(node.spend_all(), 8);
}

#[test]
fn a_sync_that_was_given_up_is_forfeited_and_the_next_one_waits() {
    let (mut node, _) = known();
    node.given(granted(5_000));
    node.deposit(80);
    node.pass(2 * SECOND);
    node.hear_that_others_want();
    let given_up = node.begin(Handing::Surplus);
    assert_eq!((sum(&given_up.deposits), given_up.seq), (8_000, 4));
    node.share.abandon_sync(node.now);
    assert_eq!(node.balance(), 0, "it may have arrived");
    assert_eq!((node.charge(high()), node.due_in()), (None, Some(SLOT)));
    node.pass(SLOT);
    let next = node.begin(Handing::Surplus);
    assert_eq!((next.seq, next.deposits.len(), next.settled.len()), (5, 0, 0));
    assert!(next.want_milli > 0);
    // Too late: nobody awaits it any more.
    node.share.abandon_sync(node.now);
    node.finish(&SyncOutcome::Done(Done {
        granted: Some(granted(9_000)),
        more_at: None,
        others_want: false,
        repeated: true,
    }));
    assert_eq!(node.balance(), 0);
}

#[test]
fn a_budget_that_nobody_uses_is_left_alone_until_somebody_does() {
    let (mut node, mut desk) = known();
    node.pass(20 * SECOND - MS);
    assert!(node.is_due());
    node.sync(&mut desk);
    node.pass(MS);
    assert_eq!(node.due_in(), None);
    node.pass(60 * SECOND);
    node.share.wake(node.now);
    assert!(node.is_due());
    node.sync(&mut desk);
    node.pass(60 * SECOND);
    node.deposit(1);
    assert!(node.is_due());
}

// Refunds, and many at once.

#[test]
fn what_comes_back_can_be_spent_again_while_it_counts() {
    let (mut node, _) = known();
    node.deposit(10);
    let own = node.charge(one()).expect("granted");
    assert!(node.share.refund(&own));
    assert!(!node.share.refund(&own), "there is nothing more to take back");
    let own = node.charge(Price { delay: 3_600 * SECOND, ..one() }).expect("granted");
    assert!(node.share.refund(&own), "however late it would have been sent");
    assert_eq!(node.spend_all(), 1);

    node.given(granted(1_000));
    let held = node.charge(one()).expect("granted");
    assert!(node.share.refund(&held));
    let held = node.charge(one()).expect("granted");
    node.begin(Handing::Surplus);
    node.finish(&nothing(None));
    assert!(!node.share.refund(&held), "its account is with the store");
    let unknown = Charge { slice: Some(99), ..held };
    assert!(!node.share.refund(&unknown));
    assert_eq!(node.spend_all(), 0);
}

#[test]
fn what_was_spent_outlives_no_window_as_a_refund() {
    let (mut node, _) = known();
    node.deposit(10);
    let own = node.charge(one()).expect("granted");
    node.pass(WINDOW + 2 * SLOT);
    node.deposit(10);
    assert!(!node.share.refund(&own));
    assert_eq!(node.spend_all(), 1);
}

#[test]
fn many_are_paid_from_as_many_places_as_it_takes() {
    let (mut node, _) = known();
    node.deposit(25);
    node.given(granted(3_700));
    node.given(Granted { high_only: true, ..granted(9_000) });
    node.given(granted(1_000));
    let charges = node.share.charge_many(4, &one(), &node.policy, node.now);
    let places: Vec<_> = charges.iter().map(|charge| (charge.slice, charge.amount.milli)).collect();
    assert_eq!(places, [(None, 2_000), (Some(2), 2_000)]);
    let charges = node.share.charge_many(u32::MAX, &one(), &node.policy, node.now);
    let places: Vec<_> = charges.iter().map(|charge| (charge.slice, charge.amount.milli)).collect();
    assert_eq!(places, [(Some(2), 1_000), (Some(4), 1_000)], "but not of the reserve");
    assert_eq!(node.share.charge_many(0, &one(), &node.policy, node.now), []);
    assert_eq!(node.balance(), 500 + 700 + 9_000);
}
