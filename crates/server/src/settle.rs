//! Unknown commits are settled by running the same transition again, which recognises itself: until it is
//! known, or the call's time is up.

use std::time::Duration;

use semel_domain::time::Timestamp;
use semel_store::{Clock, Store, StoreError, Transition, Update};

use crate::deadline::Deadline;
use crate::refusal::Refusal;

/// How long an unknown commit is settled for when the call has no deadline.
const SETTLE_FOR: Duration = Duration::from_secs(10);
/// The first pause before an unknown commit is settled; it doubles.
const SETTLE_PAUSE_MIN: Duration = Duration::from_millis(5);
/// The longest such pause.
const SETTLE_PAUSE_MAX: Duration = Duration::from_millis(250);
/// A store that gives no answer for this long counts as out of reach: what it did is unknown then.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// How long an unknown commit is settled for: until the deadline, or for a while if there is none.
pub(crate) struct Patience<'a> {
    clock: &'a dyn Clock,
    deadline: Deadline,
    until: Timestamp,
    pause: Duration,
}

impl<'a> Patience<'a> {
    pub(crate) fn new(clock: &'a dyn Clock, deadline: Deadline) -> Self {
        let until = Timestamp::from_micros(clock.monotonic_us()).after(SETTLE_FOR);
        Self { clock, deadline, until, pause: SETTLE_PAUSE_MIN }
    }

    /// Pauses before the next try. False: there is no time for one.
    pub(crate) async fn pause(&mut self) -> bool {
        let now = Timestamp::from_micros(self.clock.monotonic_us());
        let left = self.deadline.left_for_work(self.clock).unwrap_or_else(|| self.until.since(now));
        if left <= self.pause {
            return false;
        }
        tokio::time::sleep(self.pause).await;
        self.pause = self.pause.saturating_mul(2).min(SETTLE_PAUSE_MAX);
        true
    }
}

/// The store's answers to a batch, or, if it gives none in time, that they are unknown.
pub(crate) async fn answers<S: Store, T: Transition>(
    store: &S,
    mut batch: Vec<Update<T>>,
) -> Vec<Result<T::Outcome, StoreError>> {
    let items = batch.len();
    batch.iter_mut().for_each(|update| update.patience = Some(ANSWER_MAX));
    let answers = tokio::time::timeout(ANSWER_MAX, store.update(batch)).await;
    answers.unwrap_or_else(|_| {
        let late = || StoreError::Unknown(format!("no answer within {ANSWER_MAX:?}"));
        (0..items).map(|_| Err(late())).collect()
    })
}

/// Carries one update out, and settles it.
pub(crate) async fn update<S: Store, T: Transition>(
    store: &S,
    clock: &dyn Clock,
    deadline: Deadline,
    update: Update<T>,
) -> Result<T::Outcome, Refusal> {
    let mut patience = Patience::new(clock, deadline);
    loop {
        let result = answers(store, vec![update.clone()]).await.into_iter().next();
        match result.unwrap_or_else(|| Err(StoreError::Unknown("no result".into()))) {
            Err(StoreError::Unknown(_)) if patience.pause().await => {}
            Err(error) => return Err(refuse(&error)),
            Ok(outcome) => return Ok(outcome),
        }
    }
}

/// A store's error for a caller. The engine's own words go to the log: they may name files.
pub(crate) fn refuse(error: &StoreError) -> Refusal {
    tracing::warn!(%error, "the store gave no answer");
    match error {
        StoreError::Unavailable(_) => Refusal::store_unavailable("it is unavailable"),
        StoreError::Unknown(_) => Refusal::store_unavailable("the commit's result is unknown"),
        StoreError::Invalid(_) => Refusal::store_unavailable("it refused the record"),
    }
}
