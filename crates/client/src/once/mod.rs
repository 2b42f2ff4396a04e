//! Makes a write happen once: claims its key, does the work while the lease is renewed, and completes; or
//! replays what was done before.
//!
//! # What it promises
//!
//! - **The work runs while its claim is held.** Its lease is counted from before it was asked for, renewed at
//!   each third, and if it is lost, the work is dropped or let end, as you choose; its completion is fenced.
//! - **What is not known to be undone is never said to be.** Work that is not over at the deadline is
//!   completed as unknown. A panic goes through, and like a dropped future it lets the lease lapse. Only
//!   [`Work::NotDone`] gives the claim back.
//! - **That the work ran is never hidden.** If Semel is out of reach when the work has ended, completing goes
//!   on until the deadline, and at least for a grace; then [`Record::Unconfirmed`] says so.
//! - **One deadline for all of it.** The claim, the wait and the work are over at the deadline, which is the
//!   current one of whatever the work calls. Completing alone has its own time: what is done is not given up.
//! - **It starts no task.** Renewing happens inside the future of [`Once::run`]: work that blocks its thread
//!   blocks it too, so give such work a thread of its own.
//!
//! # Layout
//!
//! - `opening`: work to do, or an answer
//! - `held`: the claim as the work holds it
//! - `keeper`: the renewing of its lease
//! - `ending`: the work beside that renewing, and how it ends
//! - `outcome`: what came of it

mod ending;
mod held;
mod keeper;
mod opening;
mod outcome;

use std::time::{Duration, SystemTime};

pub(crate) use self::ending::{Done, End, drive};
pub use self::held::{CheckpointError, Held};
pub(crate) use self::keeper::Keeper;
pub(crate) use self::opening::Opening;
pub use self::outcome::{Outcome, Record, Unknown};
use crate::clock::Stopwatch;
use crate::connection::{Client, Error};
use crate::deadline::Deadline;
use crate::fingerprint::Fingerprint;
use crate::keys::{Claim, ClaimAnswer, ClaimRequest, Claiming, OnOwnerLost, Work, claim_options};
use crate::metrics::{Disposition, KeyMetrics, Metrics};

/// The time for everything, if no deadline is given.
const TIME: Duration = Duration::from_secs(60);
/// The least time for completing, also after the deadline.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// What to do with work whose lease is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseLoss {
    /// Drop it where it stands: [`Outcome::Unknown`].
    #[default]
    Cancel,
    /// Let it end, or see the loss itself by [`Held::lease_lost`]. If another took over, its completion is
    /// refused.
    LetEnd,
}

/// A write that is to happen once. Made by [`Client::once`].
#[derive(Clone, Debug)]
#[must_use = "nothing happens until it is run"]
pub struct Once {
    client: Client,
    request: ClaimRequest,
    deadline: Option<Deadline>,
    claim_time: Option<Duration>,
    claim_by: Option<Deadline>,
    grace: Duration,
    lease_loss: LeaseLoss,
    metrics: Option<KeyMetrics>,
}

impl Client {
    /// A write that is to happen once: an operation, and a key that stands for the intent and is the same on
    /// every attempt. It needs a [`fingerprint`](Once::fingerprint).
    pub fn once(&self, operation: &str, key: &str) -> Once {
        Once {
            client: self.clone(),
            request: ClaimRequest::new(operation, key),
            deadline: None,
            claim_time: None,
            claim_by: None,
            grace: GRACE,
            lease_loss: LeaseLoss::default(),
            metrics: None,
        }
    }
}

impl Once {
    claim_options!(request.claiming: lease, retention, wait, first_sent, on_owner_lost, label);

    /// What the key stands for: [`ClaimRequest::fingerprint`].
    pub fn fingerprint(mut self, fingerprint: Fingerprint) -> Self {
        self.request = self.request.fingerprint(fingerprint);
        self
    }

    /// When all has to be over: waiting, claiming, and the work. Default: a minute from the start. An earlier
    /// [current](Deadline::current) deadline stays in force; and this one is the current one of the work.
    pub const fn deadline(mut self, deadline: Deadline) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// How long claiming may take, beside what is [waited](Self::wait) for somebody else. Default: until the
    /// deadline. Whoever would rather be refused soon than wait for a Semel that is out of reach sets less.
    pub const fn claim_within(mut self, time: Duration) -> Self {
        self.claim_time = Some(time);
        self
    }

    /// For how long completing is tried at the least, also after the deadline. Default: 5 s.
    pub const fn completion_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// What to do with the work if its lease is lost. Default: [`LeaseLoss::Cancel`].
    pub const fn on_lease_lost(mut self, lease_loss: LeaseLoss) -> Self {
        self.lease_loss = lease_loss;
        self
    }

    /// Measures with these instruments. Default: nothing is measured.
    pub fn measured(mut self, metrics: &Metrics) -> Self {
        self.metrics = Some(metrics.operation(&self.request.operation));
        self
    }

    /// Claims it so.
    pub(crate) fn claiming(mut self, claiming: Claiming) -> Self {
        self.request = self.request.claiming(claiming);
        self
    }

    /// No claim is waited for after this, however long the work may take.
    pub(crate) const fn claim_by(mut self, moment: Deadline) -> Self {
        self.claim_by = Some(moment);
        self
    }

    /// Claims the key and does the work, or tells what others did. The work is called once at the most.
    ///
    /// # Errors
    ///
    /// The claim was refused, or no node answered it before the deadline: the work did not run. Once it has
    /// begun, all that can happen is an [`Outcome`].
    pub async fn run<F, W>(self, work: F) -> Result<Outcome, Error>
    where
        F: FnOnce(Held) -> W,
        W: Future<Output = Work>,
    {
        let counted = self.metrics.as_ref().map(KeyMetrics::begin);
        let outcome = self.perform(work).await;
        if let Some(counted) = counted {
            counted.end(Disposition::of(&outcome));
        }
        outcome
    }

    /// The same, counted by the caller.
    pub(crate) async fn perform<F, W>(self, work: F) -> Result<Outcome, Error>
    where
        F: FnOnce(Held) -> W,
        W: Future<Output = Work>,
    {
        let deadline = self.deadline.unwrap_or_else(|| Deadline::within(TIME)).within_current();
        let held = match Opening::of(self.claim(deadline).await?) {
            Opening::Work(held) => held,
            Opening::Answer(outcome) => return Ok(outcome),
        };
        if deadline.is_past() {
            return Ok(self.finish(held.claim(), End::NotBegun, deadline).await);
        }
        let mut keeper = Keeper::new(&self.client, &held);
        match keeper.confirm(deadline).await {
            Err(error) if error.voids_claim() => {
                return Ok(Outcome::InProgress { retry_after: Duration::ZERO });
            }
            confirmed => confirmed?,
        }
        let work = async { work(held.clone()).await };
        let end = drive(work, keeper, deadline, self.lease_loss).await;
        Ok(self.finish(held.claim(), end, deadline).await)
    }

    async fn claim(&self, deadline: Deadline) -> Result<ClaimAnswer, Error> {
        let since = Stopwatch::start();
        let most = self.claim_time.map(|time| time.saturating_add(self.request.waits()));
        let moments = [most.map(Deadline::within), self.claim_by];
        let claim_by = moments.into_iter().flatten().fold(deadline, Deadline::min);
        let answer = self.client.claim(&self.request, claim_by).await;
        if let Some(metrics) = &self.metrics {
            metrics.claimed(since.elapsed(), &answer);
        }
        answer
    }

    async fn finish(&self, claim: &Claim, end: End, deadline: Deadline) -> Outcome {
        let Some(done) = end.done(claim.disposition) else {
            return Outcome::Unknown(Unknown::LeaseLost);
        };
        let since = Stopwatch::start();
        let until = Deadline::within(deadline.left().max(self.grace));
        let completed = self.client.complete(claim, &done.work, until).await;
        if let Some(metrics) = &self.metrics {
            metrics.completed(since.elapsed(), &completed);
        }
        done.recorded(completed, claim.fence)
    }
}
