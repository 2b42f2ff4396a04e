//! What this node has of one budget.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use semel_domain::budget::layout::record_key;
use semel_domain::budget::{Deposit, FailMode, Incarnation, Policy, Share};
use semel_domain::downstream::Downstream;
use semel_domain::retry::Denial;
use semel_domain::time::Timestamp;
use tokio::sync::{Notify, Semaphore};

use super::lease::Leases;
use super::parse::Report;
use super::transition::News;
use crate::reporters::{Admission, Reporters};

/// Reporters of one budget that a node follows.
const REPORTERS_MAX: usize = 10_000;
/// Reports kept until the policy is known; more than these are lost, which errs towards granting less.
const UNPRICED_MAX: usize = 1_000;
/// A policy that was heard of longer ago is asked for again before it decides anything: the published
/// bound within which a new one is in force on every node.
const POLICY_KEPT: Duration = Duration::from_secs(5);

/// Callers of one budget that may wait at once; more are answered from what is there.
const WAITING_MAX: usize = 1_000;

/// One budget, as this node has it.
pub(crate) struct Account {
    pub(crate) downstream: Downstream,
    pub(crate) key: Bytes,
    /// Wakes callers that wait for the store when it answered, or did not.
    pub(crate) synced: Notify,
    syncs: AtomicU64,
    state: Mutex<State>,
}

/// What is behind the lock.
pub(crate) struct State {
    pub(crate) share: Share,
    pub(crate) policy: Arc<Policy>,
    /// `None`: the store has not been asked yet, and the default policy is a guess.
    pub(crate) policy_version: Option<u64>,
    /// Since when that is known to have been in force.
    heard_at: Timestamp,
    pub(crate) leases: Leases,
    pub(crate) tally: Tally,
    /// The last sync got no answer.
    pub(crate) store_away: bool,
    pub(crate) schedule: Schedule,
    /// Callers that wait for the store's answer.
    pub(crate) waiting: usize,
    reporters: Reporters<Incarnation>,
    /// Reports from before the policy was known: what they deposit, only the policy says.
    unpriced: Vec<Unpriced>,
}

/// A report, and when it came.
#[derive(Clone, Copy, Debug)]
struct Unpriced {
    requests: u64,
    successes: u64,
    spent_milli: u64,
    at: Timestamp,
}

/// On what ground a budget is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The store is in reach.
    Normal,
    /// It is not, and this is what the policy says to that.
    Degraded(FailMode),
}

/// When the keeper looks at an account again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Schedule {
    /// Once it is used.
    Idle,
    /// At this instant.
    At(Timestamp),
    /// At once.
    Urgent,
    /// When its sync is done.
    Syncing,
}

/// What was decided here since the node's start.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) granted: u64,
    pub(crate) requests: u64,
    pub(crate) denied: BTreeMap<Denial, u64>,
}

impl Account {
    /// Whoever reports first attempts of it or leases tokens is followed in a place of `room`.
    pub(crate) fn new(
        downstream: Downstream,
        node: Incarnation,
        room: &Arc<Semaphore>,
        now: Timestamp,
    ) -> Self {
        let state = State {
            share: Share::new(node, now),
            policy: Arc::default(),
            policy_version: None,
            heard_at: now,
            leases: Leases::new(Arc::clone(room)),
            tally: Tally::default(),
            store_away: false,
            schedule: Schedule::Idle,
            waiting: 0,
            reporters: Reporters::new(REPORTERS_MAX, Arc::clone(room)),
            unpriced: Vec::new(),
        };
        Self {
            key: record_key(&downstream),
            downstream,
            synced: Notify::new(),
            syncs: AtomicU64::new(0),
            state: Mutex::new(state),
        }
    }

    /// The store answered a sync, or did not.
    pub(crate) fn tell(&self) {
        self.syncs.fetch_add(1, Ordering::Release);
        self.synced.notify_waiters();
    }

    /// How often that was told.
    pub(crate) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Acquire)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Counts a report that belongs to `node`. Whether it counts, now or since before.
    pub(crate) fn report(&mut self, report: &Report, node: Incarnation, now: Timestamp) -> bool {
        if report.node.is_some_and(|first_sent_to| first_sent_to != node) {
            return false;
        }
        let admission = self.reporters.admit(report.reporter, report.seq, now.as_micros());
        if admission == Admission::New {
            let Report { requests, successes, spent_milli, .. } = *report;
            self.price(Unpriced { requests, successes, spent_milli, at: now }, now);
            self.tally.requests = self.tally.requests.saturating_add(report.requests);
        }
        admission.is_counted()
    }

    /// Deposits what was reported: at once, or when the policy in force is known. Another policy's ratio may
    /// be more than what an operator set.
    fn price(&mut self, report: Unpriced, now: Timestamp) {
        if self.policy_version.is_some() && self.knows_policy(now) {
            let milli = self.policy.deposit_milli(report.requests, report.successes);
            let Unpriced { spent_milli, at, .. } = report;
            self.share.deposit(&Deposit { milli, spent_milli, at }, &self.policy, now);
        } else if self.unpriced.len() < UNPRICED_MAX {
            self.share.wake(now);
            self.unpriced.push(report);
        }
    }

    /// Whether the policy in force is known, or can't be asked for.
    pub(crate) fn knows_policy(&self, now: Timestamp) -> bool {
        let heard = self.policy_version.is_some() && now.since(self.heard_at) < POLICY_KEPT;
        heard || self.store_away
    }

    /// Whether one more caller may wait for the store.
    pub(crate) const fn may_wait(&self) -> bool {
        !self.store_away && self.waiting < WAITING_MAX
    }

    /// The store gives no answer: what is known has to do.
    pub(crate) fn lose_store(&mut self, now: Timestamp) {
        self.store_away = true;
        self.price_waiting(now);
    }

    fn price_waiting(&mut self, now: Timestamp) {
        for report in std::mem::take(&mut self.unpriced) {
            self.price(report, now);
        }
    }

    /// Whether it is worth while to await the store when nothing is here.
    pub(crate) fn may_have_more(&self, now: Timestamp) -> bool {
        self.share.is_syncing() || !self.share.is_dry(now)
    }

    /// Takes up what the store said of the policy when it was asked at `asked_at`. Answers may overtake
    /// each other: an older policy is not taken up again.
    pub(crate) fn learn(&mut self, news: Option<News>, asked_at: Timestamp, now: Timestamp) {
        self.heard_at = self.heard_at.max(asked_at);
        let newer = |news: &News| self.policy_version.is_none_or(|known| news.version > known);
        if let Some(News { version, policy }) = news.filter(newer) {
            self.policy = Arc::new(policy);
            self.policy_version = Some(version);
        }
        self.price_waiting(now);
    }

    /// On what ground it is decided at present.
    pub(crate) fn mode(&self) -> Mode {
        if self.store_away { Mode::Degraded(self.policy.fail_mode) } else { Mode::Normal }
    }
}

impl Tally {
    /// Counts an answer: whether a new token was granted, and what was, or would have been, the reason
    /// against one.
    pub(crate) fn count(&mut self, granted: bool, denial: Option<Denial>) {
        self.granted = self.granted.saturating_add(u64::from(granted));
        if let Some(denial) = denial {
            *self.denied.entry(denial).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use semel_domain::name::{Dependency, Tenant};

    use super::*;

    const START: Timestamp = Timestamp::from_micros(1_000_000_000);

    fn account() -> Account {
        let downstream = Downstream {
            tenant: Tenant::parse("acme").expect("valid"),
            dependency: Dependency::parse("stripe").expect("valid"),
        };
        Account::new(downstream, Incarnation([1; 16]), &Arc::new(Semaphore::new(9)), START)
    }

    fn news(version: u64) -> Option<News> {
        Some(News { version, policy: Policy { attempts_max: 10, ..Policy::default() } })
    }

    #[test]
    fn an_answer_that_was_overtaken_brings_no_old_policy_back() {
        let account = account();
        let mut state = account.lock();
        for (version, known) in [(0, 0), (3, 3), (2, 3), (3, 3), (4, 4)] {
            state.learn(news(version), START, START);
            assert_eq!(state.policy_version, Some(known), "{version}");
        }
        state.learn(None, START, START);
        assert_eq!(state.policy_version, Some(4));
    }

    #[test]
    fn a_policy_is_known_for_as_long_as_it_must_be_in_force() {
        let account = account();
        let mut state = account.lock();
        assert!(!state.knows_policy(START), "the default is a guess");
        state.learn(news(1), START, START);
        let end = START.after(POLICY_KEPT);
        assert!(state.knows_policy(end.before(Duration::from_micros(1))));
        assert!(!state.knows_policy(end));
        // Nothing new is news as well.
        state.learn(None, end, end);
        assert!(state.knows_policy(end));
        state.store_away = true;
        assert!(state.knows_policy(end.after(10 * POLICY_KEPT)), "there is nobody to ask");
    }

    #[test]
    fn a_report_that_was_first_sent_elsewhere_leaves_no_trace() {
        let account = account();
        let mut state = account.lock();
        let (here, elsewhere) = (Incarnation([1; 16]), Incarnation([2; 16]));
        let report = |seq, node| Report {
            reporter: Incarnation([7; 16]),
            seq,
            requests: 10,
            successes: 0,
            spent_milli: 0,
            node,
        };
        assert!(!state.report(&report(5, Some(elsewhere)), here, START));
        assert!(state.report(&report(1, Some(here)), here, START));
        assert!(state.report(&report(2, None), here, START));
        assert!(!state.report(&report(1, None), here, START));
        assert_eq!(state.tally.requests, 20);
    }
}
