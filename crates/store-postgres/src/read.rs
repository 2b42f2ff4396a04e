//! The read of a round: one statement for the records of all batches that ask at the same time, with the
//! database's clock.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio_postgres::Row;

use crate::batch::Found;
use crate::error::Failure;
use crate::lane::{Asked, patience};
use crate::session::{Duty, Named};
use crate::shared::Shared;

/// What one batch read.
pub(crate) type Read = Result<Records, Failure>;

/// The records of one batch.
pub(crate) struct Records {
    answer: Arc<Answer>,
    /// Where they begin among those of the statement.
    first: usize,
    /// The time to decide by.
    pub(crate) now_us: u64,
}

/// The answer of a statement.
struct Answer {
    rows: Vec<Row>,
    /// For each key the place of its row.
    found: Vec<Option<usize>>,
}

impl Records {
    /// The record of the `place`th key, if there is one.
    pub(crate) fn get(&self, place: usize) -> Result<Option<Found<'_>>, Failure> {
        let row = self.answer.found.get(self.first + place).copied().flatten();
        let Some(row) = row.and_then(|row| self.answer.rows.get(row)) else { return Ok(None) };
        Ok(Some(Found {
            version: row.try_get(1).map_err(unreadable)?,
            relaxed: row.try_get(2).map_err(unreadable)?,
            value: row.try_get(3).map_err(unreadable)?,
        }))
    }
}

/// Reads the records that these batches ask for.
pub(crate) async fn carry(shared: &Shared, asked: Vec<Asked<Bytes, Read>>) {
    let keys: Vec<&[u8]> = asked.iter().flat_map(|it| &it.records).map(AsRef::as_ref).collect();
    let patience = patience(&asked);
    let answer =
        read(shared, &keys, patience).await.map(|(answer, now_us)| (Arc::new(answer), now_us));
    let mut first = 0;
    for Asked { records, asker, .. } in asked {
        let read = match &answer {
            Ok((answer, now_us)) => {
                Ok(Records { answer: Arc::clone(answer), first, now_us: *now_us })
            }
            Err(failure) => Err(failure.clone()),
        };
        first += records.len();
        // A batch that is gone needs no answer.
        let _ = asker.send(read);
    }
}

async fn read(
    shared: &Shared,
    keys: &[&[u8]],
    patience: Option<Duration>,
) -> Result<(Answer, u64), Failure> {
    let (_, session) = shared.session(Duty::Synced).await?;
    let rows = session.query(Named::Read, patience, &[&keys]).await?;
    let mut found = vec![None; keys.len()];
    let mut now_us = None;
    for (nth, row) in rows.iter().enumerate() {
        // The place of the key, from 1; place 0 has the clock as its version.
        let place: i64 = row.try_get(0).map_err(unreadable)?;
        match usize::try_from(place).unwrap_or(usize::MAX).checked_sub(1) {
            None => now_us = Some(shared.time.pass(row.try_get(1).map_err(unreadable)?)),
            Some(place) => {
                if let Some(slot) = found.get_mut(place) {
                    *slot = Some(nth);
                }
            }
        }
    }
    let now_us = now_us.ok_or_else(|| Failure::Invalid("a read without a time".to_owned()))?;
    Ok((Answer { rows, found }, now_us))
}

#[expect(clippy::needless_pass_by_value, reason = "it maps errors")]
fn unreadable(error: tokio_postgres::Error) -> Failure {
    Failure::Invalid(error.to_string())
}
