//! The read of a round: one statement for the records of all batches that ask at the same time, with the
//! database's clock.

use std::time::Duration;

use bytes::Bytes;
use semel_store::StoreError;
use semel_store::optimistic::{self, Found};
use tokio_postgres::Row;

use crate::error::Failure;
use crate::session::{Duty, Named};
use crate::shared::Shared;

/// What a statement read.
pub(crate) struct Answer {
    rows: Vec<Row>,
    /// For each key the place of its row.
    found: Vec<Option<usize>>,
    /// The time to decide by.
    now_us: u64,
}

impl optimistic::Answer for Answer {
    fn now_us(&self) -> u64 {
        self.now_us
    }

    /// Each row is written over its own version.
    fn snapshot(&self) -> i64 {
        0
    }

    fn get(&self, place: usize) -> Result<Option<Found<'_>>, StoreError> {
        let row = self.found.get(place).copied().flatten();
        let Some(row) = row.and_then(|row| self.rows.get(row)) else { return Ok(None) };
        let read = || {
            let (version, relaxed) = (row.try_get(1)?, row.try_get(2)?);
            Ok(Found { version, relaxed, value: row.try_get(3)? })
        };
        read().map(Some).map_err(|error| unreadable(error).into_store_error())
    }
}

/// Reads the records of `keys`.
pub(crate) async fn run(
    shared: &Shared,
    keys: &[Bytes],
    patience: Option<Duration>,
) -> Result<Answer, Failure> {
    let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
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
    Ok(Answer { rows, found, now_us })
}

#[expect(clippy::needless_pass_by_value, reason = "it maps errors")]
fn unreadable(error: tokio_postgres::Error) -> Failure {
    Failure::Invalid(error.to_string())
}
