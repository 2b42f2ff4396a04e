//! Finds out what became of a commit whose result is unknown: see [`attempt`](crate::attempt).

use std::time::Duration;

use super::failure::Failure;
use super::write::Part;
use crate::attempt::{Marker, Verdict, verdict};
use crate::meaning::Phase;

/// The first pause, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));
/// How long one look may take before the next one.
const LOOK: Duration = Duration::from_secs(2);

/// Whether a part was committed. It is not any more once this says so. `None`: nobody could tell within
/// the time of a transaction, or ever.
pub(crate) async fn settle(part: &Part<'_>) -> Option<bool> {
    let settled = async {
        let mut pause = PAUSES.0;
        loop {
            match look(part).await {
                Ok(settled) => return settled,
                Err(failure) => tracing::debug!(?failure, "a commit is not settled yet"),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    };
    tokio::time::timeout(part.shared.options.transaction_timeout(), settled).await.ok().flatten()
}

async fn look(part: &Part<'_>) -> Result<Option<bool>, Failure> {
    let shared = part.shared;
    let key = shared.layout.marker(shared.node, part.slot, part.attempt);
    let transaction = shared.transaction(LOOK)?;
    // Declared as read, so that this conflicts with the attempt.
    let found = transaction.get(&key, false).await?;
    let age = transaction.get_read_version().await?.saturating_sub(part.snapshot);
    let found =
        found.map(|stored| Marker::decode(&stored)).transpose().map_err(Failure::invalid)?;
    match verdict(found, age) {
        Verdict::Committed => Ok(Some(true)),
        Verdict::Void => Ok(Some(false)),
        Verdict::Forgotten => Ok(None),
        Verdict::Open => {
            transaction.set(&key, &Marker::Forbidden.encode());
            let committed = transaction.commit().await;
            committed.map(|_| Some(false)).map_err(|error| Failure::new(*error, Phase::Commit))
        }
    }
}
