//! Updates: read all records of a batch, apply the transitions, write what changed, and run again
//! what was lost to other nodes.
//!
//! Invariants: a round is two statements, whatever the size of the batch, shared with other batches; nothing is held in the
//! database between them; an item is answered once its record was written over the very version that
//! its transition saw, or was not written at all.

use std::time::Duration;

use semel_store::{StoreError, Transition, Update};

use crate::batch::{Answers, Batch, Decision, Write};
use crate::error::Failure;
use crate::lane::Lane;
use crate::patience::Limits;
use crate::read::Records;
use crate::session::{Duty, Named};
use crate::shared::Shared;
use crate::write::{Lost, Written};

/// How often a record may be lost to others before its update is refused. Each time, somebody else
/// was done.
const ROUNDS: u32 = 200;

/// Runs a batch to its end.
pub(crate) async fn run<T: Transition>(shared: &Shared, items: Vec<Update<T>>) -> Answers<T> {
    let mut batch = Batch::new(items);
    let keys = batch.keys();
    let mut pending: Vec<usize> = (0..keys.len()).collect();
    let turn = shared.turns.enter(keys);
    let silence = shared.options.silence_timeout();
    let patience = batch.patience().map_or(silence, |patience| patience.min(silence));
    if tokio::time::timeout(patience, turn.come()).await.is_err() {
        fail(&mut batch, &pending, &unavailable("other updates of the same records take too long"));
        return batch.into_answers();
    }
    let began_us = shared.time.monotonic_us();
    let budget_us =
        Limits::of(&shared.options).within(batch.patience()).lock_ms.saturating_mul(1_000);
    for _ in 0..ROUNDS {
        if pending.is_empty() {
            return batch.into_answers();
        }
        pending = round(shared, &mut batch, pending).await;
        if shared.time.monotonic_us().saturating_sub(began_us) > budget_us {
            break;
        }
    }
    fail(&mut batch, &pending, &unavailable("other nodes write the same records all the time"));
    batch.into_answers()
}

/// Runs one round for the records `pending`; returns those that must be run again.
async fn round<T: Transition>(
    shared: &Shared,
    batch: &mut Batch<T>,
    pending: Vec<usize>,
) -> Vec<usize> {
    let keys = pending.iter().map(|record| batch.key(*record).clone()).collect();
    let read =
        shared.reads.ask(keys, batch.patience()).await.unwrap_or_else(|| Err(Failure::closed()));
    let decisions = match read.and_then(|read| decide(shared, batch, &pending, &read)) {
        Ok(decisions) => decisions,
        Err(Failure::Again(_)) => return pending,
        Err(failure) => {
            fail(batch, &pending, &failure.into_store_error());
            return Vec::new();
        }
    };
    let (kept, written): (Vec<_>, Vec<_>) =
        decisions.into_iter().partition(|it| it.write == Write::Nothing);
    let (relaxed, synced): (Vec<_>, Vec<_>) = written.into_iter().partition(|it| it.relaxed);
    let patience = batch.patience();
    // Side by side: they are different records.
    let (flushed, synced, relaxed) = tokio::join!(
        flush(shared, &kept, patience),
        write(&shared.synced, synced, patience),
        write(&shared.relaxed, relaxed, patience),
    );
    let (Some(synced), Some(relaxed)) = (synced, relaxed) else {
        let closed = "the store was closed before it answered".to_owned();
        fail(batch, &pending, &StoreError::Unknown(closed));
        return Vec::new();
    };
    keep(batch, kept, flushed);
    let mut again = settle(shared, batch, synced);
    again.extend(settle(shared, batch, relaxed));
    again.sort_unstable();
    again
}

/// Decides what becomes of each record that was read.
fn decide<T: Transition>(
    shared: &Shared,
    batch: &mut Batch<T>,
    pending: &[usize],
    read: &Records,
) -> Result<Vec<Decision>, Failure> {
    let mut decide = |(place, record): (usize, &usize)| {
        let found = read.get(place)?;
        let version = found.filter(|it| it.value.is_some()).map(|it| it.version);
        shared.wakes.note(&shared.hub, batch.key(*record), version);
        Ok(batch.decide(*record, found, read.now_us))
    };
    pending.iter().enumerate().map(&mut decide).collect()
}

/// Writes what was decided, together with what other batches write; `None`: the store is closed.
async fn write(
    lane: &Lane<Decision, Written>,
    decisions: Vec<Decision>,
    patience: Option<Duration>,
) -> Option<Written> {
    if decisions.is_empty() {
        return Some(Vec::new());
    }
    lane.ask(decisions, patience).await
}

/// Waits until what was read is on disk, if somebody must know.
async fn flush(
    shared: &Shared,
    kept: &[Decision],
    patience: Option<Duration>,
) -> Result<(), Failure> {
    if kept.iter().any(|it| it.needs_flush) {
        let (_, session) = shared.session(Duty::Synced).await?;
        session.query(Named::Flush, patience, &[]).await?;
    }
    Ok(())
}

fn keep<T: Transition>(batch: &mut Batch<T>, kept: Vec<Decision>, flushed: Result<(), Failure>) {
    let error = flushed.err().map(Failure::into_store_error);
    for decision in kept {
        match &error {
            Some(error) if decision.needs_flush => batch.fail(decision.record, error),
            _ => batch.accept(decision.record),
        }
    }
}

/// Answers what was written, wakes who waits for it, and returns what must be run again.
fn settle<T: Transition>(
    shared: &Shared,
    batch: &mut Batch<T>,
    written: Vec<(Decision, Result<i64, Lost>)>,
) -> Vec<usize> {
    let mut again = Vec::new();
    for (decision, result) in written {
        match result {
            Ok(version) => {
                if decision.changed {
                    wake(shared, &decision, version);
                }
                batch.accept(decision.record);
            }
            Err(Lost::Again) => again.push(decision.record),
            Err(Lost::Failed(error)) => batch.fail(decision.record, &error),
        }
    }
    again
}

fn wake(shared: &Shared, decision: &Decision, version: i64) {
    let key = &decision.key;
    let left = (decision.value.is_some()).then_some(version);
    shared.wakes.committed(&shared.hub, key, left);
    shared.hub.wake(key);
    // Inserts are most of the writes, and hardly anybody watches what is absent: polling serves them. But
    // who does so here is hardly alone.
    if decision.write != Write::Insert || shared.hub.is_watched(key) {
        shared.wakes.announce(key);
    }
}

fn fail<T: Transition>(batch: &mut Batch<T>, records: &[usize], error: &StoreError) {
    for record in records {
        batch.fail(*record, error);
    }
}

fn unavailable(text: &str) -> StoreError {
    StoreError::Unavailable(text.to_owned())
}
