//! Updates: read all records of a batch, apply the transitions, write what changed, and run again
//! what was lost to other nodes.
//!
//! Invariants: a round is two statements, whatever the size of the batch; nothing is held in the
//! database between them; an item is answered once its record was written over the very version that
//! its transition saw, or was not written at all.

use std::sync::Arc;

use bytes::Bytes;
use semel_store::{StoreError, Transition, Update};
use tokio_postgres::Row;

use crate::batch::{Answers, Batch, Decision, Found, Write};
use crate::error::Failure;
use crate::session::{Duty, Named, Session};
use crate::shared::Shared;
use crate::write::{self, Lost};

/// How often a record may be lost to others before its update is refused. Each time, somebody else
/// was done.
const ROUNDS: u32 = 200;

/// Runs a batch to its end.
pub(crate) async fn run<T: Transition>(shared: &Shared, items: Vec<Update<T>>) -> Answers<T> {
    let mut batch = Batch::new(items);
    let keys = batch.keys();
    let mut pending: Vec<usize> = (0..keys.len()).collect();
    let turn = shared.turns.enter(keys);
    let patience = shared.options.silence_timeout();
    if tokio::time::timeout(patience, turn.come()).await.is_err() {
        fail(&mut batch, &pending, &unavailable("other updates of the same records take too long"));
        return batch.into_answers();
    }
    let began_us = shared.time.monotonic_us();
    let budget_us = shared.options.lock_timeout_ms.saturating_mul(1_000);
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
    let (slot, session) = match shared.session(Duty::Synced).await {
        Ok(session) => session,
        Err(failure) => {
            fail(batch, &pending, &failure.into_store_error());
            return Vec::new();
        }
    };
    let keys: Vec<Bytes> = pending.iter().map(|record| batch.key(*record).clone()).collect();
    let rows = session.query(Named::Read, &[&slices(&keys)]).await;
    let decisions = match rows.and_then(|rows| decide(shared, batch, &pending, &rows)) {
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
    // Side by side: they are different records.
    let (flushed, synced, relaxed) = tokio::join!(
        flush(&session, &kept),
        write::run(shared, Some((slot, Arc::clone(&session))), synced),
        write::run(shared, None, relaxed),
    );
    keep(batch, kept, flushed);
    let mut again = settle(shared, batch, synced);
    again.extend(settle(shared, batch, relaxed));
    again.sort_unstable();
    again
}

/// The keys as an array of the database.
fn slices(keys: &[Bytes]) -> Vec<&[u8]> {
    keys.iter().map(AsRef::as_ref).collect()
}

/// Decides what becomes of each record that was read.
fn decide<T: Transition>(
    shared: &Shared,
    batch: &mut Batch<T>,
    pending: &[usize],
    rows: &[Row],
) -> Result<Vec<Decision>, Failure> {
    let mut found: Vec<Option<Found<'_>>> = vec![None; pending.len()];
    let mut now_us = None;
    for row in rows {
        let (place, one) = parse(row)?;
        match place.checked_sub(1) {
            None => now_us = Some(shared.time.pass(one.version)),
            Some(place) => {
                if let Some(slot) = found.get_mut(place) {
                    *slot = Some(one);
                }
            }
        }
    }
    let now_us = now_us.ok_or_else(|| Failure::Invalid("a read without a time".to_owned()))?;
    for (record, found) in pending.iter().zip(&found) {
        let version = found.filter(|it| it.value.is_some()).map(|it| it.version);
        shared.wakes.note(&shared.hub, batch.key(*record), version);
    }
    let mut decide =
        |(record, found): (&usize, Option<Found<'_>>)| batch.decide(*record, found, now_us);
    Ok(pending.iter().zip(found).map(&mut decide).collect())
}

/// The place of the key, from 1, and the record; place 0 has the clock as its version.
fn parse(row: &Row) -> Result<(usize, Found<'_>), Failure> {
    let wrong = |error: tokio_postgres::Error| Failure::Invalid(error.to_string());
    let place: i64 = row.try_get(0).map_err(wrong)?;
    let found = Found {
        version: row.try_get(1).map_err(wrong)?,
        relaxed: row.try_get(2).map_err(wrong)?,
        value: row.try_get(3).map_err(wrong)?,
    };
    Ok((usize::try_from(place).unwrap_or(usize::MAX), found))
}

/// Waits until what was read is on disk, if somebody must know.
async fn flush(session: &Session, kept: &[Decision]) -> Result<(), Failure> {
    if kept.iter().any(|it| it.needs_flush) {
        session.query(Named::Flush, &[]).await?;
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
