//! Wake-ups across nodes.
//!
//! A commit that changed or deleted a record is announced to the other nodes *after* it, by a
//! statement of its own that carries many: a notification inside of a transaction would have all
//! commits of the database wait for each other. What is announced is a hash of the key, so a wake-up
//! may reach a watch that nothing happened to; it is a hint. New records are announced only if they are
//! watched here, too: they are most of the writes, and hardly ever is one watched before it exists.
//!
//! Beside that, the versions of all watched records are read once in a while, and whoever watches one
//! that changed is woken: so a wake-up that is lost, with the connection that listens or before it was
//! sent, costs at most two intervals, and never more.
//!
//! Invariants: what waits to be announced is bounded, and when the bound is met, all are woken instead;
//! this never delays a commit.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use tokio::sync::Notify;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::Failure;
use crate::session::{Duty, Named};
use crate::shared::Shared;

/// How many different keys may wait to be announced.
const WAITING_MOST: usize = 16_384;
/// How many hashes one announcement carries: 7,900 bytes of base64 with the sender.
const HASHES_MOST: usize = 730;
/// How long announcements are collected, and how long wake-ups that were heard.
const GATHER: Duration = Duration::from_millis(2);
/// How many records one statement polls.
const POLLED_MOST: usize = 1_000;

/// What waits to be told, and what was heard.
pub(crate) struct Wakes {
    sender: [u8; 8],
    announced: Mutex<Hashes>,
    announced_some: Notify,
    heard: Mutex<Hashes>,
    heard_some: Notify,
}

/// Hashes of keys, or all keys.
#[derive(Default)]
struct Hashes {
    some: HashSet<u64>,
    all: bool,
}

impl Wakes {
    pub(crate) fn new(random: u64) -> Self {
        Self {
            sender: random.to_le_bytes(),
            announced: Mutex::default(),
            announced_some: Notify::new(),
            heard: Mutex::default(),
            heard_some: Notify::new(),
        }
    }

    /// Has the other nodes told that the record of `key` changed.
    pub(crate) fn announce(&self, key: &[u8]) {
        let mut announced = lock(&self.announced);
        if announced.some.len() >= WAITING_MOST {
            announced.some.clear();
            announced.all = true;
        }
        if !announced.all {
            announced.some.insert(xxh3_64(key));
        }
        drop(announced);
        self.announced_some.notify_one();
    }

    /// Takes what another node announced, or this one.
    pub(crate) fn hear(&self, payload: &str) {
        let Ok(bytes) = STANDARD_NO_PAD.decode(payload) else { return };
        let Some((sender, hashes)) = bytes.split_first_chunk::<8>() else { return };
        if *sender == self.sender {
            return;
        }
        let mut heard = lock(&self.heard);
        heard.all |= hashes.is_empty();
        heard.some.extend(
            hashes
                .chunks_exact(8)
                .filter_map(|chunk| chunk.try_into().ok().map(u64::from_le_bytes)),
        );
        if heard.some.len() > WAITING_MOST {
            heard.some.clear();
            heard.all = true;
        }
        drop(heard);
        self.heard_some.notify_one();
    }

    /// The next payload to announce.
    fn next_payload(&self) -> Option<String> {
        let mut announced = lock(&self.announced);
        let mut bytes = self.sender.to_vec();
        if std::mem::take(&mut announced.all) {
            announced.some.clear();
            return Some(STANDARD_NO_PAD.encode(bytes));
        }
        let hashes: Vec<u64> = announced.some.iter().copied().take(HASHES_MOST).collect();
        if hashes.is_empty() {
            return None;
        }
        for hash in hashes {
            announced.some.remove(&hash);
            bytes.extend_from_slice(&hash.to_le_bytes());
        }
        Some(STANDARD_NO_PAD.encode(bytes))
    }
}

/// Sends announcements until the store is closed.
pub(crate) async fn announce(shared: &Shared) {
    let channel = shared.options.channel();
    loop {
        shared.wakes.announced_some.notified().await;
        tokio::time::sleep(GATHER).await;
        while let Some(payload) = shared.wakes.next_payload() {
            if let Err(failure) = announce_one(shared, &channel, &payload).await {
                tracing::debug!(?failure, "wake-ups were not announced; polling finds the changes");
            }
        }
    }
}

async fn announce_one(shared: &Shared, channel: &str, payload: &str) -> Result<(), Failure> {
    let (_, session) = shared.session(Duty::Relaxed).await?;
    session.query(Named::Announce, None, &[&channel, &payload]).await?;
    Ok(())
}

/// Wakes whom other nodes announced, until the store is closed.
pub(crate) async fn wake_heard(shared: &Shared) {
    loop {
        shared.wakes.heard_some.notified().await;
        let heard = std::mem::take(&mut *lock(&shared.wakes.heard));
        if heard.all {
            shared.updates.watched().wake_all();
        } else {
            for key in shared.updates.watched().keys() {
                if heard.some.contains(&xxh3_64(&key)) {
                    shared.updates.watched().wake(&key);
                }
            }
        }
        tokio::time::sleep(GATHER).await;
    }
}

/// Polls watched records until the store is closed.
pub(crate) async fn poll(shared: &Shared) {
    let interval = Duration::from_millis(shared.options.poll_ms);
    loop {
        tokio::time::sleep(interval).await;
        let keys = shared.updates.watched().keys();
        for keys in keys.chunks(POLLED_MOST) {
            if let Err(failure) = poll_some(shared, keys).await {
                tracing::debug!(?failure, "watched records could not be polled");
            }
        }
    }
}

async fn poll_some(shared: &Shared, keys: &[std::sync::Arc<[u8]>]) -> Result<(), Failure> {
    let slices: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
    let (_, session) = shared.session(Duty::Synced).await?;
    let rows = session.query(Named::Versions, None, &[&slices]).await?;
    let mut versions: Vec<Option<i64>> = vec![None; keys.len()];
    let wrong = |error: tokio_postgres::Error| Failure::Invalid(error.to_string());
    for row in &rows {
        let place: i64 = row.try_get(0).map_err(wrong)?;
        let slot = usize::try_from(place).ok().and_then(|place| place.checked_sub(1));
        if let Some(slot) = slot.and_then(|slot| versions.get_mut(slot)) {
            *slot = Some(row.try_get(1).map_err(wrong)?);
        }
    }
    for (key, version) in keys.iter().zip(versions) {
        shared.updates.watched().polled(key, version);
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whole at every point where a thread could have died.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
