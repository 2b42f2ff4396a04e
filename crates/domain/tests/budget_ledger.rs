//! The arithmetic under the bound, against a model that keeps lists and adds them up anew each time.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that meets what it does not expect should stop"
)]

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use semel_domain::budget::ledger::{SLOT, slot_of, start_of};
use semel_domain::budget::{Amount, Ledger};
use semel_domain::time::{Timestamp, micros};

const START: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);
const SECOND: Duration = Duration::from_secs(1);

/// What may happen to a ledger.
#[derive(Clone, Debug)]
enum Step {
    /// Time passes, in milliseconds.
    Pass(u32),
    /// A clock that is so far behind is shown.
    Behind(u32),
    /// So many slots ago; negative: ahead.
    Deposit(i8, u16),
    /// So many slots ahead, if the deposits pay for it.
    SpendIfPaid(u16, u16),
    /// So many slots ahead, whether or not they do; negative: ago.
    Spend(i16, u16),
    /// An earlier one is taken back.
    Unspend(prop::sample::Index),
    MoveOut(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..1_500_u32).prop_map(Step::Pass),
        1 => any::<u32>().prop_map(Step::Behind),
        4 => (any::<i8>(), any::<u16>()).prop_map(|(ago, milli)| Step::Deposit(ago, milli)),
        4 => (0..30_u16, any::<u16>()).prop_map(|(ahead, milli)| Step::SpendIfPaid(ahead, milli)),
        1 => (-200..900_i16, any::<u16>()).prop_map(|(ahead, milli)| Step::Spend(ahead, milli)),
        1 => any::<prop::sample::Index>().prop_map(Step::Unspend),
        1 => any::<u16>().prop_map(Step::MoveOut),
    ]
}

struct Model {
    now: Timestamp,
    length: u64,
    deposits: Vec<Amount>,
    spent: Vec<Amount>,
}

impl Model {
    fn slot(&self) -> u64 {
        slot_of(self.now)
    }

    /// Good for a window, the slot that it came in included.
    fn deposited(&self) -> u64 {
        let good = |amount: &&Amount| amount.slot + self.length > self.slot();
        self.deposits.iter().filter(good).map(|amount| amount.milli).sum()
    }

    /// Counts for a window, and one slot longer.
    fn spent(&self) -> u64 {
        let counts = |amount: &&Amount| amount.slot + self.length >= self.slot();
        self.spent.iter().filter(counts).map(|amount| amount.milli).sum()
    }

    fn move_out(&mut self, mut milli: u64) -> u64 {
        let length = self.length;
        let slot = self.slot();
        let mut good: Vec<_> =
            self.deposits.iter_mut().filter(|amount| amount.slot + length > slot).collect();
        good.sort_by_key(|amount| std::cmp::Reverse(amount.slot));
        let all = milli;
        for amount in good {
            let part = amount.milli.min(milli);
            amount.milli -= part;
            milli -= part;
        }
        all - milli
    }
}

fn shifted(slot: u64, by: i64) -> u64 {
    slot.checked_add_signed(by).expect("in range")
}

/// Takes one step in both.
fn take(step: &Step, ledger: &mut Ledger, model: &mut Model, window: Duration) {
    let slot = model.slot();
    let horizon = slot + micros(Ledger::HORIZON) / micros(SLOT);
    let mut spend = |ledger: &mut Ledger, number: u64, milli: u64| {
        ledger.spend(Amount { slot: number, milli });
        model.spent.push(Amount { slot: number.min(horizon), milli });
    };
    match *step {
        Step::Pass(ms) => {
            model.now = model.now.after(Duration::from_millis(ms.into()));
            ledger.advance(model.now, window);
        }
        Step::Behind(us) => {
            let before = ledger.clone();
            ledger.advance(model.now.before(Duration::from_micros(us.into())), window);
            assert_eq!(*ledger, before, "time went back");
        }
        Step::Deposit(ago, milli) => {
            let number = shifted(slot, -i64::from(ago));
            ledger.deposit(Amount { slot: number, milli: milli.into() });
            model.deposits.push(Amount { slot: number.min(slot), milli: milli.into() });
        }
        Step::SpendIfPaid(ahead, milli) => {
            let paid = ledger.deposited_milli() >= ledger.spent_milli() + u64::from(milli);
            if paid {
                spend(ledger, slot + u64::from(ahead), milli.into());
                assert!(ledger.spent_milli() <= ledger.deposited_milli(), "more than there is");
            }
        }
        Step::Spend(ahead, milli) => spend(ledger, shifted(slot, ahead.into()), milli.into()),
        Step::Unspend(which) if !model.spent.is_empty() => {
            let amount = model.spent.swap_remove(which.index(model.spent.len()));
            let counts = amount.slot + model.length >= slot && amount.milli > 0;
            assert_eq!(ledger.unspend(amount) && amount.milli > 0, counts, "{amount:?}");
        }
        Step::Unspend(_) => {}
        Step::MoveOut(milli) => {
            let moved = ledger.move_out(milli.into());
            assert!(moved.iter().all(|amount| amount.milli > 0 && amount.slot <= slot));
            let sum: u64 = moved.iter().map(|amount| amount.milli).sum();
            assert_eq!(sum, model.move_out(milli.into()));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn a_ledger_says_at_any_time_what_the_lists_add_up_to(
        steps in vec(step(), 1..120), window_s in 1_u32..5,
    ) {
        let window = window_s * SECOND;
        let mut ledger = Ledger::default();
        ledger.advance(START, window);
        let length = micros(window) / micros(SLOT);
        let mut model = Model { now: START, length, deposits: Vec::new(), spent: Vec::new() };
        for step in &steps {
            take(step, &mut ledger, &mut model, window);
            prop_assert_eq!(ledger.deposited_milli(), model.deposited(), "deposited, after {:?}", step);
            prop_assert_eq!(ledger.spent_milli(), model.spent(), "spent, after {:?}", step);
            prop_assert!(ledger.slots().is_sorted_by(|a, b| a.number < b.number));
            prop_assert!(u64::try_from(ledger.slots().len()).unwrap() <= length + 2 + 600);
            let mut again = Ledger::of_slots(ledger.slots().copied());
            again.advance(model.now, window);
            prop_assert_eq!(again.deposited_milli(), ledger.deposited_milli());
            prop_assert_eq!(again.spent_milli(), ledger.spent_milli());
        }
    }

    /// What a ledger that spends only what it has may spend in *any* stretch of time.
    #[test]
    fn no_stretch_of_time_spends_more_than_was_deposited_in_it_and_a_window_before(
        events in vec((0_u64..800, any::<bool>(), 0_u64..50), 1..150), window_s in 1_u32..4,
    ) {
        let window = window_s * SECOND;
        let (mut ledger, mut now) = (Ledger::default(), START);
        let (mut deposits, mut spent) = (Vec::new(), Vec::new());
        for (pause_ms, deposits_now, milli) in events {
            now = now.after(Duration::from_millis(pause_ms));
            ledger.advance(now, window);
            let amount = Amount { slot: slot_of(now), milli };
            if deposits_now {
                ledger.deposit(amount);
                deposits.push((now, milli));
            } else if ledger.deposited_milli() >= ledger.spent_milli() + milli {
                ledger.spend(amount);
                spent.push((now, milli));
            }
        }
        let within = |list: &[(Timestamp, u64)], from, to| -> u64 {
            list.iter().filter(|(at, _)| (from..=to).contains(at)).map(|(_, milli)| milli).sum()
        };
        for &(from, _) in &spent {
            for &(to, _) in spent.iter().filter(|(to, _)| *to >= from) {
                let paid = within(&deposits, from.before(window), to);
                prop_assert!(within(&spent, from, to) <= paid, "{from:?} to {to:?}");
            }
        }
    }
}

#[test]
fn nothing_overflows_and_what_was_cut_off_is_gone_for_good() {
    let mut ledger = Ledger::default();
    ledger.advance(START, SECOND);
    for ago in 0..5 {
        let amount = Amount { slot: slot_of(START) - ago, milli: u64::MAX };
        ledger.deposit(amount);
        ledger.spend(amount);
        assert_eq!((ledger.deposited_milli(), ledger.spent_milli()), (u64::MAX, u64::MAX));
    }
    let sum = |part: fn(&semel_domain::budget::ledger::Slot) -> u64| {
        ledger.slots().try_fold(0_u64, |sum, slot| sum.checked_add(part(slot)))
    };
    assert_eq!(sum(|slot| slot.deposited_milli), Some(u64::MAX));
    assert_eq!(sum(|slot| slot.spent_milli), Some(u64::MAX));
    ledger.advance(START.after(2 * SECOND), SECOND);
    assert_eq!((ledger.deposited_milli(), ledger.spent_milli()), (0, 0));
    assert!(ledger.is_empty());
}

#[test]
fn the_end_of_time_is_no_end_of_the_program() {
    let end = Timestamp::from_micros(u64::MAX);
    let mut ledger = Ledger::default();
    ledger.advance(end, Duration::MAX);
    let last = Amount { slot: u64::MAX, milli: 7 };
    ledger.deposit(last);
    ledger.spend(last);
    assert_eq!((ledger.deposited_milli(), ledger.spent_milli()), (7, 7));
    assert_eq!(start_of(u64::MAX).as_micros(), u64::MAX);
}

#[test]
fn what_is_spent_counts_from_before_its_deposit_is_gone_until_after() {
    let mut ledger = Ledger::default();
    ledger.advance(START, SECOND);
    let amount = Amount { slot: slot_of(START), milli: 5 };
    ledger.deposit(amount);
    ledger.spend(amount);
    let mut after = |ms| {
        ledger.advance(START.after(Duration::from_millis(ms)), SECOND);
        (ledger.deposited_milli(), ledger.spent_milli(), ledger.first_spent())
    };
    assert_eq!(after(999), (5, 5, Some(amount.slot)));
    assert_eq!(after(1_000), (0, 5, Some(amount.slot)), "never is there more than was deposited");
    assert_eq!(after(1_099), (0, 5, Some(amount.slot)));
    assert_eq!(after(1_100), (0, 0, None));
}

#[test]
fn an_amount_beyond_the_horizon_counts_at_the_horizon_and_can_be_taken_back() {
    let mut ledger = Ledger::default();
    ledger.advance(START, SECOND);
    let counted = ledger.spend(Amount { slot: slot_of(START) + 36_000, milli: 5 });
    assert_eq!(counted, Amount { slot: slot_of(START) + 600, milli: 5 });
    assert!(!ledger.unspend(Amount { milli: 6, ..counted }), "more than there was");
    assert!(ledger.unspend(counted));
    assert!(!ledger.unspend(counted), "only once");
    assert_eq!(ledger.spent_milli(), 0);
}
