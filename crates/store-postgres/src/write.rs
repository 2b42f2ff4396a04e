//! The write of a round: one statement for the records of all batches that ask at the same time, or a few
//! if they weigh much.

use std::time::Duration;

use bytes::Bytes;
use semel_store::{IndexChange, StoreError};

use crate::arrays::Arrays;
use crate::batch::Decision;
use crate::error::Failure;
use crate::lane::{Asked, patience};
use crate::session::{Duty, Named, Session};
use crate::shared::Shared;

/// What one statement may carry before it is closed; a single heavier record still fits. The database
/// takes up to 1 GiB.
const STATEMENT_BYTES: usize = 32 << 20;

/// Why a record was not written.
#[derive(Clone, Debug)]
pub(crate) enum Lost {
    /// Somebody else wrote it, or the database asked for another try.
    Again,
    Failed(StoreError),
}

/// What became of each record: its new version, or why it was not written.
pub(crate) type Written = Vec<(Decision, Result<i64, Lost>)>;

/// Writes the records that these batches ask for, each with its new version or why it was not written.
pub(crate) async fn carry(shared: &Shared, duty: Duty, asked: Vec<Asked<Decision, Written>>) {
    let patience = patience(&asked);
    let (mut decisions, mut askers) = (Vec::new(), Vec::new());
    for (batch, Asked { records, asker, .. }) in asked.into_iter().enumerate() {
        decisions.extend(records.into_iter().map(|decision| (batch, decision)));
        askers.push((asker, Vec::new()));
    }
    // No two batches write the same record: they take turns.
    decisions.sort_by(|(_, one), (_, other)| one.key.cmp(&other.key));
    let (batches, decisions): (Vec<usize>, Vec<Decision>) = decisions.into_iter().unzip();
    for (batch, written) in batches.into_iter().zip(run(shared, duty, patience, decisions).await) {
        if let Some((_, of_batch)) = askers.get_mut(batch) {
            of_batch.push(written);
        }
    }
    for (asker, written) in askers {
        // A batch that is gone needs no answer.
        let _ = asker.send(written);
    }
}

/// Writes the records of `decisions`, which are in the order of their keys.
async fn run(
    shared: &Shared,
    duty: Duty,
    patience: Option<Duration>,
    decisions: Vec<Decision>,
) -> Written {
    let (slot, session) = match shared.session(duty).await {
        Ok(session) => session,
        Err(failure) => {
            let lost = Lost::Failed(failure.into_store_error());
            return decisions.into_iter().map(|it| (it, Err(lost.clone()))).collect();
        }
    };
    let mut written = Vec::with_capacity(decisions.len());
    let mut rest = decisions.into_iter().peekable();
    while rest.peek().is_some() {
        let mut weight = 0;
        let mut part = Vec::new();
        while let Some(next) = rest.next_if(|it| part_is_open(weight, it)) {
            weight += next.weight();
            part.push(next);
        }
        let results = write_part(shared, (slot, &session), patience, &part).await;
        written.extend(part.into_iter().zip(results));
    }
    written
}

fn part_is_open(weight: usize, next: &Decision) -> bool {
    weight == 0 || weight + next.weight() <= STATEMENT_BYTES
}

impl Decision {
    /// What it takes in a statement, roughly; never 0.
    fn weight(&self) -> usize {
        let entry = |(_, entry): &(usize, IndexChange)| match entry {
            IndexChange::Put { key, value } => 1_024 + key.len() + value.len(),
            IndexChange::Delete { key } => 1_024 + key.len(),
        };
        1_024
            + self.value.as_ref().map_or(0, Bytes::len)
            + self.index.iter().map(entry).sum::<usize>()
    }
}

async fn write_part(
    shared: &Shared,
    (slot, session): (i32, &Session),
    patience: Option<Duration>,
    decisions: &[Decision],
) -> Vec<Result<i64, Lost>> {
    let base = shared.take_versions(decisions.len());
    let arrays = Arrays::new(decisions);
    let relaxed = decisions.first().is_some_and(|it| it.relaxed);
    let now_us = shared.time.latest_us();
    let parameters = arrays.parameters([&base, &relaxed, &slot, &now_us]);
    let answer = session.query(Named::Write(arrays.shape), patience, &parameters).await;
    let results = answer.and_then(|rows| arrays.results(decisions.len(), base, &rows));
    let stand_ins = arrays.stand_ins();
    if results.is_ok() && !stand_ins.is_empty() {
        let last = base.saturating_add(i64::try_from(decisions.len()).unwrap_or(i64::MAX));
        // One that is left over is seen as absent, and goes with the next write of its record.
        if let Err(failure) =
            session.query(Named::Sweep, patience, &[&stand_ins, &base, &last]).await
        {
            tracing::debug!(?failure, "stand-ins of absent records are left over");
        }
    }
    results.unwrap_or_else(|failure| vec![Err(lost(failure)); decisions.len()])
}

fn lost(failure: Failure) -> Lost {
    match failure {
        Failure::Again(_) => Lost::Again,
        failure => Lost::Failed(failure.into_store_error()),
    }
}
