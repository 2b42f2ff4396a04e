//! Clients that want the same few keys at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use rand::RngExt;
use semel_proto::v1::claim_key_response::Disposition;
use semel_proto::v1::{
    ClaimKeyRequest, ClaimKeyResponse, Completion, KeyState, OnOwnerLost, RenewKeyRequest,
    ReplayKeyResponse,
};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::{Caller, DEADLINE, refusal};
use crate::call::{Timed, is_unknown, proto_us, timed, within};
use crate::checker::keys::{Answered, Asked, Call};
use crate::support::ask::{Owner, body, claim, complete, reason, release, renew, replay};

/// How often a call is repeated with the same ids before its client gives up.
const TRIES: usize = 6;
/// How many replays a completed key gets, about, before the clients go on to another.
const REPLAYS: u32 = 12;

/// Which keys are wanted at the moment: one in each slot, replaced some time after it is completed.
#[derive(Debug)]
pub(crate) struct Slots(Vec<AtomicU64>);

impl Slots {
    pub(crate) fn new(slots: usize) -> Self {
        Self((0..slots).map(|_| AtomicU64::new(0)).collect())
    }
}

/// A client of keys.
#[derive(Debug)]
pub(crate) struct KeyClient {
    caller: Caller,
    slots: Arc<Slots>,
}

/// One execution: a key, and who wants it.
#[derive(Clone, Debug)]
struct Wanted {
    key: String,
    owner: Owner,
    lease: Duration,
    wait: Option<Duration>,
    on_owner_lost: OnOwnerLost,
}

impl KeyClient {
    pub(crate) fn new(caller: Caller, slots: &Arc<Slots>) -> Self {
        Self { caller, slots: Arc::clone(slots) }
    }

    /// Works until it is told to stop; an execution that is under way comes to its end.
    pub(crate) async fn work(mut self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            self.execute().await;
            self.caller.pause(Duration::from_millis(60)).await;
        }
    }

    async fn execute(&mut self) {
        let slot = self.caller.random.random_range(0..self.slots.0.len());
        let turn = self.slots.0[slot].load(Ordering::Relaxed);
        let key = format!("key-{slot}-{turn}");
        if self.caller.once_in(8) {
            let node = self.caller.any_node();
            self.replay(node, &key).await;
            return;
        }
        let wanted = Wanted {
            key,
            owner: self.caller.ids(),
            lease: Duration::from_millis(self.caller.random.random_range(150..900)),
            wait: self.caller.once_in(3).then_some(Duration::from_millis(400)),
            on_owner_lost: if slot.is_multiple_of(2) {
                OnOwnerLost::TakeOver
            } else {
                OnOwnerLost::Reconcile
            },
        };
        match self.claim(&wanted).await {
            Answered::Granted { fence, .. } => {
                // As if the reply had been lost, before the work begins.
                let again = self.caller.once_in(5);
                if again
                    && !matches!(self.claim(&wanted).await, Answered::Granted { fence: own, .. } if own == fence)
                {
                    return;
                }
                self.hold(&wanted, fence).await;
            }
            Answered::Told { .. } if self.caller.once_in(REPLAYS) => {
                let after = turn + 1;
                let _ = self.slots.0[slot].compare_exchange(
                    turn,
                    after,
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                );
            }
            _ => {}
        }
    }

    /// What an owner does with its claim: it works, renews, and completes, gives up, or is lost.
    async fn hold(&mut self, wanted: &Wanted, fence: u64) {
        for renewal in 1..=self.caller.random.random_range(0..3) {
            self.caller.pause(wanted.lease.mul_f64(0.7)).await;
            if self.renew(wanted, fence, renewal).await == Answered::Fenced {
                break;
            }
        }
        if self.caller.once_in(4) {
            // Too late, perhaps.
            tokio::time::sleep(wanted.lease).await;
        }
        match self.caller.random.random_range(0..10) {
            0..5 => {
                let length = self.caller.random.random_range(0..300);
                let body: Vec<u8> = (0..length).map(|_| self.caller.random.random()).collect();
                self.complete(wanted, fence, body.into()).await;
                // Late copies: of the same, and of one that says otherwise.
                if self.caller.once_in(8) {
                    self.complete(wanted, fence, Bytes::from_static(b"otherwise")).await;
                }
            }
            5..8 => {
                self.release(wanted, fence).await;
                if self.caller.once_in(3) {
                    // A late copy of the claim.
                    self.claim(wanted).await;
                }
            }
            _ => {}
        }
    }

    async fn claim(&mut self, wanted: &Wanted) -> Answered {
        let mut node = self.caller.any_node();
        let mut answered = Answered::Unknown;
        for _ in 0..TRIES {
            let request = ClaimKeyRequest {
                lease: Some(wanted.lease.try_into().unwrap()),
                wait: wanted.wait.map(|wait| wait.try_into().unwrap()),
                on_owner_lost: wanted.on_owner_lost.into(),
                ..claim(&wanted.key, wanted.owner)
            };
            let mut keys = self.caller.nodes[node].keys.clone();
            let timed = timed(DEADLINE, keys.claim_key(within(DEADLINE, request))).await;
            let asked = Asked::Claim { owner: wanted.owner };
            answered = self.note(node, &wanted.key, asked, timed, claimed);
            if answered != Answered::Unknown {
                break;
            }
            node = self.after_unknown(node).await;
        }
        answered
    }

    async fn renew(&mut self, wanted: &Wanted, fence: u64, renewal: u64) -> Answered {
        let node = self.caller.any_node();
        let request = RenewKeyRequest {
            lease: Some(wanted.lease.try_into().unwrap()),
            ..renew(&wanted.key, wanted.owner, fence, renewal)
        };
        let mut keys = self.caller.nodes[node].keys.clone();
        let timed = timed(DEADLINE, keys.renew_key(within(DEADLINE, request))).await;
        let lease_us = crate::call::micros(wanted.lease);
        let asked = Asked::Renew { owner: wanted.owner, fence, lease_us };
        let accepted =
            |reply: semel_proto::v1::RenewKeyResponse| Answered::Accepted { late: reply.stale };
        self.note(node, &wanted.key, asked, timed, accepted)
    }

    async fn complete(&mut self, wanted: &Wanted, fence: u64, body: Bytes) {
        let mut node = self.caller.any_node();
        for _ in 0..TRIES {
            let request = complete(&wanted.key, wanted.owner, fence, &body);
            let mut keys = self.caller.nodes[node].keys.clone();
            let timed = timed(DEADLINE, keys.complete_key(within(DEADLINE, request))).await;
            let asked = Asked::Complete { owner: wanted.owner, fence, body: body.clone() };
            let accepted = |_| Answered::Accepted { late: false };
            let answered = self.note(node, &wanted.key, asked, timed, accepted);
            // Sometimes it is sent again although it was answered.
            if answered != Answered::Unknown && !self.caller.once_in(6) {
                break;
            }
            node = self.after_unknown(node).await;
        }
    }

    async fn release(&mut self, wanted: &Wanted, fence: u64) {
        let mut node = self.caller.any_node();
        for _ in 0..TRIES {
            let request = release(&wanted.key, wanted.owner, fence);
            let mut keys = self.caller.nodes[node].keys.clone();
            let timed = timed(DEADLINE, keys.release_key(within(DEADLINE, request))).await;
            let asked = Asked::Release { owner: wanted.owner, fence };
            let accepted = |_| Answered::Accepted { late: false };
            if self.note(node, &wanted.key, asked, timed, accepted) != Answered::Unknown {
                break;
            }
            node = self.after_unknown(node).await;
        }
    }

    async fn replay(&mut self, node: usize, key: &str) -> Answered {
        let mut keys = self.caller.nodes[node].keys.clone();
        let timed = timed(DEADLINE, keys.replay_key(within(DEADLINE, replay(key)))).await;
        self.note(node, key, Asked::Replay, timed, replayed)
    }

    /// Asks every node for every key of a part of them, until it answers. Tells how many are completed.
    pub(crate) async fn ask_for_all(mut self, part: usize, parts: usize) -> usize {
        let all: Vec<String> = self.caller.records.keys.lock().unwrap().keys().cloned().collect();
        let mut completed = 0;
        for key in all.into_iter().skip(part).step_by(parts) {
            let mut told = false;
            for node in 0..self.caller.nodes.len() {
                let mut answered = Answered::Unknown;
                for _ in 0..TRIES {
                    answered = self.replay(node, &key).await;
                    if answered != Answered::Unknown {
                        break;
                    }
                }
                assert_ne!(answered, Answered::Unknown, "node {node} does not answer for {key}");
                told = matches!(answered, Answered::Told { .. });
            }
            completed += usize::from(told);
        }
        completed
    }

    async fn after_unknown(&mut self, node: usize) -> usize {
        self.caller.pause(Duration::from_millis(100)).await;
        self.caller.next_node(node)
    }

    /// Records a call.
    fn note<R>(
        &self,
        node: usize,
        key: &str,
        asked: Asked,
        timed: Timed<R>,
        told: impl FnOnce(R) -> Answered,
    ) -> Answered {
        self.caller.records.count(&timed);
        let Timed { began_us, ended_us, result } = timed;
        let answered = match result {
            Ok(reply) => told(reply),
            Err(status) => failed(&status, &asked),
        };
        let call = Call { node, began_us, ended_us, asked, answered: answered.clone() };
        self.caller.records.keys.lock().unwrap().entry(key.to_owned()).or_default().push(call);
        answered
    }
}

fn failed(status: &Status, asked: &Asked) -> Answered {
    match reason(status).as_str() {
        _ if is_unknown(status) => Answered::Unknown,
        "FENCED" => Answered::Fenced,
        "COMPLETION_CONFLICT" => Answered::Conflict,
        "KEY_UNKNOWN" => Answered::NoSuchKey,
        _ => Answered::Refused(refusal(status, asked)),
    }
}

fn claimed(reply: ClaimKeyResponse) -> Answered {
    match reply.disposition() {
        Disposition::Claimed | Disposition::TakenOver | Disposition::ReconcileRequired => {
            let lease_us = proto_us(reply.lease);
            Answered::Granted { fence: reply.fence, lease_us, resumed: reply.resumed }
        }
        Disposition::InProgress => Answered::Held,
        Disposition::Replay => told(reply.completion),
        Disposition::Released => Answered::GivenBack,
        _ => Answered::Refused(format!("{reply:?}")),
    }
}

fn replayed(reply: ReplayKeyResponse) -> Answered {
    match reply.state() {
        KeyState::Claimed | KeyState::Lapsed => Answered::Held,
        KeyState::Released => Answered::GivenBack,
        KeyState::Succeeded => told(reply.completion),
        _ => Answered::Refused(format!("{reply:?}")),
    }
}

fn told(completion: Option<Completion>) -> Answered {
    let completion = completion.unwrap();
    let body = Bytes::copy_from_slice(body(completion.response.as_ref().unwrap()));
    Answered::Told { fence: completion.fence, body }
}
