//! When to ask the node for tokens, for how many, and what to do with its answers. Pure: it is told the
//! time and what happened, and sends nothing.
//!
//! At each asking the rest of the older lease is taken out of its purse and goes back with the request;
//! the newer one goes on being spent, and becomes the older when the answer comes. A request that got
//! no answer is kept as it is and sent again under the same number, until there is one.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use semel_proto::v1::{Deposits, LeaseRetryTokensRequest, LeaseRetryTokensResponse};
use tonic::Status;

use super::budget::Ledger;
use super::demand::Demand;
use super::purse::{Content, TOKENS_MAX};
use crate::failure::grpc::is_final;
use crate::rules::Rules;
use crate::wire::{duration, millis};

/// Between two askings of one budget.
const PAUSE_MIN_MS: u64 = 10;
/// The first pause after a lost call; it doubles.
const LOST_PAUSE_MS: u64 = 50;
/// The longest pause after a lost call, and the one after a refusal that asking again won't mend.
const LOST_PAUSE_MAX_MS: u64 = 1_000;
/// The lease that is reckoned with until the node names one.
const LEASE_GUESS_MS: u64 = 1_000;

/// What is to be done next.
#[derive(Debug, PartialEq)]
pub(crate) enum Step {
    /// Send this to the node.
    Ask(LeaseRetryTokensRequest),
    /// Nothing until this moment, or until something is counted.
    WaitUntil(u64),
    /// Nothing until something is counted.
    Wait,
}

/// A lease as its node named it.
#[derive(Clone, Debug)]
struct Lease {
    id: u64,
    node: Bytes,
}

/// A request that has not been answered.
struct Pending {
    request: LeaseRetryTokensRequest,
    /// Before it was first sent: a lease is counted from here.
    sent_ms: u64,
}

/// Asks for one budget.
pub(crate) struct Lessee {
    ledger: Arc<Ledger>,
    incarnation: Bytes,
    at_hand: u64,
    seq: u64,
    /// The node that answered last.
    node: Bytes,
    older: Option<Lease>,
    newer: Option<Lease>,
    /// Tokens in both purses when they were last counted.
    held: u64,
    /// Tokens that were spent since, as far as the purses were filled anew meanwhile.
    spent: u64,
    demand: Demand,
    period_ms: u64,
    /// Askings in a row that had nothing to tell.
    quiet: u32,
    due_ms: u64,
    not_before_ms: u64,
    lost: u32,
    pending: Option<Pending>,
}

impl Lessee {
    pub(crate) fn new(ledger: Arc<Ledger>, incarnation: [u8; 16], at_hand: u32) -> Self {
        Self {
            ledger,
            incarnation: Bytes::copy_from_slice(&incarnation),
            at_hand: at_hand.min(TOKENS_MAX).into(),
            seq: 0,
            node: Bytes::new(),
            older: None,
            newer: None,
            held: 0,
            spent: 0,
            demand: Demand::default(),
            period_ms: period_of(LEASE_GUESS_MS),
            quiet: 0,
            due_ms: 0,
            not_before_ms: 0,
            lost: 0,
            pending: None,
        }
    }

    /// What to do at this moment.
    pub(crate) fn next(&mut self, now_ms: u64) -> Step {
        if self.lost > 0 {
            // Attempts are not taken out meanwhile, and pay for no longer than the window.
            self.ledger.look_through(now_ms);
        }
        let wanted_ms = if self.pending.is_some() { now_ms } else { self.wanted_ms(now_ms) };
        let at_ms = wanted_ms.max(self.not_before_ms);
        if wanted_ms == u64::MAX {
            return Step::Wait;
        }
        if now_ms < at_ms {
            return Step::WaitUntil(at_ms);
        }
        match &self.pending {
            Some(pending) => Step::Ask(pending.request.clone()),
            None => self.ask(now_ms),
        }
    }

    /// When to ask, were it not for pauses: at once if tokens are few, else in good time.
    fn wanted_ms(&self, now_ms: u64) -> u64 {
        let denying = self.ledger.is_denying();
        let spent = self.held > self.rest();
        let newer = self.ledger.newer.content();
        if newer.is_live(now_ms) {
            let few = newer.tokens <= self.ledger.few.load(Ordering::Relaxed);
            return if few && (spent || denying) { now_ms } else { self.due_ms };
        }
        if spent || denying || self.ledger.is_attempting() {
            return now_ms;
        }
        let idle = self.older.is_none() && self.newer.is_none();
        if idle { u64::MAX } else { self.due_ms }
    }

    fn rest(&self) -> u64 {
        let (older, newer) = (self.ledger.older.content(), self.ledger.newer.content());
        u64::from(older.tokens) + u64::from(newer.tokens)
    }

    fn ask(&mut self, now_ms: u64) -> Step {
        let wanted = self.take_spent().saturating_add(self.ledger.take_denials());
        self.demand.add(wanted, now_ms, self.period_ms);
        let returned = self.take_older(now_ms);
        let deposits = self.take_deposits(now_ms);
        let quiet = wanted == 0 && deposits.is_none();
        self.quiet = if quiet { self.quiet.saturating_add(1) } else { 0 };
        let want = if self.quiet < 2 { self.demand.target().max(self.at_hand) } else { 0 };
        if want == 0 && returned.is_none() && deposits.is_none() {
            return self.shelve(now_ms);
        }
        let want = u32::try_from(want).unwrap_or(TOKENS_MAX).min(TOKENS_MAX);
        Step::Ask(self.request(want, returned, deposits, now_ms))
    }

    /// What was spent since the last time.
    fn take_spent(&mut self) -> u64 {
        let rest = self.rest();
        let spent = std::mem::take(&mut self.spent).saturating_add(self.held.saturating_sub(rest));
        self.held = rest;
        spent
    }

    /// Nothing to ask for: what is left grows old, goes back at the next asking, and then all is quiet.
    fn shelve(&mut self, now_ms: u64) -> Step {
        self.hold(None, Content::default());
        if self.older.is_none() {
            return Step::Wait;
        }
        self.due_ms = now_ms.saturating_add(PAUSE_MIN_MS);
        self.not_before_ms = self.due_ms;
        Step::WaitUntil(self.due_ms)
    }

    fn request(
        &mut self,
        want: u32,
        returned: Option<(u64, u32)>,
        deposits: Option<Deposits>,
        now_ms: u64,
    ) -> LeaseRetryTokensRequest {
        self.seq += 1;
        let request = LeaseRetryTokensRequest {
            tenant: self.ledger.tenant.clone(),
            dependency: self.ledger.dependency.clone(),
            lessee: self.incarnation.clone(),
            seq: self.seq,
            want,
            returned_lease: returned.map(|(lease, _)| lease),
            returned: returned.map_or(0, |(_, tokens)| tokens),
            deposits: deposits.map(|deposits| Deposits { seq: self.seq, ..deposits }),
        };
        self.pending = Some(Pending { request: request.clone(), sent_ms: now_ms });
        request
    }

    /// Empties the older purse. Its rest goes back if it is still good, and to its own node only.
    fn take_older(&mut self, now_ms: u64) -> Option<(u64, u32)> {
        let rest = self.ledger.older.exchange(Content::default());
        self.held = self.held.saturating_sub(rest.tokens.into());
        let lease = self.older.take()?;
        let goes_back = rest.tokens > 0 && rest.is_live(now_ms) && lease.node == self.node;
        goes_back.then_some((lease.id, rest.tokens))
    }

    fn take_deposits(&self, now_ms: u64) -> Option<Deposits> {
        let moved = self.ledger.take_attempts(now_ms);
        (moved.requests > 0).then(|| Deposits {
            reporter: self.incarnation.clone(),
            requests: moved.requests,
            successes: moved.successes,
            spent_milli: moved.spent_milli,
            node: self.node.clone(),
            ..Deposits::default()
        })
    }

    /// Takes the node's answer.
    pub(crate) fn answered(&mut self, reply: LeaseRetryTokensResponse, now_ms: u64) {
        let Some(pending) = self.pending.take() else { return };
        self.lost = 0;
        self.ledger.is_out_of_reach.store(false, Ordering::Relaxed);
        if let Some(policy) = &reply.policy {
            self.ledger.learn(Rules::of(policy));
        }
        self.node = reply.node.clone();
        let lease_ms = reply.expires_in.as_ref().map_or(0, given_ms);
        if lease_ms > 0 {
            self.period_ms = period_of(lease_ms);
        }
        let (want, granted) = (pending.request.want, reply.granted.min(TOKENS_MAX));
        let again_ms = match reply.retry_after.as_ref().map(given_ms) {
            _ if granted >= want => PAUSE_MIN_MS,
            Some(retry_after_ms) => retry_after_ms.max(PAUSE_MIN_MS),
            None => (self.period_ms / 4).max(PAUSE_MIN_MS),
        };
        self.not_before_ms = now_ms.saturating_add(again_ms);
        self.due_ms = pending.sent_ms.saturating_add(self.period_ms).max(self.not_before_ms);
        // With nothing granted the end says until when it is known that there is nothing.
        let ends_ms = match granted {
            0 if want == 0 => 0,
            0 => self.not_before_ms.saturating_add(self.period_ms),
            _ => pending.sent_ms.saturating_add(lease_ms),
        };
        let lease = (granted > 0).then_some(Lease { id: reply.lease, node: reply.node });
        self.ledger.few.store(granted / 4, Ordering::Relaxed);
        self.hold(lease, Content { tokens: granted, ends_ms });
    }

    /// The newer lease becomes the older, whose purse is empty, and this one the newer.
    fn hold(&mut self, lease: Option<Lease>, content: Content) {
        // Users may spend in between: what is moved is what the exchange gave out, so nothing doubles.
        let moved = self.ledger.newer.exchange(content);
        self.ledger.older.exchange(moved);
        self.older = std::mem::replace(&mut self.newer, lease);
        let spent = self.held.saturating_sub(moved.tokens.into());
        self.spent = self.spent.saturating_add(spent);
        self.held = u64::from(moved.tokens) + u64::from(content.tokens);
    }

    /// Takes an error in place of an answer.
    pub(crate) fn failed(&mut self, status: &Status, now_ms: u64) {
        self.lost = self.lost.saturating_add(1);
        if is_final(status.code()) {
            // The node will not take it: what it handed over is forfeited.
            self.pending = None;
            self.not_before_ms = now_ms.saturating_add(LOST_PAUSE_MAX_MS);
            return;
        }
        self.ledger.is_out_of_reach.store(true, Ordering::Relaxed);
        let doubled = LOST_PAUSE_MS.saturating_mul(1 << (self.lost - 1).min(5));
        let pause_ms = doubled.min(LOST_PAUSE_MAX_MS);
        self.not_before_ms =
            now_ms.saturating_add(pause_ms).saturating_add(self.spread_ms(pause_ms));
        if let Some(pending) = &mut self.pending
            && self.node.is_empty()
        {
            // Nobody knows which node it reached: sent again it could count twice.
            pending.request.deposits = None;
        }
    }

    /// Up to as much again, so that the clients of a node that went away don't come back at once.
    fn spread_ms(&self, pause_ms: u64) -> u64 {
        let place = usize::try_from(self.lost).unwrap_or_default() % 16;
        let share = self.incarnation.get(place).copied().unwrap_or_default();
        pause_ms.saturating_mul(share.into()) / 256
    }

    /// How many calls failed in a row.
    pub(crate) const fn lost(&self) -> u32 {
        self.lost
    }

    /// What is still to be said when the client closes: an unanswered request once more, then the rest
    /// of each lease. `None` when there is nothing left.
    pub(crate) fn last_words(&mut self, now_ms: u64) -> Option<LeaseRetryTokensRequest> {
        if let Some(pending) = &self.pending {
            return Some(pending.request.clone());
        }
        loop {
            if self.older.is_none() {
                self.hold(None, Content::default());
            }
            let returned = self.take_older(now_ms);
            let deposits = self.take_deposits(now_ms);
            if returned.is_some() || deposits.is_some() {
                return Some(self.request(0, returned, deposits, now_ms));
            }
            self.newer.as_ref()?;
        }
    }

    /// Leaves nothing to spend.
    pub(crate) fn leave(&self) {
        self.ledger.older.exchange(Content::default());
        self.ledger.newer.exchange(Content::default());
    }
}

/// How often to ask under a lease of this length: so that the older of two leases still has a tenth of
/// its time left when its rest goes back, and the newer more than half.
fn period_of(lease_ms: u64) -> u64 {
    (lease_ms.saturating_mul(9) / 20).max(PAUSE_MIN_MS)
}

fn given_ms(given: &prost_types::Duration) -> u64 {
    millis(duration(given))
}

#[cfg(test)]
mod tests;
