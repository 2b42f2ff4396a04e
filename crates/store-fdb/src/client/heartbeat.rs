//! The node's stamp, which it commits once a second: see [`fleet`](crate::fleet). It also tells whether
//! the cluster answers.

use std::time::Duration;

use foundationdb::Transaction;
use foundationdb::options::{ConflictRangeType, StreamingMode};
use foundationdb::{FdbResult, RangeOption, TransactionCommitted};
use futures::TryStreamExt;

use super::failure::Failure;
use super::shared::Shared;
use crate::fleet::{Fleet, Sample, Stamp};
use crate::layout::{Range, after};
use crate::meaning::{Meaning, Phase};

const INTERVAL: Duration = Duration::from_secs(1);
/// How long one may take.
const WITHIN: Duration = Duration::from_secs(5);

/// Beats until the store is closed.
pub(crate) async fn run(shared: &Shared, mut fleet: Fleet) {
    loop {
        match beat(shared, &mut fleet).await {
            Ok(_) => shared.set_up(true),
            Err(failure) => {
                // A conflict is an answer, too.
                shared.set_up(failure.meaning == Meaning::Again);
                tracing::debug!(?failure, "the node left no stamp");
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Beats for the first time, again after a pause as long as that may be of use. Returns the stamps of the
/// others.
pub(crate) async fn first(shared: &Shared, fleet: &mut Fleet) -> Result<Vec<Stamp>, Failure> {
    const PAUSE: Duration = Duration::from_millis(50);
    loop {
        match beat(shared, fleet).await {
            Err(failure) if failure.meaning != Meaning::Invalid => {
                tracing::debug!(?failure, "the node left no stamp yet");
                tokio::time::sleep(PAUSE).await;
            }
            done => return done,
        }
    }
}

/// Beats until the clocks of all nodes that may live are known. A node whose clock is off would go by it
/// until then.
pub(crate) async fn learn(shared: &Shared, fleet: &mut Fleet, mut others: Vec<Stamp>) {
    const PAUSE: Duration = Duration::from_millis(250);
    /// More than a run takes until it is settled.
    const MOST: Duration = Duration::from_secs(6);
    let learned = async {
        while fleet.has_to_wait_for(&others) {
            tokio::time::sleep(PAUSE).await;
            match beat(shared, fleet).await {
                Ok(found) => others = found,
                Err(failure) => tracing::debug!(?failure, "the node left no stamp"),
            }
        }
    };
    if tokio::time::timeout(MOST, learned).await.is_err() {
        tracing::warn!("the clocks of other nodes are not known yet");
    }
}

/// Leaves a stamp, reads those of the others, and goes by the middle of all clocks from now on. Returns the
/// stamps of the others.
async fn beat(shared: &Shared, fleet: &mut Fleet) -> Result<Vec<Stamp>, Failure> {
    let transaction = shared.transaction(WITHIN)?;
    let version = transaction.get_read_version().await?;
    let own = shared.layout.stamp(shared.node);
    let mut others = Vec::new();
    for (key, stored) in read_range(&transaction, shared.layout.stamps()).await? {
        if key != own {
            others.push(Stamp::decode(&stored).map_err(Failure::invalid)?);
        }
    }
    let sample = fleet.sample();
    let newest_us = shared.time.latest_us();
    let stamp = Stamp { newest_us, written_at: version, sample };
    leave(&transaction, &own, &stamp)?;
    let (wall_us, began_us) = (shared.time.own_us(), shared.time.monotonic_us());
    let committed = transaction.commit().await;
    let took_us = shared.time.monotonic_us().saturating_sub(began_us);
    let committed = committed.map_err(|error| Failure::new(*error, Phase::Commit))?;
    let version = TransactionCommitted::committed_version(&committed)?;
    // In the middle between question and answer.
    let wall_us = wall_us.saturating_add(took_us / 2);
    let samples: Vec<Sample> = others.iter().filter_map(|other| other.sample).collect();
    fleet.take(Sample { wall_us, version }, took_us, &samples, shared.time.latest_us());
    if let Some(offset_us) = fleet.offset_us() {
        shared.time.correct(offset_us);
    }
    Ok(others)
}

/// Leaves the newest time for those who come after this node, and nothing else of it.
pub(crate) async fn end(shared: &Shared) -> Result<(), Failure> {
    let transaction = shared.transaction(INTERVAL)?;
    let written_at = transaction.get_read_version().await?;
    let last = Stamp { newest_us: shared.time.latest_us(), written_at, sample: None };
    leave(&transaction, &shared.layout.stamp(shared.node), &last)?;
    let (first, end) = shared.layout.markers_of(shared.node);
    transaction.clear_range(&first, &end);
    let committed = transaction.commit().await;
    committed.map(drop).map_err(|error| Failure::new(*error, Phase::Commit))
}

/// Puts a stamp over the last one. One that is on its way since longer, and was given up here,
/// conflicts: it would bring an older time back.
fn leave(transaction: &Transaction, key: &[u8], stamp: &Stamp) -> FdbResult<()> {
    transaction.add_conflict_range(key, &after(key), ConflictRangeType::Read)?;
    transaction.set(key, &stamp.encode());
    Ok(())
}

/// Removes what nodes left behind that are gone for a day. Their newest time is in the own stamp, which
/// was committed before.
pub(crate) async fn sweep(shared: &Shared) -> Result<(), Failure> {
    let transaction = shared.transaction(WITHIN)?;
    let version = transaction.get_read_version().await?;
    for (key, stored) in read_range(&transaction, shared.layout.stamps()).await? {
        if Stamp::decode(&stored).map_err(Failure::invalid)?.is_left_over(version) {
            let node = shared.layout.node(&key).map_err(Failure::invalid)?;
            let (first, end) = shared.layout.markers_of(node);
            transaction.clear_range(&first, &end);
            transaction.clear(&key);
        }
    }
    let committed = transaction.commit().await;
    committed.map(drop).map_err(|error| Failure::new(*error, Phase::Commit))
}

/// A whole range, with nothing declared as read.
pub(crate) async fn read_range(
    transaction: &Transaction,
    range: Range,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>, Failure> {
    let range = RangeOption { mode: StreamingMode::WantAll, ..RangeOption::from(range) };
    let mut slices = transaction.get_ranges(range, true);
    let mut rows = Vec::new();
    while let Some(slice) = slices.try_next().await? {
        rows.extend(slice.iter().map(|row| (row.key().to_vec(), row.value().to_vec())));
    }
    Ok(rows)
}
