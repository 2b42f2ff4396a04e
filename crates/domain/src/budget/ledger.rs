//! A window of deposits and of what was spent: the arithmetic under every bound.
//!
//! Both sides slide: an amount spent counts against the window for as long as a deposit of the same
//! moment pays for it, and one slot longer. So at the moment of any spending, what was spent within the
//! last window is at most what was deposited within it. Hence also, over any stretch of time W: spent(W)
//! is at most deposited(W + window), since a spending can always be matched with a deposit not older
//! than the window that no other spending was matched with.
//!
//! # Invariants
//!
//! - Time only goes forward: an older `now` changes nothing.
//! - Nothing overflows: all arithmetic saturates, always towards granting less.
//! - The number of slots is bounded by the window and by [`Ledger::HORIZON`].

use std::collections::VecDeque;
use std::time::Duration;

use crate::time::{Timestamp, micros};

/// The width of a slot. A deposit is good for up to this much less than the window, and an amount
/// spent counts for up to this much longer: both rounded towards granting less.
pub const SLOT: Duration = Duration::from_millis(100);

/// One tenth of a second of a budget's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// Which, counted from the epoch.
    pub number: u64,
    /// What was deposited in it, in milli-tokens.
    pub deposited_milli: u64,
    /// What was spent in it, in milli-tokens.
    pub spent_milli: u64,
}

impl Slot {
    const fn is_empty(&self) -> bool {
        self.deposited_milli == 0 && self.spent_milli == 0
    }
}

/// An amount of one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    /// The slot.
    pub slot: u64,
    /// How much, in milli-tokens.
    pub milli: u64,
}

/// Deposits and spendings of one window.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    slots: VecDeque<Slot>,
    now: u64,
    length: u64,
    deposited_milli: u64,
    spent_milli: u64,
}

/// The same, if the same slots count: until when time has passed is not part of it.
impl PartialEq for Ledger {
    fn eq(&self, other: &Self) -> bool {
        self.slots == other.slots
    }
}

impl Eq for Ledger {}

/// The slot that `at` lies in.
#[must_use]
pub fn slot_of(at: Timestamp) -> u64 {
    at.as_micros() / micros(SLOT)
}

/// The first instant of a slot.
#[must_use]
pub fn start_of(slot: u64) -> Timestamp {
    Timestamp::from_micros(slot.saturating_mul(micros(SLOT)))
}

impl Ledger {
    /// How far ahead an amount can be spent: what is spent for later counts as spent then.
    pub const HORIZON: Duration = Duration::from_secs(60);

    /// A ledger of these slots, as [`Ledger::slots`] gave them.
    #[must_use]
    pub fn of_slots(slots: impl IntoIterator<Item = Slot>) -> Self {
        let mut ledger = Self::default();
        for slot in slots {
            *ledger.slot(slot.number) = slot;
        }
        let sum = |part: fn(&Slot) -> u64| {
            ledger.slots.iter().fold(0_u64, |sum, slot| sum.saturating_add(part(slot)))
        };
        (ledger.deposited_milli, ledger.spent_milli) =
            (sum(|slot| slot.deposited_milli), sum(|slot| slot.spent_milli));
        ledger
    }

    /// The slots that count, in order.
    pub fn slots(&self) -> impl ExactSizeIterator<Item = &Slot> {
        self.slots.iter()
    }

    /// What was deposited within the window, in milli-tokens.
    #[must_use]
    pub const fn deposited_milli(&self) -> u64 {
        self.deposited_milli
    }

    /// What was spent within the window, or ahead of it, in milli-tokens.
    #[must_use]
    pub const fn spent_milli(&self) -> u64 {
        self.spent_milli
    }

    /// Whether nothing counts any more.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Lets time pass until `now`: what has left `window` no longer counts.
    pub fn advance(&mut self, now: Timestamp, window: Duration) {
        self.now = self.now.max(slot_of(now));
        self.length = micros(window) / micros(SLOT);
        while let Some(first) = self.slots.front_mut() {
            let age = self.now.saturating_sub(first.number);
            if age < self.length {
                return;
            }
            self.deposited_milli = self.deposited_milli.saturating_sub(first.deposited_milli);
            first.deposited_milli = 0;
            if age == self.length && first.spent_milli > 0 {
                return;
            }
            self.spent_milli = self.spent_milli.saturating_sub(first.spent_milli);
            self.slots.pop_front();
        }
    }

    /// Adds a deposit of `slot`: none, if that has left the window; one of the future counts as of now.
    pub fn deposit(&mut self, amount: Amount) {
        let number = amount.slot.min(self.now);
        let milli = amount.milli.min(u64::MAX - self.deposited_milli);
        if milli > 0 && self.now.saturating_sub(number) < self.length {
            let slot = self.slot(number);
            slot.deposited_milli = slot.deposited_milli.saturating_add(milli);
            self.deposited_milli = self.deposited_milli.saturating_add(milli);
        }
    }

    /// Counts an amount as spent in `slot`, unless that has left the window. What was counted, and where:
    /// what it takes to take it back.
    pub fn spend(&mut self, amount: Amount) -> Amount {
        let horizon = self.now.saturating_add(micros(Self::HORIZON) / micros(SLOT));
        let number = amount.slot.min(horizon);
        let milli = amount.milli.min(u64::MAX - self.spent_milli);
        if milli > 0 && self.now.saturating_sub(number) <= self.length {
            let slot = self.slot(number);
            slot.spent_milli = slot.spent_milli.saturating_add(milli);
            self.spent_milli = self.spent_milli.saturating_add(milli);
        }
        Amount { slot: number, milli }
    }

    /// Takes back that an amount was spent in `slot`. Whether it could be.
    pub fn unspend(&mut self, amount: Amount) -> bool {
        let Ok(at) = self.slots.binary_search_by_key(&amount.slot, |slot| slot.number) else {
            return false;
        };
        let Some(slot) = self.slots.get_mut(at).filter(|slot| slot.spent_milli >= amount.milli)
        else {
            return false;
        };
        slot.spent_milli -= amount.milli;
        self.spent_milli = self.spent_milli.saturating_sub(amount.milli);
        if slot.is_empty() {
            self.slots.remove(at);
        }
        true
    }

    /// Takes up to `milli` of the deposits out, the newest first: they are moved elsewhere.
    pub fn move_out(&mut self, mut milli: u64) -> Vec<Amount> {
        let mut moved = Vec::new();
        for slot in self.slots.iter_mut().rev() {
            let part = slot.deposited_milli.min(milli);
            if part > 0 {
                slot.deposited_milli -= part;
                moved.push(Amount { slot: slot.number, milli: part });
                milli -= part;
                self.deposited_milli = self.deposited_milli.saturating_sub(part);
            }
        }
        self.slots.retain(|slot| !slot.is_empty());
        moved
    }

    /// The first slot whose end of counting gives something back, if anything was spent.
    #[must_use]
    pub fn first_spent(&self) -> Option<u64> {
        self.slots.iter().find(|slot| slot.spent_milli > 0).map(|slot| slot.number)
    }

    fn slot(&mut self, number: u64) -> &mut Slot {
        // Almost always the last one, or a new last one.
        let later = self.slots.iter().rev().take_while(|slot| slot.number >= number).count();
        let at = self.slots.len() - later;
        if self.slots.get(at).is_none_or(|slot| slot.number != number) {
            self.slots.insert(at, Slot { number, ..Slot::default() });
        }
        #[allow(clippy::indexing_slicing, reason = "the lines above put a slot there")]
        &mut self.slots[at]
    }
}
