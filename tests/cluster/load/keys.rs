//! Clients that want the same few keys at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use rand::RngExt;
use semel_proto::v1::OnOwnerLost;
use tokio_util::sync::CancellationToken;

use super::Caller;
use super::key_calls::{KeyCalls, Wanted};
use crate::checker::keys::Answered;

/// How many replays a completed key gets, about, before the clients go on to another.
const REPLAYS: u32 = 12;

/// Which keys are wanted at the moment: one in each slot, replaced some time after it is completed.
#[derive(Debug)]
pub(crate) struct Slots(Vec<AtomicU64>);

/// A key that is wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    slot: usize,
    turn: u64,
}

impl Slots {
    pub(crate) fn new(slots: usize) -> Self {
        Self((0..slots).map(|_| AtomicU64::new(0)).collect())
    }

    pub(super) fn any(&self, caller: &mut Caller) -> Slot {
        let slot = caller.random.random_range(0..self.0.len());
        Slot { slot, turn: self.0[slot].load(Ordering::Relaxed) }
    }

    /// Goes on to the next key sometimes, now that this one is over.
    pub(super) fn over(&self, at: Slot, caller: &mut Caller) {
        if caller.once_in(REPLAYS) {
            let (turn, next) = (at.turn, at.turn + 1);
            let order = Ordering::Relaxed;
            // Somebody else may have been first.
            let _ = self.0[at.slot].compare_exchange(turn, next, order, order);
        }
    }
}

impl Slot {
    pub(super) fn key(self) -> String {
        format!("key-{}-{}", self.slot, self.turn)
    }

    /// The key before it.
    pub(super) fn before(self) -> Option<Self> {
        Some(Self { turn: self.turn.checked_sub(1)?, ..self })
    }

    /// Somebody new who wants it.
    pub(super) fn wanted(self, caller: &mut Caller) -> Wanted {
        Wanted {
            key: self.key(),
            owner: caller.ids(),
            lease: Duration::from_millis(caller.random.random_range(150..900)),
            wait: None,
            on_owner_lost: match self.slot % 3 {
                0 => OnOwnerLost::TakeOver,
                1 => OnOwnerLost::Reconcile,
                _ => OnOwnerLost::Block,
            },
        }
    }
}

/// A client of keys.
#[derive(Debug)]
pub(crate) struct KeyClient {
    calls: KeyCalls,
    slots: Arc<Slots>,
}

impl KeyClient {
    pub(crate) fn new(caller: Caller, slots: &Arc<Slots>) -> Self {
        Self { calls: KeyCalls { caller }, slots: Arc::clone(slots) }
    }

    /// Works until it is told to stop; an execution that is under way comes to its end.
    pub(crate) async fn work(mut self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            self.execute().await;
            self.calls.caller.pause(Duration::from_millis(60)).await;
        }
    }

    async fn execute(&mut self) {
        let slot = self.slots.any(&mut self.calls.caller);
        if self.calls.caller.once_in(8) {
            let node = self.calls.caller.any_node();
            self.calls.replay(node, &slot.key()).await;
            return;
        }
        let mut wanted = slot.wanted(&mut self.calls.caller);
        wanted.wait = self.calls.caller.once_in(3).then_some(Duration::from_millis(400));
        match self.calls.claim(&wanted).await {
            Answered::Granted { fence, .. } => {
                // As if the reply had been lost, before the work begins.
                let again = self.calls.caller.once_in(5);
                if again
                    && !matches!(self.calls.claim(&wanted).await, Answered::Granted { fence: own, .. } if own == fence)
                {
                    return;
                }
                self.hold(&wanted, fence).await;
            }
            Answered::Told { .. } | Answered::Erased => {
                self.slots.over(slot, &mut self.calls.caller);
            }
            _ => {}
        }
    }

    /// What an owner does with its claim: it works, renews, and completes, gives up, does not know, or is lost.
    async fn hold(&mut self, wanted: &Wanted, fence: u64) {
        for renewal in 1..=self.calls.caller.random.random_range(0..3) {
            self.calls.caller.pause(wanted.lease.mul_f64(0.7)).await;
            if self.calls.renew(wanted, fence, renewal).await == Answered::Fenced {
                break;
            }
        }
        if self.calls.caller.once_in(12) {
            // An operator who does not wait until the lease is over.
            self.calls.settle(&wanted.key, fence, None).await;
        }
        if self.calls.caller.once_in(4) {
            // Too late, perhaps.
            tokio::time::sleep(wanted.lease).await;
        }
        match self.calls.caller.random.random_range(0..10) {
            0..4 => self.complete(wanted, fence).await,
            4..7 => {
                self.calls.release(wanted, fence).await;
                if self.calls.caller.once_in(3) {
                    // A late copy of the claim.
                    self.calls.claim(wanted).await;
                }
            }
            7..9 => {
                self.calls.doubt(wanted, fence).await;
                if self.calls.caller.once_in(2) {
                    // It finds out.
                    self.calls.caller.pause(Duration::from_millis(300)).await;
                    self.complete(wanted, fence).await;
                }
            }
            _ => {}
        }
    }

    async fn complete(&mut self, wanted: &Wanted, fence: u64) {
        let body = self.calls.caller.body();
        self.calls.complete(wanted, fence, body).await;
        // Late copies: of the same, and of one that says otherwise.
        if self.calls.caller.once_in(8) {
            self.calls.complete(wanted, fence, Bytes::from_static(b"otherwise")).await;
        }
    }

    /// Asks every node for every key of a part of them, until it answers. Tells how many are completed.
    pub(crate) async fn ask_for_all(mut self, part: usize, parts: usize) -> usize {
        let records = Arc::clone(&self.calls.caller.records);
        let all: Vec<String> = records.keys.lock().unwrap().keys().cloned().collect();
        let mut completed = 0;
        for key in all.into_iter().skip(part).step_by(parts) {
            let mut told = false;
            for node in 0..self.calls.caller.nodes.len() {
                let answered = self.calls.replay_for_sure(node, &key).await;
                told = matches!(answered, Answered::Told { .. } | Answered::Erased);
            }
            completed += usize::from(told);
        }
        completed
    }
}
