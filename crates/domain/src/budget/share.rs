//! What one node holds of a budget, and how it spends it: its callers' deposits first, then slices that
//! the store debited for it.
//!
//! A plain value without I/O: the node passes the time, carries each [`Sync`] to the store, and brings the
//! outcome back. All instants here are of the node's monotonic clock but where the store's is named.
//!
//! # Invariants
//!
//! - What a sync hands over or gives back is out of this node's hands from the moment it is composed,
//!   whether or not it arrives.
//! - One sync is under way at a time. It is sent again, unchanged, until its outcome is known, or given up:
//!   then what it carried is forfeited.
//! - A slice is counted from before it was asked for, so that it ends here before it ends in the store.

use std::time::Duration;

use super::command::{Settled, Spent, Sync};
use super::demand::Demand;
use super::ledger::{Amount, Ledger, SLOT, slot_of, start_of};
use super::outcome::SyncOutcome;
use super::payment::{Charge, Deposit, Price};
use super::policy::{Policy, TOKEN_MILLI};
use super::record::{Incarnation, part};
use crate::time::Timestamp;

/// How often a budget in use hears how things stand: of a new policy, and whether others want what this
/// node can spare.
const REFRESH_INTERVAL: Duration = Duration::from_secs(2);
/// When one in use asks again after a sync was given up: it should notice soon that the store is back.
const ABANDONED_PAUSE: Duration = Duration::from_millis(250);
/// A budget that nobody used for so long no longer syncs.
const IDLE_AFTER: Duration = Duration::from_secs(20);
/// The least pause between two requests while the store has nothing to give.
const DRY_PAUSE: Duration = SLOT;
/// After a part of what was wanted, so many such pauses fit a window: each costs the store a write, and holds
/// what becomes free up for half of it.
const DRY_PAUSES: u32 = 40;
/// The longest such pause.
const DRY_PAUSE_MAX: Duration = Duration::from_secs(1);

/// One node's part of a budget.
#[derive(Clone, Debug)]
pub struct Share {
    node: Incarnation,
    ledger: Ledger,
    slices: Vec<Held>,
    next_seq: u64,
    under_way: Option<UnderWay>,
    /// The store's time when this node's clock stood at zero, in microseconds: the earliest that it can
    /// have been, so that no deposit is taken for younger than it is.
    store_epoch: Option<u64>,
    demand: Demand,
    dry_until: Timestamp,
    /// The store had nothing even for calls of high criticality.
    dry_for_high: bool,
    /// Others want what this node can spare.
    others_want: bool,
    synced_at: Timestamp,
    used_at: Timestamp,
}

/// What a sync hands over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handing {
    /// What is not likely to be needed here.
    Surplus,
    /// Nothing: the store may be away, and what is on its way to it helps nobody.
    Nothing,
    /// Everything, and slices as well: the node closes.
    All,
}

/// A slice in this node's hands.
#[derive(Clone, Debug)]
struct Held {
    seq: u64,
    left_milli: u64,
    high_only: bool,
    /// When what is left of it goes back: after three quarters of the time that it had when it came.
    return_at: Timestamp,
    expires_at: Timestamp,
    /// What was spent and not yet told, by slots of the node's clock.
    spent: Vec<Amount>,
}

#[derive(Clone, Copy, Debug)]
struct UnderWay {
    seq: u64,
    sent_at: Timestamp,
    wanted_milli: u64,
    high: bool,
    /// How long to wait before asking again, if it brings less.
    pause: Duration,
}

impl Share {
    /// A node's share at `now`: nothing yet.
    #[must_use]
    pub fn new(node: Incarnation, now: Timestamp) -> Self {
        Self {
            node,
            ledger: Ledger::default(),
            slices: Vec::new(),
            next_seq: 1,
            under_way: None,
            store_epoch: None,
            demand: Demand { since: now, ..Demand::default() },
            dry_until: now,
            dry_for_high: false,
            others_want: false,
            synced_at: now,
            used_at: now,
        }
    }

    /// A caller deposited at `at`, and said what it had spent of its own share meanwhile. What was deposited
    /// too long ago counts no more.
    pub fn deposit(&mut self, deposit: &Deposit, policy: &Policy, now: Timestamp) {
        let now = self.use_at(now);
        self.ledger.advance(now, policy.span());
        let slot = slot_of(deposit.at);
        self.ledger.deposit(Amount { slot, milli: deposit.milli });
        self.ledger.spend(Amount { slot, milli: deposit.spent_milli });
    }

    /// Pays `price`, if there is enough in one place.
    pub fn charge(&mut self, price: &Price, policy: &Policy, now: Timestamp) -> Option<Charge> {
        let now = self.use_at(now);
        self.ledger.advance(now, policy.span());
        self.demand.since_milli = self.demand.since_milli.saturating_add(price.milli);
        let amount = Amount { slot: slot_of(now.after(price.delay)), milli: price.milli };
        if self.own_balance_milli(price, policy) >= price.milli {
            return Some(Charge { slice: None, amount: self.ledger.spend(amount) });
        }
        let usable = |held: &&mut Held| {
            held.expires_at > now
                && held.left_milli >= price.milli
                && (price.high || !held.high_only)
        };
        if let Some(held) = self.slices.iter_mut().find(usable) {
            held.left_milli -= price.milli;
            match held.spent.iter_mut().rev().find(|spent| spent.slot == amount.slot) {
                Some(spent) => spent.milli = spent.milli.saturating_add(amount.milli),
                None => held.spent.push(amount),
            }
            return Some(Charge { slice: Some(held.seq), amount });
        }
        self.demand.unmet_milli = self.demand.unmet_milli.saturating_add(price.milli);
        if price.high {
            self.demand.unmet_high_milli = self.demand.unmet_high_milli.saturating_add(price.milli);
        }
        None
    }

    /// Pays for up to `tokens` at `price` each, from as many places as it takes.
    pub fn charge_many(
        &mut self,
        tokens: u32,
        price: &Price,
        policy: &Policy,
        now: Timestamp,
    ) -> Vec<Charge> {
        self.ledger.advance(now, policy.span());
        let mut charges = Vec::new();
        let mut left = u64::from(tokens);
        while left > 0 {
            let own = self.own_balance_milli(price, policy);
            let held = self
                .slices
                .iter()
                .filter(|held| held.expires_at > now && (price.high || !held.high_only));
            let places = std::iter::once(own).chain(held.map(|held| held.left_milli));
            let room = places.map(|milli| milli / price.milli.max(1)).find(|room| *room > 0);
            // Where there is room for none, the failure to pay says how many are missing.
            let count = room.unwrap_or(left).min(left);
            let all = Price { milli: price.milli.saturating_mul(count), ..*price };
            let Some(charge) = self.charge(&all, policy, now) else { break };
            charges.push(charge);
            left -= count;
        }
        charges
    }

    /// Gives a charge back. False: its slice's account went to the store meanwhile, and it stands.
    pub fn refund(&mut self, charge: &Charge) -> bool {
        let Some(seq) = charge.slice else { return self.ledger.unspend(charge.amount) };
        let Some(held) = self.slices.iter_mut().find(|held| held.seq == seq) else { return false };
        let spent = held
            .spent
            .iter_mut()
            .find(|spent| spent.slot == charge.amount.slot && spent.milli >= charge.amount.milli);
        let Some(spent) = spent else { return false };
        spent.milli -= charge.amount.milli;
        held.left_milli = held.left_milli.saturating_add(charge.amount.milli);
        true
    }

    /// What this node could grant without the store, in milli-tokens.
    #[must_use]
    pub fn balance_milli(
        &mut self,
        policy: &Policy,
        admitted_per_mille: u32,
        now: Timestamp,
    ) -> u64 {
        self.ledger.advance(now, policy.span());
        let price = Price { milli: 0, high: false, delay: Duration::ZERO, admitted_per_mille };
        self.own_balance_milli(&price, policy).saturating_add(self.held_milli(now))
    }

    /// Until when the slice of a charge is good; `None`: it came from the node's own deposits.
    #[must_use]
    pub fn slice_ends(&self, charge: &Charge) -> Option<Timestamp> {
        let seq = charge.slice?;
        self.slices.iter().find(|held| held.seq == seq).map(|held| held.expires_at)
    }

    /// When the store may have more, after it had nothing to give.
    #[must_use]
    pub const fn dry_until(&self) -> Timestamp {
        self.dry_until
    }

    /// Whether the store had nothing to give just now, and is not asked again before
    /// [`Share::dry_until`].
    #[must_use]
    pub fn is_dry(&self, now: Timestamp) -> bool {
        now < self.dry_until && (self.dry_for_high || self.demand.unmet_high_milli == 0)
    }

    /// The budget is used, though nothing was asked yet: it syncs again.
    pub fn wake(&mut self, now: Timestamp) {
        self.use_at(now);
    }

    /// When it was last used: deposited into, or asked.
    #[must_use]
    pub const fn used_at(&self) -> Timestamp {
        self.used_at
    }

    /// Whether a sync is under way.
    #[must_use]
    pub const fn is_syncing(&self) -> bool {
        self.under_way.is_some()
    }

    /// When the next sync is due; `None`: not until the budget is used again.
    #[must_use]
    pub fn sync_at(&self, policy: &Policy, now: Timestamp) -> Option<Timestamp> {
        if self.is_syncing() {
            return None;
        }
        let asks = self.demand.unmet_milli > 0 || self.runs_low(policy, now);
        let ask_at = asks.then(|| if self.is_dry(now) { self.dry_until } else { now });
        // Until the store was heard, its policy is not known, and no deposit has a place in its time.
        let first_at = self.store_epoch.is_none().then_some(self.dry_until);
        let settle_at = self.slices.iter().map(|held| held.return_at).min();
        let in_use = now.since(self.used_at) < IDLE_AFTER || self.ledger.deposited_milli() > 0;
        let refresh_at = in_use.then(|| self.synced_at.after(REFRESH_INTERVAL));
        let first_at = first_at.filter(|_| in_use);
        [first_at, ask_at, settle_at, refresh_at].into_iter().flatten().min()
    }

    /// Composes the next sync: settles what was spent, gives back what will not be needed, hands over
    /// what is left over, and asks ahead, unless it hands everything over.
    pub fn begin_sync(
        &mut self,
        policy: &Policy,
        admitted_per_mille: u32,
        handing: Handing,
        now: Timestamp,
    ) -> Sync {
        let closing = handing == Handing::All;
        let (unmet_milli, unmet_high_milli) =
            (self.demand.unmet_milli, self.demand.unmet_high_milli);
        let asks = !closing && !self.is_dry(now);
        self.demand.close(now);
        self.ledger.advance(now, policy.span());
        let settled = self.settle(closing, now);
        let want_milli = if asks { self.want(unmet_milli, policy, now) } else { 0 };
        let sync = Sync {
            node: self.node,
            seq: self.next_seq,
            deposits: self.hand_over(handing, policy),
            settled,
            want_milli,
            high_milli: unmet_high_milli.min(want_milli),
            admitted_per_mille,
        };
        self.next_seq += 1;
        let (wanted_milli, high) = (sync.want_milli, sync.high_milli > 0);
        let pause = policy.span() / DRY_PAUSES;
        self.under_way = Some(UnderWay { seq: sync.seq, sent_at: now, wanted_milli, high, pause });
        sync
    }

    /// Takes the outcome of the sync under way. `store_now`: the store's time when it was decided.
    pub fn finish_sync(&mut self, outcome: &SyncOutcome, store_now: Timestamp, now: Timestamp) {
        let Some(under_way) = self.under_way.take() else { return };
        // What it heard is as old as its question.
        self.synced_at = under_way.sent_at;
        // It was decided before `now`: so the store's clock is at least this far ahead.
        self.store_epoch = Some(store_now.as_micros().saturating_sub(now.as_micros()));
        let SyncOutcome::Done(done) = outcome else { return };
        self.others_want = done.others_want;
        let granted_milli = done.granted.map_or(0, |granted| granted.milli);
        if let Some(granted) = done.granted {
            let expires_at = under_way.sent_at.after(granted.expires_at.since(granted.granted_at));
            self.slices.push(Held {
                seq: under_way.seq,
                left_milli: granted.milli,
                high_only: granted.high_only,
                return_at: expires_at.before(expires_at.since(now) / 4),
                expires_at,
                spent: Vec::new(),
            });
        }
        if granted_milli < under_way.wanted_milli {
            let hint = done.more_at.map_or(DRY_PAUSE, |more_at| more_at.since(store_now));
            // What it gave may already be spent when it has more: then it is asked at once.
            let pause = if granted_milli > 0 { under_way.pause } else { hint };
            self.dry_until = now.after(pause.clamp(DRY_PAUSE, DRY_PAUSE_MAX));
            self.dry_for_high = under_way.high;
        }
    }

    /// Gives the sync under way up: whether it was carried out is not known, and what it carried is
    /// forfeited. The next one waits a moment.
    pub fn abandon_sync(&mut self, now: Timestamp) {
        self.under_way = None;
        (self.dry_until, self.dry_for_high) = (now.after(DRY_PAUSE), true);
        self.synced_at = now.before(REFRESH_INTERVAL.saturating_sub(ABANDONED_PAUSE));
    }

    /// A use at `now`. When it counts: time only goes forward.
    fn use_at(&mut self, now: Timestamp) -> Timestamp {
        self.used_at = self.used_at.max(now);
        self.used_at
    }

    fn own_balance_milli(&self, price: &Price, policy: &Policy) -> u64 {
        let limit = part(self.ledger.deposited_milli(), price.admitted_per_mille);
        let reserve = if price.high { 0 } else { part(limit, policy.reserve_per_mille) };
        limit.saturating_sub(reserve).saturating_sub(self.ledger.spent_milli())
    }

    fn held_milli(&self, now: Timestamp) -> u64 {
        let good = self.slices.iter().filter(|held| held.expires_at > now);
        good.fold(0, |sum, held| sum.saturating_add(held.left_milli))
    }

    fn reach_milli(&self, now: Timestamp) -> u64 {
        let own = self.ledger.deposited_milli().saturating_sub(self.ledger.spent_milli());
        own.saturating_add(self.held_milli(now))
    }

    /// Whether what is at hand would be gone before the next slice could be settled: no sooner, so that
    /// one sync does both.
    fn runs_low(&self, policy: &Policy, now: Timestamp) -> bool {
        let soon = self.demand.within(policy.lease / 4);
        soon > 0 && now.since(self.used_at) < policy.lease && self.reach_milli(now) < soon
    }

    /// What is missing for a lease's time of recent demand, and at least what was just not met.
    fn want(&self, unmet_milli: u64, policy: &Policy, now: Timestamp) -> u64 {
        let ahead = if now.since(self.used_at) < policy.lease {
            self.demand.within(policy.lease)
        } else {
            0
        };
        let missing = ahead.saturating_sub(self.reach_milli(now)).max(unmet_milli);
        // Whole tokens: a part of one would lie idle.
        missing.div_ceil(TOKEN_MILLI).saturating_mul(TOKEN_MILLI)
    }

    /// The accounts of the slices. Those that end soon come back, with what is left of them.
    fn settle(&mut self, closing: bool, now: Timestamp) -> Vec<Settled> {
        let mut settled = Vec::new();
        for held in &mut self.slices {
            let ends = closing || held.return_at <= now;
            let returned_milli = if ends { std::mem::take(&mut held.left_milli) } else { 0 };
            let spent = std::mem::take(&mut held.spent).into_iter();
            let spent = spent.filter(|amount| amount.milli > 0).map(|amount| Spent {
                offset_us: offset_us(start_of(amount.slot.saturating_add(1)), now),
                milli: amount.milli,
            });
            let account = Settled { slice: held.seq, spent: spent.collect(), returned_milli };
            if returned_milli > 0 || !account.spent.is_empty() {
                settled.push(account);
            }
        }
        self.slices.retain(|held| held.left_milli > 0 && held.expires_at > now);
        settled
    }

    /// Moves what is not likely to be needed here to the store, by slots of its time: of the earliest
    /// that they can have been.
    fn hand_over(&mut self, handing: Handing, policy: &Policy) -> Vec<Amount> {
        let kept = match handing {
            Handing::Nothing => return Vec::new(),
            Handing::All => 0,
            Handing::Surplus if !self.others_want => return Vec::new(),
            // What this node would spend itself while it is good: nobody else has a better claim to it.
            Handing::Surplus => self.demand.within(policy.span()),
        };
        let Some(epoch) = self.store_epoch else { return Vec::new() };
        let own = self.ledger.deposited_milli().saturating_sub(self.ledger.spent_milli());
        let moved = self.ledger.move_out(own.saturating_sub(kept));
        let in_store = |amount: Amount| {
            let at = start_of(amount.slot).as_micros().saturating_add(epoch);
            Amount { slot: slot_of(Timestamp::from_micros(at)), milli: amount.milli }
        };
        moved.into_iter().map(in_store).collect()
    }
}

fn offset_us(at: Timestamp, now: Timestamp) -> i64 {
    let signed = |us: u64| i64::try_from(us).unwrap_or(i64::MAX);
    signed(at.as_micros()).saturating_sub(signed(now.as_micros()))
}
