//! Answers kept in memory, for a moment: a completed key is asked for far more often than it changes.
//!
//! An entry answers only whoever sends the same fingerprints, only until the record's retention ends,
//! and only for [`CONFIRMED_FOR`] after the store last confirmed it: within that bound an erasure is
//! effective everywhere, also on a node that is cut off. It never answers that something is not.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use semel_domain::fingerprint::Fingerprints;
use semel_domain::keys::Answer;
use semel_domain::time::Timestamp;
use semel_proto::v1;

/// How long an entry lives without being confirmed: the published bound.
pub(crate) const CONFIRMED_FOR: Duration = Duration::from_secs(5);
/// What an entry is reckoned to cost beside its own bytes.
const ENTRY_OVERHEAD_BYTES: usize = 400;
/// Entries larger than this share of the cache are not kept: one would push out many.
const LARGEST_SHARE: u64 = 16;

/// The cache of one node, shared by its threads.
pub(crate) struct ReplayCache {
    entries: Cache<Bytes, Arc<Entry>, ByBytes>,
    largest_bytes: u64,
}

struct Entry {
    /// Those of the request that the store answered, which may be fewer or more than the record's: what
    /// it would say to any others, only it knows.
    fingerprints: Fingerprints,
    completion: v1::Completion,
    expires_at: Timestamp,
    confirmed_at: Timestamp,
    bytes: u64,
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<Bytes, Arc<Entry>> for ByBytes {
    fn weight(&self, _key: &Bytes, entry: &Arc<Entry>) -> u64 {
        entry.bytes
    }
}

impl ReplayCache {
    pub(crate) fn new(capacity_bytes: u64) -> Self {
        let expected = usize::try_from(capacity_bytes / 1_024).unwrap_or(usize::MAX).max(16);
        Self {
            entries: Cache::with_weighter(expected, capacity_bytes, ByBytes),
            largest_bytes: capacity_bytes / LARGEST_SHARE,
        }
    }

    /// The answer for whoever sends the fingerprints that it was given for.
    pub(crate) fn get(
        &self,
        record_key: &[u8],
        fingerprints: &Fingerprints,
        now: Timestamp,
    ) -> Option<v1::Completion> {
        let entry = self.entries.get(record_key)?;
        let confirmed = entry.confirmed_at <= now && now.since(entry.confirmed_at) < CONFIRMED_FOR;
        let valid = confirmed && now < entry.expires_at && *fingerprints == entry.fingerprints;
        valid.then(|| entry.completion.clone())
    }

    /// Keeps an answer that the store gave for a request sent at `asked_at` with these fingerprints.
    pub(crate) fn put(
        &self,
        record_key: &Bytes,
        fingerprints: &Fingerprints,
        answer: &Answer,
        completion: &v1::Completion,
        asked_at: Timestamp,
    ) {
        let bytes = weight(record_key, completion);
        if bytes > self.largest_bytes {
            return;
        }
        let entry = Entry {
            fingerprints: fingerprints.clone(),
            completion: completion.clone(),
            expires_at: answer.expires_at,
            confirmed_at: asked_at,
            bytes,
        };
        self.entries.insert(record_key.clone(), Arc::new(entry));
    }

    /// Drops what is known of a key.
    pub(crate) fn forget(&self, record_key: &[u8]) {
        self.entries.remove(record_key);
    }
}

fn weight(record_key: &Bytes, completion: &v1::Completion) -> u64 {
    let bytes = ENTRY_OVERHEAD_BYTES + record_key.len() + prost::Message::encoded_len(completion);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use semel_domain::fingerprint::Fingerprint;
    use semel_domain::keys::{Conclusion, OwnerId};

    use super::*;

    fn fingerprints(byte: u8) -> Fingerprints {
        let one = Fingerprint::new("a", Bytes::from(vec![byte; 32])).expect("valid");
        Fingerprints::new(vec![one]).expect("valid")
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn cache_with(key: &Bytes, body: usize) -> ReplayCache {
        let cache = ReplayCache::new(1 << 20);
        let answer = Answer {
            conclusion: Conclusion::Succeeded,
            response: None,
            completed_at: at(1),
            fence: 1,
            owner: OwnerId([1; 16]),
            expires_at: at(104),
        };
        let completion = v1::Completion {
            response: Some(v1::Response {
                content: Some(v1::response::Content::Body(Bytes::from(vec![1; body]))),
                ..Default::default()
            }),
            ..Default::default()
        };
        cache.put(key, &fingerprints(1), &answer, &completion, at(100));
        cache
    }

    #[test]
    fn an_entry_answers_only_its_fingerprint_and_only_while_it_is_confirmed() {
        let key = Bytes::from_static(b"k");
        let cache = cache_with(&key, 10);
        assert!(cache.get(&key, &fingerprints(1), at(103)).is_some());
        assert!(cache.get(&key, &fingerprints(2), at(103)).is_none(), "another fingerprint");
        assert!(cache.get(&key, &fingerprints(1), at(104)).is_none(), "retention over");
        assert!(cache.get(&key, &fingerprints(1), at(99)).is_none(), "the clock went back");
        cache.forget(&key);
        assert!(cache.get(&key, &fingerprints(1), at(101)).is_none(), "forgotten");
    }

    #[test]
    fn an_entry_that_would_push_out_many_is_not_kept() {
        let key = Bytes::from_static(b"k");
        let cache = cache_with(&key, 1 << 19);
        assert!(cache.get(&key, &fingerprints(1), at(101)).is_none());
    }
}
