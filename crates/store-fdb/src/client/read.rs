//! The read of a round: one transaction for the records of all batches that ask at the same time.
//! Nothing it reads is declared as read: the write declares what it depends on.
//!
//! It is linearizable by itself: its version is one at which all is visible that was answered before it
//! asked. So a decision that keeps its record needs no commit.

use std::time::Duration;

use bytes::Bytes;
use foundationdb::Transaction;
use foundationdb::future::FdbSlice;
use futures::future::{try_join, try_join_all};
use semel_store::StoreError;
use semel_store::optimistic::{self, Found};

use super::failure::{Failure, again};
use super::shared::Shared;
use crate::head::{Body, Extent, Head};
use crate::meaning::Meaning;

/// The records of a read.
pub(crate) struct Answer {
    now_us: u64,
    snapshot: i64,
    /// For each key its record.
    found: Vec<Option<Record>>,
}

struct Record {
    head: FdbSlice,
    /// The value, if it lies in chunks, or what is wrong with them.
    whole: Option<Result<Vec<u8>, StoreError>>,
}

impl optimistic::Answer for Answer {
    fn now_us(&self) -> u64 {
        self.now_us
    }

    fn snapshot(&self) -> i64 {
        self.snapshot
    }

    fn get(&self, place: usize) -> Result<Option<Found<'_>>, StoreError> {
        let Some(record) = self.found.get(place).and_then(Option::as_ref) else { return Ok(None) };
        let head = Head::decode(&record.head).map_err(StoreError::Invalid)?;
        let value = match head.body {
            Body::Inline(value) => Some(value),
            Body::Chunked(_) => match &record.whole {
                Some(Err(damaged)) => return Err(damaged.clone()),
                Some(Ok(value)) => Some(&value[..]),
                None => None,
            },
        };
        Ok(Some(Found { version: head.version, relaxed: false, value }))
    }
}

/// Reads the records of `keys`, all at one moment.
pub(crate) async fn run(
    shared: &Shared,
    keys: &[Bytes],
    patience: Option<Duration>,
) -> Result<Answer, Failure> {
    let mut transaction = shared.transaction(shared.options.within(patience))?;
    loop {
        match read(shared, &transaction, keys).await {
            Ok(answer) => return Ok(answer),
            Err(failure) => transaction = again(transaction, failure).await?,
        }
    }
}

async fn read(
    shared: &Shared,
    transaction: &Transaction,
    keys: &[Bytes],
) -> Result<Answer, Failure> {
    let heads = keys.iter().map(|key| transaction.get(&shared.layout.head(key), true));
    let (snapshot, heads) = try_join(transaction.get_read_version(), try_join_all(heads)).await?;
    let mut found = Vec::with_capacity(heads.len());
    for (key, head) in keys.iter().zip(heads) {
        let Some(head) = head else {
            found.push(None);
            continue;
        };
        // One that can't be read fails alone, when its batch asks for it.
        let whole = match Head::decode(&head) {
            Ok(Head { body: Body::Chunked(extent), .. }) => {
                match assemble(shared, transaction, key, extent).await {
                    Err(failure) if failure.meaning != Meaning::Invalid => return Err(failure),
                    whole => Some(whole.map_err(Failure::into_store_error)),
                }
            }
            _ => None,
        };
        found.push(Some(Record { head, whole }));
    }
    Ok(Answer { now_us: shared.time.now_us(), snapshot, found })
}

/// Reads a value that lies in chunks, at the moment of the transaction.
pub(crate) async fn assemble(
    shared: &Shared,
    transaction: &Transaction,
    key: &[u8],
    extent: Extent,
) -> Result<Vec<u8>, Failure> {
    let chunk = |number| transaction.get(&shared.layout.chunk(key, number), true);
    let chunks = try_join_all((0..extent.chunks).map(chunk)).await?;
    extent.assemble(chunks.iter().flatten().map(AsRef::as_ref)).map_err(Failure::invalid)
}
