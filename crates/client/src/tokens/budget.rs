//! A budget as its users hold it: first attempts are counted, tokens are spent, nothing waits.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use thiserror::Error;
use tokio::sync::Notify;

use super::purse::Purse;
use super::refunds::{Granted, Refunds};
use super::share::{Moved, Share, Spent};
use crate::clock::Clock;
use crate::rules::Rules;

/// Attempts are looked through no more often than this: each look has the next attempt wake the lessee.
const LOOK_PAUSE_MS: u64 = 100;

/// Why no token was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Denied {
    /// The tokens of the present lease are used up, or the node had none to give. More are asked for.
    #[error("the retry tokens in hand are used up")]
    Exhausted,
    /// There is no lease: the first one is still to come, or it ended and the node does not answer; and
    /// what this client's own first attempts pay for is used up.
    #[error("there is no lease of retry tokens")]
    NotLeased,
    /// The client was closed.
    #[error("the client of retry tokens was closed")]
    Closed,
}

/// The retry budget of one tenant and dependency. Cheap to clone; all clones are the same budget.
#[derive(Clone)]
pub struct Budget(pub(super) Arc<Ledger>);

/// A token that was taken, and where it goes back to if its retry is not made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Token {
    /// The lease that ends at this moment.
    Leased { ends_ms: u64 },
    /// What own first attempts pay for.
    Own(Spent),
}

/// What the users of a budget and its lessee share.
///
/// There are two purses, since there are two leases: while one is spent, the next is fetched. Users
/// spend the older first. Only the lessee fills and empties them.
pub(super) struct Ledger {
    pub(super) tenant: String,
    pub(super) dependency: String,
    pub(super) older: Purse,
    pub(super) newer: Purse,
    /// So many tokens left in the newer purse are few.
    pub(super) few: AtomicU32,
    /// First attempts that are not in the share yet, and when the first of them was counted.
    requests: AtomicU64,
    successes: AtomicU64,
    since_ms: AtomicU64,
    denials: AtomicU64,
    share: Mutex<Share>,
    pub(super) refunds: Refunds,
    /// When attempts were last put into the share.
    looked_ms: AtomicU64,
    rules: RwLock<Arc<Rules>>,
    /// The last call to the node got no answer.
    pub(super) is_out_of_reach: AtomicBool,
    /// Something happened that the lessee may have to act on.
    pub(super) wake: Notify,
    pub(super) shared: Arc<Shared>,
}

/// What all budgets of a client share.
pub(super) struct Shared {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) closed: AtomicBool,
}

impl Shared {
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.monotonic_us() / 1_000
    }
}

impl Ledger {
    pub(super) fn new(tenant: String, dependency: String, shared: Arc<Shared>) -> Self {
        Self {
            tenant,
            dependency,
            older: Purse::default(),
            newer: Purse::default(),
            few: AtomicU32::new(0),
            requests: AtomicU64::new(0),
            successes: AtomicU64::new(0),
            since_ms: AtomicU64::new(0),
            share: Mutex::default(),
            refunds: Refunds::default(),
            looked_ms: AtomicU64::new(0),
            rules: RwLock::default(),
            is_out_of_reach: AtomicBool::new(false),
            denials: AtomicU64::new(0),
            wake: Notify::new(),
            shared,
        }
    }

    /// Whether there are first attempts to report.
    pub(super) fn is_attempting(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 0 || !self.share().is_empty()
    }

    /// Whether tokens were denied since the last time.
    pub(super) fn is_denying(&self) -> bool {
        self.denials.load(Ordering::Relaxed) > 0
    }

    /// Takes out what was not yet reported: what comes back can't be spent here any more. A success whose
    /// attempt was reported before waits for the next attempt: no report claims more successes than
    /// attempts.
    pub(super) fn take_attempts(&self, now_ms: u64) -> Moved {
        let rules = self.rules();
        let mut share = self.share();
        self.look(&mut share, now_ms);
        share.take(&rules, now_ms)
    }

    /// Puts the attempts that were counted into the share, if that was not done just now.
    pub(super) fn look_through(&self, now_ms: u64) {
        if now_ms >= self.looked_ms.load(Ordering::Relaxed).saturating_add(LOOK_PAUSE_MS) {
            self.look(&mut self.share(), now_ms);
        }
    }

    fn look(&self, share: &mut Share, now_ms: u64) {
        let looked_ms = self.looked_ms.swap(now_ms, Ordering::Relaxed);
        // All of them were counted after the last look, whatever the mark of the first says by now.
        let since_ms = self.since_ms.load(Ordering::Relaxed).max(looked_ms);
        let requests = self.requests.swap(0, Ordering::Relaxed);
        let successes = self.successes.swap(0, Ordering::Relaxed);
        let counted = successes.min(requests);
        self.successes.fetch_add(successes - counted, Ordering::Relaxed);
        if requests > 0 {
            share.count(requests, counted, since_ms);
        }
    }

    /// Takes a token out of what this client's own attempts pay for. `None`: there is none.
    fn take_own(&self, now_ms: u64) -> Option<Token> {
        if self.shared.closed.load(Ordering::Relaxed) {
            return None;
        }
        self.look_through(now_ms);
        self.share().spend(&self.rules(), now_ms).map(Token::Own)
    }

    fn share(&self) -> MutexGuard<'_, Share> {
        self.share.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The policy that was last heard of.
    pub(crate) fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes over what the node says of the policy.
    pub(super) fn learn(&self, rules: Rules) {
        if *self.rules() != rules {
            *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
        }
    }

    /// The denials since the last time.
    pub(super) fn take_denials(&self) -> u64 {
        self.denials.swap(0, Ordering::Relaxed)
    }

    #[cold]
    fn deny(&self, now_ms: u64) -> Denied {
        if self.shared.closed.load(Ordering::Relaxed) {
            return Denied::Closed;
        }
        if self.denials.fetch_add(1, Ordering::Relaxed) == 0 {
            self.wake.notify_one();
        }
        if self.newer.content().is_live(now_ms) { Denied::Exhausted } else { Denied::NotLeased }
    }
}

impl Budget {
    /// Counts a first attempt: what retries are paid from. Once per call, before or after it, however
    /// many layers saw it. Retries and hedges are no first attempts.
    #[inline]
    pub fn first_attempt(&self) {
        if self.0.requests.fetch_add(1, Ordering::Relaxed) == 0 {
            self.0.since_ms.store(self.0.shared.now_ms(), Ordering::Relaxed);
            self.0.wake.notify_one();
        }
    }

    /// Counts a first attempt that succeeded, beside [`first_attempt`](Self::first_attempt). Only
    /// policies that deposit on success look at it.
    #[inline]
    pub fn first_success(&self) {
        self.0.successes.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a token: the right to send one retry or hedge now. Never waits, and calls nobody. While the node
    /// does not answer, and no lease is left, it comes out of what this client's own first attempts pay for.
    ///
    /// # Errors
    ///
    /// There is none. Don't retry then.
    #[inline]
    pub fn try_spend(&self) -> Result<(), Denied> {
        self.take().map(drop)
    }

    /// As [`try_spend`](Self::try_spend); the token may be put back.
    #[inline]
    pub(crate) fn take(&self) -> Result<Token, Denied> {
        let ledger = &*self.0;
        let now_ms = ledger.shared.now_ms();
        if let Some(left) = ledger.older.take(now_ms) {
            return Ok(Token::Leased { ends_ms: left.ends_ms });
        }
        let Some(left) = ledger.newer.take(now_ms) else { return self.take_otherwise(now_ms) };
        if left.tokens == ledger.few.load(Ordering::Relaxed) {
            ledger.wake.notify_one();
        }
        Ok(Token::Leased { ends_ms: left.ends_ms })
    }

    #[cold]
    fn take_otherwise(&self, now_ms: u64) -> Result<Token, Denied> {
        let denied = self.0.deny(now_ms);
        let may_fall_back = denied == Denied::NotLeased && self.is_out_of_reach();
        let own = if may_fall_back { self.0.take_own(now_ms) } else { None };
        own.ok_or(denied)
    }

    /// Puts a token back: its retry was not made, and will not be. Of a lease that was given back meanwhile
    /// it stays spent.
    pub(crate) fn put_back(&self, token: Token) {
        match token {
            // Should both end at that moment, either is as good: no token is good for longer, and none doubles.
            Token::Leased { ends_ms } => {
                let _ = self.0.older.put_back(ends_ms) || self.0.newer.put_back(ends_ms);
            }
            Token::Own(spent) => self.0.share().put_back(spent),
        }
    }

    /// Whose budget it is.
    #[must_use]
    pub fn tenant(&self) -> &str {
        &self.0.tenant
    }

    /// What is called.
    #[must_use]
    pub fn dependency(&self) -> &str {
        &self.0.dependency
    }

    /// The policy that was last heard of.
    pub(crate) fn rules(&self) -> Arc<Rules> {
        self.0.rules()
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.0.shared.now_ms()
    }

    /// Takes a token out of what this process's own first attempts pay for: a node was asked, and did not
    /// answer. `None`: there is none.
    pub(crate) fn take_own(&self) -> Option<Token> {
        self.0.take_own(self.now_ms())
    }

    /// The retry of a token that a node granted was not sent, and will not be.
    pub(crate) fn give_back(&self, granted: Granted) {
        self.0.refunds.add(granted);
        self.0.wake.notify_one();
    }

    /// The first attempts that were counted, and are to be reported.
    #[cfg(test)]
    pub(crate) fn take_attempts(&self) -> Moved {
        self.0.take_attempts(self.now_ms())
    }

    #[cfg(test)]
    pub(crate) fn learn(&self, policy: &semel_proto::v1::RetryPolicy) {
        self.0.learn(Rules::of(policy));
    }

    /// A budget that holds so many tokens for so long, and gets no others.
    #[cfg(test)]
    pub(crate) fn holding(tokens: u32, lease: std::time::Duration) -> Self {
        let clock = Arc::new(crate::clock::Stopwatch::start());
        let shared = Arc::new(Shared { clock, closed: AtomicBool::new(false) });
        let ends_ms = shared.now_ms() + u64::try_from(lease.as_millis()).unwrap();
        let ledger = Ledger::new("acme".into(), "stripe".into(), shared);
        ledger.newer.exchange(super::purse::Content { tokens, ends_ms });
        Self(Arc::new(ledger))
    }

    /// Whether the last call to the node got no answer.
    #[must_use]
    pub fn is_out_of_reach(&self) -> bool {
        self.0.is_out_of_reach.load(Ordering::Relaxed)
    }

    /// How many leased tokens could be spent at this moment.
    #[must_use]
    pub fn in_hand(&self) -> u32 {
        let now_ms = self.0.shared.now_ms();
        let purses = [self.0.older.content(), self.0.newer.content()];
        purses.iter().filter(|held| held.is_live(now_ms)).map(|held| held.tokens).sum()
    }
}

impl std::fmt::Debug for Budget {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Budget")
            .field("tenant", &self.0.tenant)
            .field("dependency", &self.0.dependency)
            .field("in_hand", &self.in_hand())
            .finish_non_exhaustive()
    }
}
