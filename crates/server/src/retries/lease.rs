//! Tokens that clients spend themselves: charged whole when they are leased, and credited for what comes
//! back, once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use semel_domain::budget::{Charge, FailMode, Incarnation, Price, TOKEN_MILLI};
use semel_domain::time::Timestamp;
use semel_proto::v1;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::account::{Account, State};
use super::budgets::Budgets;
use super::parse::LeaseAsk;
use super::reply;
use crate::breakers::Gate;
use crate::refusal::Refusal;

/// Clients that lease tokens of one budget from one node at once.
const LESSEES_MAX: usize = 10_000;
/// Leases of one client that can still come back.
const LEASES_KEPT: usize = 4;
/// A client that was silent for so long after its lease ended is forgotten.
const KEPT_AFTER_END: Duration = Duration::from_secs(60);

/// The least time between two searches for silent clients: a search looks at all of them.
const SEARCH_INTERVAL: Duration = Duration::from_secs(10);

/// The clients that lease tokens of one budget.
pub(crate) struct Leases {
    known: BTreeMap<Incarnation, Lessee>,
    /// When those that have been silent for long were last looked for.
    searched_at: Timestamp,
    room: Arc<Semaphore>,
}

#[derive(Default)]
struct Lessee {
    /// Its newest request, and what it got: given again if the same request comes again.
    seq: u64,
    granted: Lease,
    /// Leases that can still come back, the newest last.
    leases: Vec<Lease>,
}

/// Tokens in a client's hands.
#[derive(Clone, Default)]
pub(super) struct Lease {
    pub(super) id: u64,
    pub(super) tokens: u32,
    pub(super) expires_at: Timestamp,
    charges: Vec<Charge>,
}

impl Budgets {
    /// Takes back what a client did not spend, and leases it what it wants, as far as there is.
    pub(super) async fn lease(
        &self,
        ask: &LeaseAsk,
        gate: impl Fn() -> Gate,
        until: Timestamp,
    ) -> Result<v1::LeaseRetryTokensResponse, Refusal> {
        let account = self.account(&ask.downstream)?;
        let attempt = |last| self.try_lease(&account, ask, gate(), last);
        Ok(self.answered(&account, until, attempt).await)
    }

    fn try_lease(
        &self,
        account: &Arc<Account>,
        ask: &LeaseAsk,
        gate: Gate,
        last: bool,
    ) -> Option<v1::LeaseRetryTokensResponse> {
        let now = self.now();
        let mut state = account.lock();
        let may_wait = !last && state.may_wait();
        if !state.knows_policy(now) && may_wait {
            self.wake(account, &mut state, now);
            return None;
        }
        let counted = ask.deposits.map(|report| state.report(&report, self.node, now));
        let Some(lease) = state.lease(ask, gate, may_wait, now) else {
            self.nudge(account, &mut state, now);
            return None;
        };
        self.nudge(account, &mut state, now);
        let counted = counted.unwrap_or_default();
        Some(reply::leased(&lease, lease.tokens < ask.want, counted, &state, self.node, now))
    }
}

impl State {
    /// `None`: nothing is here, and the store may have some.
    fn lease(
        &mut self,
        ask: &LeaseAsk,
        gate: Gate,
        may_wait: bool,
        now: Timestamp,
    ) -> Option<Lease> {
        if !self.leases.follow(ask.lessee, now) {
            return Some(Lease::default());
        }
        match self.leases.known.get(&ask.lessee) {
            // The reply was lost: the same tokens, charged once.
            Some(lessee) if ask.seq == lessee.seq => return Some(lessee.granted.clone()),
            // A late copy of an old request: what it would get, nobody would spend.
            Some(lessee) if ask.seq < lessee.seq => return Some(Lease::default()),
            _ => {}
        }
        let lessee = self.leases.known.entry(ask.lessee).or_default();
        let returned = ask.returned.and_then(|returned| lessee.take_back(returned));
        for charge in returned.into_iter().flatten() {
            self.share.refund(&charge);
        }
        let lease = self.new_lease(ask, gate, now);
        if lease.tokens == 0 && ask.want > 0 && may_wait && self.may_have_more(now) {
            return None;
        }
        self.tally.granted += u64::from(lease.tokens);
        let lessee = self.leases.known.entry(ask.lessee).or_default();
        (lessee.seq, lessee.granted) = (ask.seq, lease.clone());
        if lease.tokens > 0 {
            lessee.leases.push(lease.clone());
        }
        if lessee.leases.len() > LEASES_KEPT {
            lessee.leases.remove(0);
        }
        Some(lease)
    }

    fn new_lease(&mut self, ask: &LeaseAsk, gate: Gate, now: Timestamp) -> Lease {
        let policy = Arc::clone(&self.policy);
        let price = Price {
            milli: TOKEN_MILLI,
            high: false,
            delay: policy.lease,
            admitted_per_mille: gate.admitted_per_mille,
        };
        let charges = match policy.fail_mode {
            _ if gate.open => Vec::new(),
            // A client can't be told how to fail, so what would be unlimited is denied.
            FailMode::Deny | FailMode::Allow if self.store_away => Vec::new(),
            _ => self.share.charge_many(ask.want, &price, &policy, now),
        };
        let milli: u64 = charges.iter().map(|charge| charge.amount.milli).sum();
        // A slice must not be spent after its end, not even by a client.
        let ends = charges.iter().filter_map(|charge| self.share.slice_ends(charge));
        let expires_at = ends.fold(now.after(policy.lease), Timestamp::min);
        let tokens = u32::try_from(milli / TOKEN_MILLI).unwrap_or(u32::MAX);
        Lease { id: ask.seq, tokens, charges, expires_at }
    }
}

impl Drop for Leases {
    fn drop(&mut self) {
        self.room.add_permits(self.known.len());
    }
}

impl Leases {
    /// Those of a budget that is new, each in a place of `room`.
    pub(super) const fn new(room: Arc<Semaphore>) -> Self {
        Self { known: BTreeMap::new(), searched_at: Timestamp::from_micros(0), room }
    }

    /// Follows a client from now on. False: there is no place for it, even without those that have been
    /// silent for long.
    fn follow(&mut self, lessee: Incarnation, now: Timestamp) -> bool {
        if self.known.contains_key(&lessee) {
            return true;
        }
        if !self.take_place() {
            self.forget_silent(now);
            if !self.take_place() {
                return false;
            }
        }
        self.known.insert(lessee, Lessee::default());
        true
    }

    fn take_place(&self) -> bool {
        self.known.len() < LESSEES_MAX
            && self.room.try_acquire().map(SemaphorePermit::forget).is_ok()
    }

    fn forget_silent(&mut self, now: Timestamp) {
        if now.since(self.searched_at) < SEARCH_INTERVAL {
            return;
        }
        self.searched_at = now;
        let before = self.known.len();
        self.known.retain(|_, lessee| now.since(lessee.granted.expires_at) < KEPT_AFTER_END);
        self.room.add_permits(before - self.known.len());
    }
}

impl Lessee {
    /// What is credited for tokens of a lease that come back: never more than it held, and only once.
    fn take_back(&mut self, (id, tokens): (u64, u32)) -> Option<Vec<Charge>> {
        let at = self.leases.iter().position(|lease| lease.id == id)?;
        let lease = self.leases.remove(at);
        let mut left = u64::from(tokens.min(lease.tokens)).saturating_mul(TOKEN_MILLI);
        let mut credited = Vec::new();
        for mut charge in lease.charges {
            charge.amount.milli = charge.amount.milli.min(left);
            left -= charge.amount.milli;
            credited.push(charge);
        }
        Some(credited)
    }
}

#[cfg(test)]
mod tests {
    use semel_domain::budget::Amount;

    use super::*;

    fn lease(id: u64, charges: &[u64]) -> Lease {
        let charge = |(slot, milli): (u64, &u64)| Charge {
            slice: None,
            amount: Amount { slot, milli: *milli },
        };
        let tokens = u32::try_from(charges.iter().sum::<u64>() / TOKEN_MILLI).expect("few");
        let charges = (0..).zip(charges).map(charge).collect();
        Lease { id, tokens, charges, expires_at: Timestamp::default() }
    }

    fn credited(lessee: &mut Lessee, id: u64, tokens: u32) -> Option<Vec<u64>> {
        let charges = lessee.take_back((id, tokens))?;
        Some(charges.iter().map(|charge| charge.amount.milli).collect())
    }

    #[test]
    fn what_comes_back_is_credited_once_and_never_for_more_than_was_held() {
        let mut lessee = Lessee {
            leases: vec![lease(1, &[3_000, 2_000]), lease(2, &[1_000]), lease(3, &[4_000])],
            ..Lessee::default()
        };
        assert_eq!(credited(&mut lessee, 9, 1), None, "no such lease");
        assert_eq!(credited(&mut lessee, 1, 4), Some(vec![3_000, 1_000]));
        assert_eq!(credited(&mut lessee, 1, 4), None, "once");
        assert_eq!(credited(&mut lessee, 2, u32::MAX), Some(vec![1_000]));
        assert_eq!(credited(&mut lessee, 3, 0), Some(vec![0]));
        assert!(lessee.leases.is_empty());
    }

    #[test]
    fn clients_that_were_silent_for_long_make_room_for_others() {
        let room = Arc::new(Semaphore::new(LESSEES_MAX + 1));
        let mut leases = Leases::new(Arc::clone(&room));
        let client = |number: usize| Incarnation((number as u128).to_be_bytes());
        let start = Timestamp::default();
        for number in 0..LESSEES_MAX {
            assert!(leases.follow(client(number), start));
        }
        let end = start.after(KEPT_AFTER_END);
        let busy = leases.known.get_mut(&client(7)).expect("followed");
        busy.granted.expires_at = end;
        assert!(!leases.follow(client(LESSEES_MAX), start), "the budget's bound");
        assert!(leases.follow(client(7), start), "it is followed already");
        let mut other = Leases::new(Arc::clone(&room));
        assert!(other.follow(client(0), start));
        assert!(!other.follow(client(1), start), "the node's bound");
        assert!(leases.follow(client(LESSEES_MAX), end));
        assert_eq!(leases.known.len(), 2, "the one whose lease only just ended is still followed");
        assert!(other.follow(client(1), end));
    }
}
