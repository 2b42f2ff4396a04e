//! The write of a round: one statement for the records of all batches that ask at the same time, or a few
//! if they weigh much.

use std::time::Duration;

use semel_store::optimistic::{Decision, Lost, parts};

use crate::arrays::Arrays;
use crate::session::{Duty, Named, Session};
use crate::shared::Shared;

/// What one statement may carry before it is closed; a single heavier record still fits. The database
/// takes up to 1 GiB.
const STATEMENT_BYTES: usize = 32 << 20;

/// Writes the records of `decisions`, which are in the order of their keys; each with its new version or why it
/// was not written.
pub(crate) async fn run(
    shared: &Shared,
    duty: Duty,
    decisions: &[Decision],
    patience: Option<Duration>,
) -> Vec<Result<i64, Lost>> {
    let (slot, session) = match shared.session(duty).await {
        Ok(session) => session,
        Err(failure) => return vec![Err(failure.into_lost()); decisions.len()],
    };
    let mut written = Vec::with_capacity(decisions.len());
    for part in parts(decisions, STATEMENT_BYTES, Decision::weight) {
        written.extend(write_part(shared, (slot, &session), patience, part).await);
    }
    written
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
    results.unwrap_or_else(|failure| vec![Err(failure.into_lost()); decisions.len()])
}
