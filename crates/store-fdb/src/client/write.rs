//! The write of a round: a few transactions for the records of all batches that ask at the same time.
//!
//! Each carries records that were read at the same moment, which is its own moment, too, and declares
//! that it read the heads of exactly those. So it is committed only if none of them was changed since.
//! If some were, the database says which, and the others are written again at once: they are as they
//! were.

use std::time::Duration;

use bytes::Bytes;
use foundationdb::options::{ConflictRangeType, TransactionOption};
use foundationdb::{FdbResult, Transaction};
use futures::future::join_all;
use semel_store::IndexChange;
use semel_store::optimistic::{Decision, Lost, Write, parts};

use super::commit::{Fate, commit};
use super::shared::Shared;
use crate::attempt::Marker;
use crate::head::{Stored, is_chunked};
use crate::layout::{Layout, after, is_within};

/// What one transaction may carry before it is closed; a single heavier record still fits. The database
/// advises to stay below 1 MB, and takes 10 MB.
const TRANSACTION_BYTES: usize = 900_000;
/// How many transactions are under way for one write.
const SIDE_BY_SIDE: usize = 4;
/// How often what did not conflict is written again, before its batch reads again.
const TRIES: usize = 4;

/// The records that one transaction writes, as the moment of their read demands it.
pub(crate) struct Part<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) snapshot: i64,
    pub(crate) decisions: Vec<&'a Decision>,
    pub(crate) slot: u32,
    pub(crate) attempt: u64,
}

/// Writes the records of `decisions`; returns for each its new version, or why it was not written.
pub(crate) async fn run(
    shared: &Shared,
    decisions: &[Decision],
    patience: Option<Duration>,
) -> Vec<Result<i64, Lost>> {
    let within = shared.options.within(patience);
    let mut places: Vec<usize> = (0..decisions.len()).collect();
    places.sort_by_key(|place| decisions.get(*place).map(|it| it.snapshot));
    let sorted: Vec<&Decision> = places.iter().filter_map(|place| decisions.get(*place)).collect();
    let of_moment = sorted.chunk_by(|one, other| one.snapshot == other.snapshot);
    let weight_of = |decision: &Decision| weight(&shared.layout, decision);
    let parts: Vec<&[&Decision]> =
        of_moment.flat_map(|decisions| parts(decisions, TRANSACTION_BYTES, weight_of)).collect();
    let mut written = Vec::with_capacity(decisions.len());
    for some in parts.chunks(SIDE_BY_SIDE) {
        let all = join_all(some.iter().map(|part| write_part(shared, part, within)));
        written.extend(all.await.into_iter().flatten());
    }
    let mut results: Vec<_> = decisions.iter().map(|_| Err(Lost::Again)).collect();
    for (place, result) in places.into_iter().zip(written) {
        if let Some(slot) = results.get_mut(place) {
            *slot = result;
        }
    }
    results
}

async fn write_part(
    shared: &Shared,
    decisions: &[&Decision],
    within: Duration,
) -> Vec<Result<i64, Lost>> {
    let mut results = vec![Err(Lost::Again); decisions.len()];
    let mut pending: Vec<(usize, &Decision)> = decisions.iter().copied().enumerate().collect();
    let slot = shared.slots.hold();
    for _ in 0..TRIES {
        let part = Part {
            shared,
            snapshot: pending.first().map_or(0, |(_, decision)| decision.snapshot),
            decisions: pending.iter().map(|(_, decision)| *decision).collect(),
            slot: slot.number,
            attempt: slot.next_attempt(),
        };
        let fate = commit(&part, within).await;
        let outcome = |decision: &Decision| match &fate {
            Fate::Committed => Ok(version(decision)),
            Fate::Conflict(_) => Err(Lost::Again),
            Fate::Failed(lost) => Err(lost.clone()),
        };
        for (place, decision) in &pending {
            if let Some(result) = results.get_mut(*place) {
                *result = outcome(decision);
            }
        }
        let Fate::Conflict(conflicts) = fate else { break };
        let before = pending.len();
        pending.retain(|(_, it)| !is_within(&conflicts, &shared.layout.head(&it.key)));
        if pending.is_empty() || pending.len() == before {
            break;
        }
    }
    results
}

/// What a record takes in a transaction, at the most, in bytes: a key counts each time that it is written or
/// declared, and twice where it bounds a range.
fn weight(layout: &Layout, decision: &Decision) -> usize {
    /// What the shortest one costs the database, whatever its bytes.
    const LEAST: usize = 1_024;
    let entry = |(_, entry): &(usize, IndexChange)| match entry {
        IndexChange::Put { key, value } => LEAST.max(layout.entry(key).len()) + value.len(),
        IndexChange::Delete { key } => LEAST.max(2 * layout.entry(key).len()),
    };
    // Declared as read and as written, cleared, and the range of its chunks.
    LEAST.max(8 * layout.head(&decision.key).len())
        + decision.value.as_ref().map_or(0, Bytes::len)
        + decision.index.iter().map(entry).sum::<usize>()
}

/// The version that a record has once it is written as decided.
fn version(decision: &Decision) -> i64 {
    match (decision.write, &decision.value) {
        (Write::Delete(_), _) | (Write::Insert | Write::Nothing, None) => 0,
        (_, Some(value)) => Stored::version(decision.snapshot, value),
        (Write::Update(version), None) => version,
    }
}

impl Part<'_> {
    /// Puts into a transaction what it has to write.
    pub(crate) fn fill(&self, transaction: &Transaction) -> FdbResult<()> {
        transaction.set_read_version(self.snapshot);
        transaction.set_option(TransactionOption::ReportConflictingKeys)?;
        let layout = &self.shared.layout;
        for decision in &self.decisions {
            put_record(layout, transaction, decision)?;
        }
        put_index(layout, transaction, &self.decisions)?;
        let node = self.shared.node;
        let marker = layout.marker(node, self.slot, self.attempt);
        transaction.add_conflict_range(&marker, &after(&marker), ConflictRangeType::Read)?;
        let newest_us = self.shared.time.latest_us();
        transaction.set(&marker, &Marker::Committed(newest_us).encode());
        let (first, end) = layout.markers_before(node, self.slot, self.attempt);
        unconflicted(transaction)?;
        transaction.clear_range(&first, &end);
        Ok(())
    }
}

fn put_record(layout: &Layout, transaction: &Transaction, decision: &Decision) -> FdbResult<()> {
    let head = layout.head(&decision.key);
    transaction.add_conflict_range(&head, &after(&head), ConflictRangeType::Read)?;
    let was_chunked = match decision.write {
        Write::Update(version) | Write::Delete(version) => is_chunked(version),
        Write::Insert | Write::Nothing => false,
    };
    let stays = decision.value.is_none() && !matches!(decision.write, Write::Delete(_));
    if stays {
        // Its entries change: whoever changes them too must notice.
        return transaction.add_conflict_range(&head, &after(&head), ConflictRangeType::Write);
    }
    if was_chunked {
        let (first, end) = layout.chunks(&decision.key);
        unconflicted(transaction)?;
        transaction.clear_range(&first, &end);
    }
    let Some(value) = &decision.value else {
        transaction.clear(&head);
        return Ok(());
    };
    let stored = Stored::new(decision.snapshot, value);
    transaction.set(&head, &stored.head);
    for (chunk, number) in stored.chunks.into_iter().zip(0..) {
        unconflicted(transaction)?;
        transaction.set(&layout.chunk(&decision.key, number), chunk);
    }
    Ok(())
}

/// Changes the entries of all records, in the order of the items that asked for it.
fn put_index(layout: &Layout, transaction: &Transaction, decisions: &[&Decision]) -> FdbResult<()> {
    let mut changes: Vec<&(usize, IndexChange)> =
        decisions.iter().flat_map(|it| &it.index).collect();
    changes.sort_by_key(|(place, _)| *place);
    for (_, change) in changes {
        unconflicted(transaction)?;
        match change {
            IndexChange::Put { key, value } => transaction.set(&layout.entry(key), value),
            IndexChange::Delete { key } => transaction.clear(&layout.entry(key)),
        }
    }
    Ok(())
}

/// The next write conflicts with nobody: the head of its record does.
fn unconflicted(transaction: &Transaction) -> FdbResult<()> {
    transaction.set_option(TransactionOption::NextWriteNoWriteConflictRange)
}
