//! Updates: read all records of a batch, apply the transitions, write what changed, and run again
//! what was lost to other nodes.
//!
//! Invariants: a round is two requests, whatever the size of the batch, shared with other batches; whatever is asked is
//! answered, or fails when the store is closed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::batch::Batch;
use super::lane::{Asked, Lane, patience};
use super::turns::Turns;
use super::{Answer, Answers, Decision, Engine, Lost, Watched, Write};
use crate::clock::Clock;
use crate::contract::{Durability, StoreError, Transition, Update};

/// How often a record may be lost to others before its update is refused. Each time, somebody else
/// was done.
const ROUNDS: u32 = 200;

/// The updates of one store that are under way.
pub struct Updates<A> {
    clock: Arc<dyn Clock>,
    turns: Arc<Turns>,
    reads: Lane<Bytes, ReadOrLost<A>>,
    synced: Lane<Decision, Written>,
    relaxed: Lane<Decision, Written>,
    watched: Watched,
}

/// How long an engine waits for its own reasons.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For other updates of this node that touch the same records.
    pub turn: Duration,
    /// For a record that other nodes write all the time.
    pub rounds: Duration,
}

/// What was read for one batch.
struct Read<A> {
    answer: Arc<A>,
    /// Where its records begin among those of the request.
    first: usize,
}

type ReadOrLost<A> = Result<Read<A>, Lost>;

/// What became of each record: its new version, or why it was not written.
type Written = Vec<(Decision, Result<i64, Lost>)>;

impl<A: Answer> Updates<A> {
    /// None so far. Waiting is measured with `clock`.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            turns: Arc::default(),
            reads: Lane::new(1),
            // One waits for the disk, and one fills.
            synced: Lane::new(2),
            relaxed: Lane::new(1),
            watched: Watched::default(),
        }
    }

    /// The records that somebody watches.
    #[must_use]
    pub fn watched(&self) -> &Watched {
        &self.watched
    }

    /// Carries what updates ask of `engine`, for ever. Once it is dropped, updates that are
    /// under way are answered with an error.
    pub async fn carry<E: Engine<Answer = A>>(&self, engine: &E) {
        tokio::select! {
            () = self.reads.drive(|asked| read(engine, asked)) => {}
            () = self.synced.drive(|asked| write(engine, Durability::Synced, asked)) => {}
            () = self.relaxed.drive(|asked| write(engine, Durability::Relaxed, asked)) => {}
        }
    }

    /// Runs a batch to its end. What it asks of the engine, [`carry`](Self::carry) carries.
    pub async fn run<E: Engine<Answer = A>, T: Transition>(
        &self,
        engine: &E,
        items: Vec<Update<T>>,
        most: Patience,
    ) -> Answers<T> {
        let mut batch = Batch::new(items);
        let patience = batch.patience();
        let within = |most: Duration| patience.map_or(most, |patience| patience.min(most));
        let (turn_within, rounds_within) = (within(most.turn), within(most.rounds));
        let keys = batch.keys();
        let mut pending: Vec<usize> = (0..keys.len()).collect();
        let turn = self.turns.enter(keys);
        if tokio::time::timeout(turn_within, turn.come()).await.is_err() {
            let busy = "other updates of the same records take too long";
            fail(&mut batch, &pending, &unavailable(busy));
            return batch.into_answers();
        }
        let began_us = self.clock.monotonic_us();
        for _ in 0..ROUNDS {
            if pending.is_empty() {
                return batch.into_answers();
            }
            pending = self.round(engine, &mut batch, pending).await;
            let took = self.clock.monotonic_us().saturating_sub(began_us);
            if Duration::from_micros(took) > rounds_within {
                break;
            }
        }
        fail(&mut batch, &pending, &unavailable("other nodes write the same records all the time"));
        batch.into_answers()
    }

    /// Runs one round for the records `pending`; returns those that must be run again.
    async fn round<E: Engine<Answer = A>, T: Transition>(
        &self,
        engine: &E,
        batch: &mut Batch<T>,
        pending: Vec<usize>,
    ) -> Vec<usize> {
        let keys = pending.iter().map(|record| batch.key(*record).clone()).collect();
        let patience = batch.patience();
        let read = self.reads.ask(keys, patience).await;
        let read = read.unwrap_or_else(|| Err(Lost::Failed(unavailable("the store is closed"))));
        let decided =
            read.and_then(|read| self.decide(batch, &pending, &read).map_err(Lost::Failed));
        let decisions = match decided {
            Ok(decisions) => decisions,
            Err(Lost::Again) => return pending,
            Err(Lost::Failed(error)) => {
                fail(batch, &pending, &error);
                return Vec::new();
            }
        };
        let (kept, written): (Vec<_>, Vec<_>) =
            decisions.into_iter().partition(|it| it.write == Write::Nothing);
        let (relaxed, synced): (Vec<_>, Vec<_>) = written.into_iter().partition(|it| it.relaxed);
        // Side by side: they are different records.
        let (flushed, synced, relaxed) = tokio::join!(
            flush(engine, &kept, patience),
            ask(&self.synced, synced, patience),
            ask(&self.relaxed, relaxed, patience),
        );
        let (Some(synced), Some(relaxed)) = (synced, relaxed) else {
            let closed = "the store was closed before it answered".to_owned();
            fail(batch, &pending, &StoreError::Unknown(closed));
            return Vec::new();
        };
        keep(batch, kept, &flushed);
        let mut again = self.settle(engine, batch, synced);
        again.extend(self.settle(engine, batch, relaxed));
        again.sort_unstable();
        again
    }

    /// Decides what becomes of each record that was read.
    fn decide<T: Transition>(
        &self,
        batch: &mut Batch<T>,
        pending: &[usize],
        read: &Read<A>,
    ) -> Result<Vec<Decision>, StoreError> {
        let moment = (read.answer.now_us(), read.answer.snapshot());
        let mut decide = |(place, record): (usize, &usize)| {
            let found = read.answer.get(read.first + place)?;
            let version = found.filter(|it| it.value.is_some()).map(|it| it.version);
            self.watched.note(batch.key(*record), version);
            Ok(batch.decide(*record, found, moment))
        };
        pending.iter().enumerate().map(&mut decide).collect()
    }

    /// Answers what was written, wakes who waits for it, and returns what must be run again.
    fn settle<E: Engine<Answer = A>, T: Transition>(
        &self,
        engine: &E,
        batch: &mut Batch<T>,
        written: Written,
    ) -> Vec<usize> {
        let mut again = Vec::new();
        for (decision, result) in written {
            match result {
                Ok(version) => {
                    if decision.changed {
                        let left = decision.value.is_some().then_some(version);
                        let watched = self.watched.committed(&decision.key, left);
                        engine.changed(&decision, watched);
                    }
                    batch.accept(decision.record);
                }
                Err(Lost::Again) => again.push(decision.record),
                Err(Lost::Failed(error)) => batch.fail(decision.record, &error),
            }
        }
        again
    }
}

/// Reads what these batches ask for.
async fn read<E: Engine>(engine: &E, asked: Vec<Asked<Bytes, ReadOrLost<E::Answer>>>) {
    let keys: Vec<Bytes> = asked.iter().flat_map(|it| &it.records).cloned().collect();
    let answer = engine.read(&keys, patience(&asked)).await.map(Arc::new);
    let mut first = 0;
    for Asked { records, asker, .. } in asked {
        let read = answer.clone().map(|answer| Read { answer, first });
        first += records.len();
        // A batch that is gone needs no answer.
        let _ = asker.send(read);
    }
}

/// Writes what these batches ask for, each record with its new version or why it was not written.
async fn write<E: Engine>(
    engine: &E,
    durability: Durability,
    asked: Vec<Asked<Decision, Written>>,
) {
    let patience = patience(&asked);
    let (mut decisions, mut askers) = (Vec::new(), Vec::new());
    for (batch, Asked { records, asker, .. }) in asked.into_iter().enumerate() {
        decisions.extend(records.into_iter().map(|decision| (batch, decision)));
        askers.push((asker, Vec::new()));
    }
    // No two batches write the same record: they take turns.
    decisions.sort_by(|(_, one), (_, other)| one.key.cmp(&other.key));
    let (batches, decisions): (Vec<usize>, Vec<Decision>) = decisions.into_iter().unzip();
    let results = engine.write(durability, &decisions, patience).await;
    for (batch, written) in batches.into_iter().zip(decisions.into_iter().zip(results)) {
        if let Some((_, of_batch)) = askers.get_mut(batch) {
            of_batch.push(written);
        }
    }
    for (asker, written) in askers {
        // A batch that is gone needs no answer.
        let _ = asker.send(written);
    }
}

/// Has decisions written, together with those of other batches; `None`: the store is closed.
async fn ask(
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
async fn flush<E: Engine>(
    engine: &E,
    kept: &[Decision],
    patience: Option<Duration>,
) -> Result<(), StoreError> {
    if kept.iter().any(|it| it.needs_flush) {
        engine.flush(patience).await?;
    }
    Ok(())
}

fn keep<T: Transition>(
    batch: &mut Batch<T>,
    kept: Vec<Decision>,
    flushed: &Result<(), StoreError>,
) {
    for decision in kept {
        match flushed {
            Err(error) if decision.needs_flush => batch.fail(decision.record, error),
            _ => batch.accept(decision.record),
        }
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
