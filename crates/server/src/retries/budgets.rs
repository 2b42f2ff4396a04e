//! All budgets that this node deals with, and the tokens and roots that it remembers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use foldhash::quality::RandomState;
use semel_domain::budget::Incarnation;
use semel_domain::downstream::Downstream;
use semel_domain::time::Timestamp;
use semel_store::Clock;
use tokio::sync::{Notify, Semaphore};

use super::account::{Account, Schedule, State};
use super::roots::Roots;
use super::tokens::Tokens;
use crate::nodes::ClockGuard;
use crate::options::RetryOptions;
use crate::refusal::Refusal;

/// A budget that was not used for so long is forgotten: longer than a report can be under way.
const FORGET_AFTER: Duration = Duration::from_secs(900);

/// The budgets of a node, shared by its threads.
pub(crate) struct Budgets {
    pub(crate) node: Incarnation,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) clock_guard: Arc<ClockGuard>,
    pub(crate) tokens: Tokens,
    pub(crate) roots: Roots,
    /// Tells the keeper that an account can't wait.
    pub(crate) urgent: Notify,
    urgent_accounts: Mutex<Vec<Arc<Account>>>,
    accounts: DashMap<Downstream, Arc<Account>, RandomState>,
    accounts_max: usize,
    /// For the clients of all budgets.
    clients: Arc<Semaphore>,
}

impl Budgets {
    pub(crate) fn new(
        node: Incarnation,
        clock_guard: Arc<ClockGuard>,
        options: &RetryOptions,
    ) -> Self {
        Self {
            node,
            clock: Arc::clone(clock_guard.clock()),
            clock_guard,
            tokens: Tokens::new(options.recent_tokens_max),
            roots: Roots::new(options.recent_roots_max),
            urgent: Notify::new(),
            urgent_accounts: Mutex::default(),
            accounts: DashMap::default(),
            accounts_max: options.budgets_max,
            clients: Arc::new(Semaphore::new(options.clients_max)),
        }
    }

    /// This node's monotonic time.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.clock.monotonic_us())
    }

    /// The account of a budget, made when it is first asked for.
    pub(crate) fn account(&self, downstream: &Downstream) -> Result<Arc<Account>, Refusal> {
        if let Some(account) = self.accounts.get(downstream) {
            return Ok(Arc::clone(&account));
        }
        if self.accounts.len() >= self.accounts_max {
            return Err(Refusal::overloaded());
        }
        let new = || Account::new(downstream.clone(), self.node, &self.clients, self.now());
        match self.accounts.entry(downstream.clone()) {
            Entry::Occupied(account) => Ok(Arc::clone(account.get())),
            Entry::Vacant(place) => Ok(Arc::clone(&place.insert(Arc::new(new())))),
        }
    }

    /// Every account, for the node's end.
    pub(crate) fn all(&self) -> Vec<Arc<Account>> {
        let mut all: Vec<_> =
            self.accounts.iter().map(|account| Arc::clone(account.value())).collect();
        all.sort_by(|one, other| one.key.cmp(&other.key));
        all
    }

    /// Has the keeper look at an account, if its state asks for that: after each use.
    pub(crate) fn nudge(&self, account: &Arc<Account>, state: &mut State, now: Timestamp) {
        let urgent = match state.schedule {
            Schedule::Urgent | Schedule::Syncing => false,
            Schedule::Idle => true,
            Schedule::At(_) => {
                state.share.sync_at(&state.policy, now).is_some_and(|due| due <= now)
            }
        };
        if urgent {
            state.schedule = Schedule::Urgent;
            let mut accounts = self.urgent_accounts.lock().unwrap_or_else(PoisonError::into_inner);
            accounts.push(Arc::clone(account));
            self.urgent.notify_one();
        }
    }

    /// Has the keeper ask the store about an account, however long that was not used.
    pub(crate) fn wake(&self, account: &Arc<Account>, state: &mut State, now: Timestamp) {
        state.share.wake(now);
        self.nudge(account, state, now);
    }

    /// The accounts that can't wait: each is here once at the most.
    pub(crate) fn take_urgent(&self) -> Vec<Arc<Account>> {
        std::mem::take(&mut self.urgent_accounts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Forgets accounts that have not been used for long.
    pub(crate) fn forget_idle(&self) {
        let now = self.now();
        self.accounts.retain(|_, account| {
            let state = account.lock();
            state.schedule != Schedule::Idle || now.since(state.share.used_at()) < FORGET_AFTER
        });
    }
}
