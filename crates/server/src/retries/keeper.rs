//! Carries the syncs of all accounts to the store: those that can't wait at once, the others when they
//! are due, many in one batch. At the node's end, everything goes back.
//!
//! A sync whose result is not known is sent again, unchanged, until it is, or until it is given up: then
//! what it carried is forfeited.

use std::collections::{BTreeMap, VecDeque};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use semel_domain::budget::{Command, DecodeError, Handing, Outcome};
use semel_domain::time::Timestamp;
use semel_store::{Store, StoreError};
use tokio_util::sync::CancellationToken;

use super::account::{Account, Schedule};
use super::budgets::Budgets;
use super::transition::{BudgetTransition, Decided};
use crate::breakers::Breakers;
use crate::settle;

/// Syncs in one batch.
const BATCH_MAX: usize = 256;
/// Batches under way at once.
const UNDER_WAY_MAX: usize = 4;
/// Batches that are not full are sent at least this long apart: of many busy budgets, what comes due
/// meanwhile shares a write of the store.
const SENT_APART: Duration = Duration::from_millis(5);
/// How long a sync is sent again before it is given up.
const SENT_FOR: Duration = Duration::from_secs(3);
/// The first pause before a sync is sent again; it doubles.
const PAUSE_MIN: Duration = Duration::from_millis(10);
/// The longest such pause.
const PAUSE_MAX: Duration = Duration::from_millis(250);
/// How long the last syncs may take when the node closes.
const CLOSING_FOR: Duration = Duration::from_secs(2);
/// How often accounts that nobody uses are looked for.
const FORGET_INTERVAL: Duration = Duration::from_secs(60);

/// Carries syncs for the whole node.
pub(crate) struct Keeper<S> {
    pub(crate) budgets: Arc<Budgets>,
    pub(crate) breakers: Arc<Breakers<S>>,
    pub(crate) store: Arc<S>,
}

/// A sync on its way.
struct Job {
    account: Arc<Account>,
    transition: BudgetTransition,
    first_sent: Timestamp,
    pause: Duration,
}

impl Job {
    fn brings_something(&self) -> bool {
        match &*self.transition.command {
            Command::Sync(sync) => !sync.deposits.is_empty() || !sync.settled.is_empty(),
            _ => true,
        }
    }
}

/// What is to be done at some time.
enum Due {
    Look(Arc<Account>),
    Send(Job),
}

type Answer = Result<Result<Decided, DecodeError>, StoreError>;

/// What the keeper has before it: by time, and in order of arrival.
#[derive(Default)]
struct Agenda {
    timed: BTreeMap<(Timestamp, u64), Due>,
    ready: VecDeque<Job>,
    arrivals: u64,
}

impl Agenda {
    fn at(&mut self, when: Timestamp, due: Due) {
        self.arrivals += 1;
        self.timed.insert((when, self.arrivals), due);
    }

    fn pop_due(&mut self, now: Timestamp) -> Option<Due> {
        let first = self.timed.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    fn next(&self) -> Option<Timestamp> {
        self.timed.first_key_value().map(|((when, _), _)| *when)
    }

    /// The next batch; if it is too early for one that is not full, only a full one.
    fn batch(&mut self, early: bool) -> Option<Vec<Job>> {
        let count = self.ready.len().min(BATCH_MAX);
        if count == 0 || (early && count < BATCH_MAX) {
            return None;
        }
        Some(self.ready.drain(..count).collect())
    }
}

impl<S: Store> Keeper<S> {
    /// Keeps until `closing`, then gives everything back.
    pub(crate) async fn run(&self, closing: &CancellationToken) {
        let mut agenda = Agenda::default();
        let mut under_way = FuturesUnordered::new();
        let mut forget_at = self.budgets.now().after(FORGET_INTERVAL);
        let (mut pause, mut early) = (pin!(tokio::time::sleep(SENT_APART)), false);
        loop {
            let now = self.budgets.now();
            for account in self.budgets.take_urgent() {
                self.look(account, &mut agenda, now);
            }
            while let Some(due) = agenda.pop_due(now) {
                match due {
                    Due::Look(account) => self.look(account, &mut agenda, now),
                    Due::Send(job) => agenda.ready.push_back(job),
                }
            }
            while under_way.len() < UNDER_WAY_MAX {
                let Some(batch) = agenda.batch(early) else { break };
                under_way.push(self.carry(batch));
                pause.set(tokio::time::sleep(SENT_APART));
                early = true;
            }
            if now >= forget_at {
                self.budgets.forget_idle();
                forget_at = now.after(FORGET_INTERVAL);
            }
            let next = agenda.next().map_or(forget_at, |next| next.min(forget_at));
            tokio::select! {
                biased;
                Some(results) = under_way.next() => self.take(results, &mut agenda),
                () = self.budgets.urgent.notified() => {}
                () = closing.cancelled() => break,
                () = &mut pause, if early => early = false,
                () = tokio::time::sleep(next.since(now)) => {}
            }
        }
        drop(under_way);
        self.close().await;
    }

    /// Sends an account's sync if it is due, and otherwise notes when it will be.
    fn look(&self, account: Arc<Account>, agenda: &mut Agenda, now: Timestamp) {
        let mut state = account.lock();
        if state.schedule == Schedule::Syncing {
            return;
        }
        match state.share.sync_at(&state.policy, now) {
            None => {
                state.schedule = Schedule::Idle;
                // Nobody would find out that it is back: the next use asks it first.
                state.store_away = false;
            }
            Some(due) if due > now => {
                // An account that was nudged is in the agenda already, for a time that has passed its
                // use: then this entry finds nothing to do.
                if state.schedule != Schedule::At(due) {
                    state.schedule = Schedule::At(due);
                    drop(state);
                    agenda.at(due, Due::Look(account));
                }
            }
            Some(_) => {
                let handing = if state.store_away { Handing::Nothing } else { Handing::Surplus };
                state.schedule = Schedule::Syncing;
                drop(state);
                agenda.ready.push_back(self.begin(account, handing, now));
            }
        }
    }

    fn begin(&self, account: Arc<Account>, handing: Handing, now: Timestamp) -> Job {
        let admitted = self.breakers.gate(&account.downstream).admitted_per_mille;
        let mut state = account.lock();
        let policy = Arc::clone(&state.policy);
        let sync = state.share.begin_sync(&policy, admitted, handing, now);
        let known_version = state.policy_version;
        drop(state);
        let transition = BudgetTransition { command: Arc::new(Command::Sync(sync)), known_version };
        Job { account, transition, first_sent: now, pause: PAUSE_MIN }
    }

    async fn carry(&self, jobs: Vec<Job>) -> Vec<(Job, Answer)> {
        let updates =
            jobs.iter().map(|job| job.transition.clone().into_update(job.account.key.clone()));
        let results = settle::answers(&*self.store, updates.collect()).await;
        jobs.into_iter().zip(results).collect()
    }

    /// Takes the results of a batch.
    fn take(&self, results: Vec<(Job, Answer)>, agenda: &mut Agenda) {
        for (job, answer) in results {
            let now = self.budgets.now();
            let account = Arc::clone(&job.account);
            let again = self.settle(job, answer, now);
            account.tell();
            match again {
                Some((again_at, job)) => agenda.at(again_at, Due::Send(job)),
                None => self.look(account, agenda, now),
            }
        }
    }

    /// Takes one result. What has to be sent again comes back, with when.
    fn settle(&self, mut job: Job, answer: Answer, now: Timestamp) -> Option<(Timestamp, Job)> {
        let mut state = job.account.lock();
        match answer {
            Ok(Ok(decided)) => {
                state.store_away = false;
                state.learn(decided.news, job.first_sent, now);
                if let Outcome::Sync(outcome) = &decided.outcome {
                    state.share.finish_sync(outcome, decided.now, now);
                }
            }
            Ok(Err(error)) => {
                tracing::error!(budget = ?job.account.downstream, %error, "a budget can't be read");
                state.lose_store(now);
                state.share.abandon_sync(now);
            }
            Err(error) => {
                if !state.store_away {
                    tracing::warn!(budget = ?job.account.downstream, %error, "a sync got no answer");
                }
                state.lose_store(now);
                if now.since(job.first_sent) < SENT_FOR {
                    drop(state);
                    let again_at = now.after(job.pause);
                    job.pause = job.pause.saturating_mul(2).min(PAUSE_MAX);
                    return Some((again_at, job));
                }
                state.share.abandon_sync(now);
            }
        }
        state.schedule = Schedule::Idle;
        None
    }

    /// Gives everything back. What gets no answer in time is lost, which errs towards granting less.
    async fn close(&self) {
        let now = self.budgets.now();
        let mut jobs = Vec::new();
        for account in self.budgets.all() {
            account.lock().schedule = Schedule::Syncing;
            let job = self.begin(account, Handing::All, now);
            if job.brings_something() {
                jobs.push(job);
            }
        }
        let carried = async {
            while !jobs.is_empty() {
                let rest = jobs.split_off(jobs.len().min(BATCH_MAX));
                self.carry(std::mem::replace(&mut jobs, rest)).await;
            }
        };
        if tokio::time::timeout(CLOSING_FOR, carried).await.is_err() {
            tracing::warn!("the store did not take all budgets back in time");
        }
    }
}
