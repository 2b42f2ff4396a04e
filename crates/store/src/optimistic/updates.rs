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
    /// For records that other nodes write all the time: since the last of the batch that was written.
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
        let turn_within = within(most.turn);
        let keys = batch.keys();
        let mut pending: Vec<usize> = (0..keys.len()).collect();
        let turn = self.turns.enter(keys);
        if tokio::time::timeout(turn_within, turn.come()).await.is_err() {
            let busy = "other updates of the same records take too long";
            fail(&mut batch, &pending, &unavailable(busy));
            return batch.into_answers();
        }
        let began_us = self.clock.monotonic_us();
        let mut progress_us = began_us;
        for _ in 0..ROUNDS {
            if pending.is_empty() {
                return batch.into_answers();
            }
            let before = pending.len();
            pending = self.round(engine, &mut batch, pending).await;
            let now_us = self.clock.monotonic_us();
            if pending.len() < before {
                progress_us = now_us;
            }
            let since = |then_us: u64| Duration::from_micros(now_us.saturating_sub(then_us));
            let is_given_up = patience.is_some_and(|patience| since(began_us) > patience);
            if is_given_up || since(progress_us) > most.rounds {
                break;
            }
        }
        let lost = "other nodes write the same records all the time, or the database is too slow";
        fail(&mut batch, &pending, &unavailable(lost));
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
        let decisions = match read {
            Ok(read) => self.decide(batch, &pending, &read),
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

    /// Decides what becomes of each record that was read. One that can't be read fails alone.
    fn decide<T: Transition>(
        &self,
        batch: &mut Batch<T>,
        pending: &[usize],
        read: &Read<A>,
    ) -> Vec<Decision> {
        let moment = (read.answer.now_us(), read.answer.snapshot());
        let mut decide =
            |(place, record): (usize, &usize)| match read.answer.get(read.first + place) {
                Ok(found) => {
                    let version = found.filter(|it| it.value.is_some()).map(|it| it.version);
                    self.watched.note(batch.key(*record), version);
                    Some(batch.decide(*record, found, moment))
                }
                Err(error) => {
                    batch.fail(*record, &error);
                    None
                }
            };
        pending.iter().enumerate().filter_map(&mut decide).collect()
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

#[cfg(test)]
mod tests {
    use super::super::Found;
    use super::*;
    use crate::ManualClock;
    use crate::contract::{Change, ValueChange};

    #[derive(Clone)]
    struct Put;

    impl Transition for Put {
        type Outcome = ();

        fn apply(&self, _old: Option<&[u8]>, _now_us: u64) -> (Change, ()) {
            (Change { value: ValueChange::Put("new".into()), index: vec![] }, ())
        }
    }

    /// A database that takes a second for each record, and some records in a request.
    struct Slow {
        clock: ManualClock,
        takes: usize,
    }

    struct Nothing;

    impl Answer for Nothing {
        fn now_us(&self) -> u64 {
            0
        }

        fn snapshot(&self) -> i64 {
            0
        }

        fn get(&self, _place: usize) -> Result<Option<Found<'_>>, StoreError> {
            Ok(None)
        }
    }

    impl Engine for Slow {
        type Answer = Nothing;

        async fn read(&self, _: &[Bytes], _: Option<Duration>) -> Result<Nothing, Lost> {
            Ok(Nothing)
        }

        async fn write(
            &self,
            _: Durability,
            decisions: &[Decision],
            _: Option<Duration>,
        ) -> Vec<Result<i64, Lost>> {
            self.clock.advance_us(1_000_000);
            let result = |place| if place < self.takes { Ok(1) } else { Err(Lost::Again) };
            (0..decisions.len()).map(result).collect()
        }

        async fn flush(&self, _: Option<Duration>) -> Result<(), StoreError> {
            Ok(())
        }

        fn changed(&self, _: &Decision, _: bool) {}
    }

    /// How many of eight records are written with two seconds for conflicts.
    async fn written(takes: usize, patience: Option<Duration>) -> usize {
        let clock = ManualClock::new(0);
        let updates = Updates::new(Arc::new(clock.clone()));
        let slow = Slow { clock, takes };
        let item = |key: u8| Update {
            key: vec![key].into(),
            durability: Durability::Synced,
            patience,
            transition: Put,
        };
        let most = Patience { turn: Duration::from_secs(60), rounds: Duration::from_secs(2) };
        tokio::select! {
            () = updates.carry(&slow) => 0,
            answers = updates.run(&slow, (0..8).map(item).collect(), most) => {
                answers.iter().filter(|it| it.is_ok()).count()
            }
        }
    }

    #[tokio::test]
    async fn a_batch_that_gets_on_is_not_given_up() {
        assert_eq!(written(1, None).await, 8);
        assert_eq!(written(0, None).await, 0);
        assert_eq!(written(1, Some(Duration::from_secs(4))).await, 5);
    }
}
