//! One caller's batch on its way through the threads, whatever its transitions are.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::sync::oneshot;

use super::decider::View;
use crate::contract::{StoreError, Transition, Update};
use crate::limits;

/// A batch whose type the threads need not know.
pub(super) trait Job: Send {
    /// Applies the transitions in order, keeping their outcomes.
    fn decide(&mut self, view: &mut View<'_>);

    /// Sends the outcomes back, once. A failure replaces all but the refusals that stand already.
    fn answer(self: Box<Self>, result: Result<(), StoreError>);
}

/// The results of a batch, item by item.
pub(super) type Results<T> = Vec<Result<<T as Transition>::Outcome, StoreError>>;

/// A batch of one kind of transition.
pub(super) struct Batch<T: Transition> {
    updates: Vec<Update<T>>,
    results: Results<T>,
    caller: oneshot::Sender<Results<T>>,
}

impl<T: Transition> Batch<T> {
    pub(super) fn new(updates: Vec<Update<T>>, caller: oneshot::Sender<Results<T>>) -> Self {
        Self { results: Vec::with_capacity(updates.len()), updates, caller }
    }
}

impl<T: Transition> Job for Batch<T> {
    fn decide(&mut self, view: &mut View<'_>) {
        for update in &self.updates {
            self.results.push(decide(update, view));
        }
    }

    fn answer(mut self: Box<Self>, result: Result<(), StoreError>) {
        if let Err(error) = result {
            for result in self.results.iter_mut().filter(|result| result.is_ok()) {
                *result = Err(error.clone());
            }
        }
        // A caller that is gone has abandoned its answer, not its change.
        let _ = self.caller.send(self.results);
    }
}

fn decide<T: Transition>(
    update: &Update<T>,
    view: &mut View<'_>,
) -> Result<T::Outcome, StoreError> {
    limits::check_key(&update.key)?;
    // Neither a panic of the tree nor one of a caller's rule must take the thread that serves all.
    let read = || view.read(&update.key, update.durability);
    let old = catch_unwind(AssertUnwindSafe(read)).map_err(|_| {
        StoreError::Unavailable("the record could not be read: the tree panicked".to_owned())
    })??;
    let apply = || update.transition.apply(old.bytes(), view.now_us());
    let (change, outcome) = catch_unwind(AssertUnwindSafe(apply)).map_err(|_| {
        StoreError::Invalid("the transition panicked; this is a bug in its rule".to_owned())
    })?;
    limits::check_change(&change)?;
    if !change.is_keep() {
        view.write(&update.key, change, update.durability)?;
    }
    Ok(outcome)
}
