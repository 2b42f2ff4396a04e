//! Wake-ups across nodes: the cluster watches the records that are watched here, and those that are too
//! many for it are polled.
//!
//! When a watch of the cluster ends, its record is read and watched again, and whoever waits for it is
//! woken if it is another than the one that is known: so a change by this node, which woke them
//! already, does not wake them twice.
//!
//! Invariants: the watches of the cluster are bounded by the options, and what waits to be watched is,
//! too: what finds no room is polled; a watched record is looked at once more after its watch was
//! armed, since it may have changed before.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::try_join_all;
use tokio::sync::Notify;

use super::failure::Failure;
use super::shared::Shared;
use crate::armed::{Armed, Ended, Watching};
use crate::head::Head;

/// How many keys may wait to be watched by the cluster; the next poll finds the others.
const WAITING_MOST: usize = 16_384;
/// How long new watches are gathered.
const GATHER: Duration = Duration::from_millis(2);
/// How many records one transaction looks at.
const LOOKED_MOST: usize = 500;
/// How long that may take.
const WITHIN: Duration = Duration::from_secs(5);

/// The keys that wait to be watched by the cluster.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    waiting: Mutex<HashSet<Arc<[u8]>>>,
    some_wait: Notify,
}

impl Wakes {
    /// Has the cluster watch the record of `key`.
    pub(crate) fn arm(&self, key: &[u8]) {
        let mut waiting = self.lock();
        if waiting.len() < WAITING_MOST {
            waiting.insert(key.into());
        }
        drop(waiting);
        self.some_wait.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<Arc<[u8]>>> {
        // Whole at every point where a thread could have died.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes who waits for changes of other nodes, until the store is closed.
pub(crate) async fn run(shared: &Shared) {
    let interval = Duration::from_millis(shared.options.poll_ms);
    let mut armed = Armed::default();
    let mut next_poll = std::pin::pin!(tokio::time::sleep(interval));
    let mut gathered = std::pin::pin!(tokio::time::sleep(GATHER));
    let mut is_gathering = false;
    loop {
        tokio::select! {
            ended = armed.ended() => arm_again(shared, &mut armed, ended).await,
            () = shared.wakes.some_wait.notified(), if !is_gathering => {
                is_gathering = true;
                gathered.set(tokio::time::sleep(GATHER));
            }
            () = &mut gathered, if is_gathering => {
                is_gathering = false;
                let keys: Vec<_> = std::mem::take(&mut *shared.wakes.lock()).into_iter().collect();
                arm(shared, &mut armed, keys).await;
            }
            () = &mut next_poll => {
                poll(shared, &mut armed).await;
                next_poll.set(tokio::time::sleep(interval));
            }
        }
    }
}

/// Looks at the records whose watches ended. If the cluster gave a watch up, the next poll arms it
/// again.
async fn arm_again(shared: &Shared, armed: &mut Armed, ended: Vec<Ended>) {
    let changed: Vec<_> = ended.into_iter().filter(|it| it.changed).map(|it| it.key).collect();
    arm(shared, armed, changed).await;
}

/// Polls what the cluster does not watch, and what it watches but newly; and has it watch what there is
/// room for.
async fn poll(shared: &Shared, armed: &mut Armed) {
    let keys = shared.updates.watched().keys();
    armed.retain(|key| shared.updates.watched().contains(key));
    let (mut new, not_armed): (Vec<_>, Vec<_>) =
        keys.into_iter().partition(|key| armed.contains(key));
    new.retain(|key| armed.take_new(key));
    for keys in new.chunks(LOOKED_MOST) {
        look(shared, armed, keys, false).await;
    }
    arm(shared, armed, not_armed).await;
}

/// Has the cluster watch these as far as there is room, and looks at all of them.
async fn arm(shared: &Shared, armed: &mut Armed, mut keys: Vec<Arc<[u8]>>) {
    keys.retain(|key| shared.updates.watched().contains(key) && !armed.contains(key));
    let room = shared.options.watches.saturating_sub(armed.len());
    let (watched, polled) = keys.split_at(room.min(keys.len()));
    for keys in watched.chunks(LOOKED_MOST) {
        look(shared, armed, keys, true).await;
    }
    for keys in polled.chunks(LOOKED_MOST) {
        look(shared, armed, keys, false).await;
    }
}

/// Reads these records, and has the cluster watch them from there on if `watch`.
async fn look(shared: &Shared, armed: &mut Armed, keys: &[Arc<[u8]>], watch: bool) {
    let looked = tokio::time::timeout(WITHIN, read(shared, keys, watch)).await;
    match looked.unwrap_or_else(|_| Err(Failure::silent())) {
        Ok(found) => {
            for (key, (version, watching)) in keys.iter().zip(found) {
                if let Some(watching) = watching {
                    armed.insert(Arc::clone(key), watching);
                }
                shared.updates.watched().polled(key, version);
            }
        }
        Err(failure) => {
            tracing::debug!(?failure, "watched records could not be read");
            // They may have changed.
            keys.iter().for_each(|key| shared.updates.watched().wake(key));
        }
    }
}

type Looked = (Option<i64>, Option<Watching>);

async fn read(shared: &Shared, keys: &[Arc<[u8]>], watch: bool) -> Result<Vec<Looked>, Failure> {
    // Without a time limit of its own, which would end the watches, too.
    let transaction = shared.database.create_trx()?;
    let heads: Vec<_> = keys.iter().map(|key| shared.layout.head(key)).collect();
    let stored = try_join_all(heads.iter().map(|head| transaction.get(head, true))).await?;
    let watching: Vec<Option<Watching>> = heads
        .iter()
        .map(|head| {
            watch.then(|| -> Watching { Box::pin(transaction.watch(head).map(|it| it.is_ok())) })
        })
        .collect();
    if watch {
        transaction.commit().await.map_err(|error| Failure::from(*error))?;
    }
    // One that can't be read is told by the update that reads it.
    let version = |stored: &[u8]| Head::decode(stored).map_or(i64::MIN, |head| head.version);
    let versions = stored.iter().map(|stored| stored.as_deref().map(version));
    Ok(versions.zip(watching).collect())
}
