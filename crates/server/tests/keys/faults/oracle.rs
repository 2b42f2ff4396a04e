//! An oracle: what callers were told, held against what can be true.
//!
//! Leases are long enough never to run out, so a grant while somebody holds the key, a fence that
//! does not grow, or an answer that changes is a fault. A caller tells the oracle what it is about to
//! do *before* it asks for it, since others may see the effect before it sees the reply.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use semel_proto::v1;

use crate::support::*;

const KEYS: u32 = 8;
const ROUNDS: u32 = 12;

/// What is known of one key.
#[derive(Default)]
struct Known {
    /// The newest fence that anybody was granted.
    fence: u64,
    holder: Option<Bytes>,
    /// The holder has begun to give the claim back.
    leaving: bool,
    /// The answers that may be the key's: asked for, perhaps stored.
    possible: Vec<Bytes>,
    /// The answer that somebody was told.
    answer: Option<Bytes>,
}

/// What is known of all keys.
#[derive(Clone)]
pub(super) struct Oracle {
    seed: u64,
    keys: Arc<Mutex<HashMap<String, Known>>>,
    /// Who gave up on a call. A late copy of it may get a claim that nobody works on: the key is then
    /// held until its lease runs out, which costs time and nothing else.
    impatient: Arc<Mutex<HashSet<Bytes>>>,
}

impl Oracle {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, keys: Arc::default(), impatient: Arc::default() }
    }

    fn with<T>(&self, key: &str, tell: impl FnOnce(&mut Known) -> T) -> T {
        tell(self.keys.lock().expect("no caller panicked").entry(key.to_owned()).or_default())
    }

    /// One caller's work: claims keys at random, and completes them or gives them back.
    pub(super) fn caller(&self, keys: Caller, number: u32) -> impl Future<Output = ()> + use<> {
        let oracle = self.clone();
        let random = SmallRng::seed_from_u64((self.seed << 32) | u64::from(number));
        async move {
            let mut work = Work { oracle, keys, random };
            for round in 0..ROUNDS {
                work.turn(number * ROUNDS + round + 1).await;
            }
        }
    }

    /// In the end every answer that somebody was told is there, byte for byte.
    pub(super) async fn check(&self, keys: &Caller) {
        let known = std::mem::take(&mut *self.keys.lock().expect("no caller panicked"));
        let mut answered = 0;
        for (key, known) in known {
            let found = keys.claim(claim(&key).owner(u32::MAX)).await.expect("answered");
            let body = body_of(found.completion.as_ref()).cloned();
            if let Some(answer) = known.answer {
                assert_eq!(found.disposition(), Disposition::Replay, "{key}");
                assert_eq!(body, Some(answer), "{key}");
                answered += 1;
            } else if found.disposition() == Disposition::InProgress {
                let view = keys.get(get(&claim(&key))).await.expect("there").key.expect("a key");
                let impatient = self.impatient.lock().expect("no caller panicked");
                assert!(impatient.contains(&view.owner_id), "{key}: held by nobody");
            } else {
                assert_eq!(found.disposition(), Disposition::Claimed, "{key}");
                assert!(found.fence > known.fence, "{key}");
            }
        }
        assert!(answered > 0, "some key was completed");
    }
}

struct Work {
    oracle: Oracle,
    keys: Caller,
    random: SmallRng,
}

impl Work {
    async fn turn(&mut self, owner: u32) {
        // Keys come into fashion one after the other, so that each is fought for.
        let key = format!("k{}", (owner % ROUNDS + self.random.random_range(0..2)) % KEYS);
        let mut request = claim(&key).owner(owner).lease_ms(3_600_000);
        if self.random.random_bool(0.3) {
            request = request.wait_ms(self.random.random_range(1..50));
        }
        let reply = self.claim(request.clone()).await;
        match reply.disposition() {
            Disposition::Claimed => {
                self.granted(&key, &request, reply.fence);
                self.finish(&key, &request, reply.fence).await;
            }
            Disposition::Replay => {
                let body = body_of(reply.completion.as_ref()).expect("a body").clone();
                self.told(&key, body);
            }
            Disposition::InProgress => {}
            other => panic!("{key}: {other:?}"),
        }
    }

    /// Asks until there is an answer, as a client does: with the same ids. Sometimes it gives up on a
    /// call before the reply comes.
    async fn claim(&mut self, request: v1::ClaimKeyRequest) -> v1::ClaimKeyResponse {
        loop {
            let mut call = tonic::Request::new(request.clone());
            if self.random.random_bool(0.2) {
                let mut impatient = self.oracle.impatient.lock().expect("no caller panicked");
                impatient.insert(request.owner_id.clone());
                call.set_timeout(Duration::from_millis(self.random.random_range(1..10)));
            }
            if let Ok(reply) = self.keys.raw().claim_key(call).await {
                return reply.into_inner();
            }
        }
    }

    fn granted(&self, key: &str, request: &v1::ClaimKeyRequest, fence: u64) {
        self.oracle.with(key, |known| {
            let held = known.holder.is_some() && !known.leaving;
            assert!(!held, "{key}: two owners");
            assert!(known.answer.is_none(), "{key}: granted after its answer was known");
            assert!(fence > known.fence, "{key}: a fence came back");
            known.fence = fence;
            known.holder = Some(request.owner_id.clone());
            known.leaving = false;
        });
    }

    fn told(&self, key: &str, body: Bytes) {
        self.oracle.with(key, |known| {
            assert!(known.possible.contains(&body), "{key}: an answer that nobody gave");
            assert!(known.answer.as_ref().is_none_or(|answer| *answer == body), "{key}: changed");
            known.answer = Some(body);
        });
    }

    async fn finish(&mut self, key: &str, request: &v1::ClaimKeyRequest, fence: u64) {
        if self.random.random_bool(0.3) {
            self.repeat(Step::Renew(renew(request, fence, 1))).await;
        }
        if self.random.random_bool(0.9) {
            self.oracle.with(key, |known| known.leaving = true);
            let undone = complete(request, fence, v1::Outcome::FailedRetryable);
            let release = release(request, fence);
            let first = self.random.random_bool(0.5);
            self.repeat(if first { Step::Undone(undone) } else { Step::Release(release) }).await;
            return;
        }
        let body = Bytes::from(format!("{key} by {:?}", request.owner_id));
        self.oracle.with(key, |known| known.possible.push(body.clone()));
        self.repeat(Step::Done(succeed(request, fence, body.clone()))).await;
        self.told(key, body);
    }

    /// Repeats a step until it is known to be done.
    async fn repeat(&self, step: Step) {
        loop {
            let keys = &self.keys;
            let (result, leaves) = match step.clone() {
                Step::Renew(request) => (keys.renew(request).await.map(drop), false),
                Step::Done(request) => (keys.complete(request).await.map(drop), false),
                Step::Undone(request) => (keys.complete(request).await.map(drop), true),
                Step::Release(request) => (keys.release(request).await.map(drop), true),
            };
            match result {
                Ok(()) => return,
                // It was carried out, its reply was lost, and another holds the key by now.
                Err(refused) if leaves && refused.reason == "FENCED" => return,
                Err(refused) => assert_eq!(refused.reason, "STORE_UNAVAILABLE", "{step:?}"),
            }
        }
    }
}

/// What the holder of a claim asks for.
#[derive(Clone, Debug)]
enum Step {
    Renew(v1::RenewKeyRequest),
    Done(v1::CompleteKeyRequest),
    Undone(v1::CompleteKeyRequest),
    Release(v1::ReleaseKeyRequest),
}
