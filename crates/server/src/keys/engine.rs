//! A command carried out: queued, decided in the store, its unknown commits settled, its waiting done.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_domain::keys::layout::Address;
use semel_domain::keys::{ClaimOutcome, Command, DecodeError, InProgress, Outcome, ReplayOutcome};
use semel_domain::limits::WAIT_CLAIM_MIN;
use semel_domain::time::Timestamp;
use semel_store::{Clock, Store, StoreError, Update};
use tokio_util::sync::CancellationToken;

use super::transition::{Decided, KeyTransition};
use super::waiters::WaiterCounts;
use crate::batcher::{Batcher, NotQueued, Priority};
use crate::deadline::Deadline;
use crate::nodes::ClockGuard;
use crate::refusal::{Reason, Refusal};
use crate::settle::{Patience, refuse};

/// A waiter looks again this often even if no wake-up comes: a missed one costs time, not the answer.
const RECHECK: Duration = Duration::from_secs(2);

/// Carries commands out for one serving thread.
pub(crate) struct Engine<S> {
    pub(crate) store: Arc<S>,
    pub(crate) batcher: Arc<Batcher<KeyTransition>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) clock_guard: Arc<ClockGuard>,
    pub(crate) waiters: Arc<WaiterCounts>,
    pub(crate) closing: CancellationToken,
}

/// The key that a call is about, and how long the call may take.
pub(crate) struct Call {
    pub(crate) address: Arc<Address>,
    pub(crate) record_key: Bytes,
    pub(crate) deadline: Deadline,
}

impl Call {
    pub(crate) fn new(address: Address, deadline: Deadline) -> Self {
        Self { record_key: address.record_key(), address: Arc::new(address), deadline }
    }
}

impl<S: Store> Engine<S> {
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.clock.now_us())
    }

    /// What waits are measured with: whoever sets the wall clock makes none of them longer.
    fn monotonic(&self) -> Timestamp {
        Timestamp::from_micros(self.clock.monotonic_us())
    }

    /// Decides one command. An unknown commit is settled by running the same transition again, which
    /// recognises itself.
    pub(crate) async fn decide(&self, call: &Call, command: Command) -> Result<Decided, Refusal> {
        self.admit(call, &command)?;
        let mut priority = priority(&command);
        let transition =
            KeyTransition { address: Arc::clone(&call.address), command: Arc::new(command) };
        let update = transition.into_update(call.record_key.clone());
        let mut patience = self.patience(call.deadline);
        loop {
            match self.submit(update.clone(), priority, call.deadline).await {
                Ok(result) if !is_unknown(&result) || !patience.pause().await => {
                    return finish(result);
                }
                // It may have been carried out, so it can't be shed any more.
                Ok(_) => priority = Priority::Required,
                Err(NotQueued::Full) => return Err(Refusal::overloaded()),
                Err(NotQueued::Closed) => return Err(Refusal::shutting_down()),
            }
        }
    }

    /// Waits for the store as long as the call has time to bring an answer home. An update that was not
    /// yet on its way then is withdrawn.
    async fn submit(
        &self,
        update: Update<KeyTransition>,
        priority: Priority,
        deadline: Deadline,
    ) -> Result<Answer, NotQueued> {
        let left = deadline.left_for_work(&*self.clock);
        let submitted = self.batcher.submit(Update { patience: left, ..update }, priority);
        let Some(left) = left else { return submitted.await };
        let answered = tokio::time::timeout(left, submitted).await;
        answered.unwrap_or_else(|_| Ok(Err(out_of_time())))
    }

    /// Decides many commands in one batch, with a result for each. Commands on the same key see each
    /// other, in order.
    pub(crate) async fn decide_all(
        &self,
        deadline: Deadline,
        commands: Vec<(Address, Command)>,
    ) -> Vec<Result<Decided, Refusal>> {
        let update = |(address, command): (Address, Command)| {
            let record_key = address.record_key();
            let (address, command) = (Arc::new(address), Arc::new(command));
            KeyTransition { address, command }.into_update(record_key)
        };
        let updates: Vec<_> = commands.into_iter().map(update).collect();
        let mut results = self.update(updates.clone(), deadline).await;
        let mut patience = self.patience(deadline);
        while results.iter().any(is_unknown) && patience.pause().await {
            let unknown = || results.iter().map(is_unknown);
            let again = updates.iter().zip(unknown()).filter(|(_, unknown)| *unknown);
            let again = again.map(|(update, _)| update.clone()).collect();
            let mut settled = self.update(again, deadline).await.into_iter();
            for result in results.iter_mut().filter(|result| is_unknown(result)) {
                if let Some(known) = settled.next() {
                    *result = known;
                }
            }
        }
        results.into_iter().map(finish).collect()
    }

    /// The store's answers, or, when the call has no more time for them, that they are unknown.
    async fn update(
        &self,
        mut batch: Vec<Update<KeyTransition>>,
        deadline: Deadline,
    ) -> Vec<Answer> {
        let items = batch.len();
        let left = deadline.left_for_work(&*self.clock);
        batch.iter_mut().for_each(|update| update.patience = left);
        let answers = self.store.update(batch);
        let Some(left) = left else { return answers.await };
        let answers = tokio::time::timeout(left, answers).await;
        answers.unwrap_or_else(|_| (0..items).map(|_| Err(out_of_time())).collect())
    }

    /// Decides a claim or a replay; while somebody else is at work, waits for the end of that: for at
    /// most `wait`, and never past the deadline. With the outcome comes when the store was asked for
    /// it, by this node's clock.
    pub(crate) async fn decide_waiting(
        &self,
        call: &Call,
        mut command: Command,
        wait: Duration,
    ) -> Result<(Outcome, Timestamp), Refusal> {
        let asked_at = self.now();
        let mut seen = self.decide(call, command.clone()).await?.outcome;
        if wait.is_zero() || in_progress(&seen).is_none() {
            return Ok((seen, asked_at));
        }
        let end = self.monotonic().after(self.wait_bound(call.deadline, wait));
        let _place = self.waiters.enter(&call.record_key, &call.address.tenant)?;
        loop {
            // Watch first, look second: what changes in between wakes the watch.
            let mut watch = self.store.watch(&call.record_key);
            self.clock_guard.check()?;
            let asked_at = self.now();
            if let Command::Claim(claim) = &mut command {
                claim.may_acquire = end.since(self.monotonic()) >= WAIT_CLAIM_MIN;
            }
            match self.decide(call, command.clone()).await {
                Ok(decided) => seen = decided.outcome,
                // There was no time left for one more look, which could have changed nothing.
                Err(_) if may_only_look(&command) && self.is_out_of_time(call) => {}
                Err(refusal) => return Err(refusal),
            }
            let left = end.since(self.monotonic());
            let held = match in_progress(&seen) {
                Some(held) if !left.is_zero() => held,
                _ => return Ok((seen, asked_at)),
            };
            // Who may only look has nothing to hope for from the end of a lease.
            let next = if may_acquire(&command) { left.min(held.lease_left) } else { left };
            tokio::select! {
                biased;
                () = watch.changed() => {}
                () = tokio::time::sleep(next.min(RECHECK)) => {}
                () = self.closing.cancelled() => return Err(Refusal::shutting_down()),
            }
        }
    }

    fn is_out_of_time(&self, call: &Call) -> bool {
        call.deadline.left_for_work(&*self.clock).is_some_and(|left| left.is_zero())
    }

    fn wait_bound(&self, deadline: Deadline, wait: Duration) -> Duration {
        deadline.left_for_work(&*self.clock).map_or(wait, |left| wait.min(left))
    }

    /// Refuses a call whose time can't be enough for the work in front of it.
    fn admit(&self, call: &Call, command: &Command) -> Result<(), Refusal> {
        let Some(left) = call.deadline.left(&*self.clock) else { return Ok(()) };
        let expected = match priority(command) {
            Priority::Sheddable => self.batcher.expected(),
            Priority::Required => Duration::ZERO,
        };
        if left <= expected {
            let message = format!("{left:?} are left, and the work ahead takes about {expected:?}");
            return Err(Refusal::new(Reason::DeadlineTooShort, message));
        }
        Ok(())
    }

    fn patience(&self, deadline: Deadline) -> Patience<'_> {
        Patience::new(&*self.clock, deadline)
    }
}

/// What the store says of one update.
type Answer = Result<Result<Decided, DecodeError>, StoreError>;

fn out_of_time() -> StoreError {
    StoreError::Unknown("it gave no answer in the call's time".into())
}

fn is_unknown(answer: &Answer) -> bool {
    matches!(answer, Err(StoreError::Unknown(_)))
}

fn finish(answer: Answer) -> Result<Decided, Refusal> {
    match answer {
        Ok(Ok(decided)) => Ok(decided),
        Ok(Err(error)) => Err(Refusal::new(Reason::RecordUnreadable, error.to_string())),
        Err(error) => Err(refuse(&error)),
    }
}

/// What ends claimed work is never shed: its caller can't take the work back.
fn priority(command: &Command) -> Priority {
    match command {
        Command::Complete(_) | Command::Renew(_) | Command::Release(_) => Priority::Required,
        _ => Priority::Sheddable,
    }
}

fn may_acquire(command: &Command) -> bool {
    !matches!(command, Command::Claim(claim) if !claim.may_acquire)
}

/// Whether a command leaves its record as it is, whatever that says.
fn may_only_look(command: &Command) -> bool {
    matches!(command, Command::Replay(_)) || !may_acquire(command)
}

fn in_progress(outcome: &Outcome) -> Option<InProgress> {
    match outcome {
        Outcome::Claim(ClaimOutcome::InProgress(in_progress))
        | Outcome::Replay(ReplayOutcome::InProgress(in_progress)) => Some(*in_progress),
        _ => None,
    }
}
