//! The calls on a key: repeated with the same ids until they are answered, and recorded.

use std::time::Duration;

use bytes::Bytes;
use semel_proto::v1::claim_key_response::Disposition;
use semel_proto::v1::{
    ClaimKeyRequest, ClaimKeyResponse, CompleteKeyRequest, Completion, KeyState, OnOwnerLost,
    RenewKeyRequest, RenewKeyResponse, ReplayKeyResponse,
};
use tonic::Status;

use super::{Caller, DEADLINE, refusal};
use crate::call::{Timed, is_unknown, micros, proto_us, timed, within};
use crate::checker::keys::{Answered, Asked, Call};
use crate::support::ask::{
    Owner, body, claim, complete, doubt, forget, reason, release, renew, replay, settle,
};

/// How often a call is repeated with the same ids before its client gives up.
const TRIES: usize = 6;
const ACCEPTED: Answered = Answered::Accepted { late: false };

/// One execution: a key, and who wants it.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) key: String,
    pub(super) owner: Owner,
    pub(super) lease: Duration,
    pub(super) wait: Option<Duration>,
    pub(super) on_owner_lost: OnOwnerLost,
}

impl Wanted {
    pub(super) fn request(&self) -> ClaimKeyRequest {
        ClaimKeyRequest {
            lease: Some(self.lease.try_into().unwrap()),
            wait: self.wait.map(|wait| wait.try_into().unwrap()),
            on_owner_lost: self.on_owner_lost.into(),
            ..claim(&self.key, self.owner)
        }
    }

    pub(super) fn asked(&self) -> Asked {
        let blocks = self.on_owner_lost == OnOwnerLost::Block;
        Asked::Claim { owner: self.owner, blocks }
    }
}

/// Who makes the calls of one client.
#[derive(Debug)]
pub(super) struct KeyCalls {
    pub(super) caller: Caller,
}

impl KeyCalls {
    pub(super) async fn claim(&mut self, wanted: &Wanted) -> Answered {
        let mut node = self.caller.any_node();
        let mut answered = Answered::Unknown;
        for _ in 0..TRIES {
            let mut keys = self.caller.nodes[node].keys.clone();
            let timed = timed(DEADLINE, keys.claim_key(within(DEADLINE, wanted.request()))).await;
            answered = self.note(node, &wanted.key, wanted.asked(), timed, claimed);
            if answered != Answered::Unknown {
                break;
            }
            node = self.after_unknown(node).await;
        }
        answered
    }

    pub(super) async fn renew(&mut self, wanted: &Wanted, fence: u64, renewal: u64) -> Answered {
        let node = self.caller.any_node();
        let request = RenewKeyRequest {
            lease: Some(wanted.lease.try_into().unwrap()),
            ..renew(&wanted.key, wanted.owner, fence, renewal)
        };
        let mut keys = self.caller.nodes[node].keys.clone();
        let timed = timed(DEADLINE, keys.renew_key(within(DEADLINE, request))).await;
        let lease_us = micros(wanted.lease);
        let asked = Asked::Renew { owner: wanted.owner, fence, lease_us };
        let accepted = |reply: RenewKeyResponse| Answered::Accepted { late: reply.stale };
        self.note(node, &wanted.key, asked, timed, accepted)
    }

    pub(super) async fn complete(&mut self, wanted: &Wanted, fence: u64, body: Bytes) {
        let request = complete(&wanted.key, wanted.owner, fence, &body);
        let asked = Asked::Complete { owner: wanted.owner, fence, body };
        self.conclude(&wanted.key, request, asked).await;
    }

    /// Says that nobody knows whether it was done.
    pub(super) async fn doubt(&mut self, wanted: &Wanted, fence: u64) {
        let request = doubt(&wanted.key, wanted.owner, fence);
        self.conclude(&wanted.key, request, Asked::Doubt { owner: wanted.owner, fence }).await;
    }

    async fn conclude(&mut self, key: &str, request: CompleteKeyRequest, asked: Asked) {
        let mut node = self.caller.any_node();
        for _ in 0..TRIES {
            let request = within(DEADLINE, request.clone());
            let mut keys = self.caller.nodes[node].keys.clone();
            let timed = timed(DEADLINE, keys.complete_key(request)).await;
            let answered = self.note(node, key, asked.clone(), timed, |_| ACCEPTED);
            // Sometimes it is sent again although it was answered.
            if answered != Answered::Unknown && !self.caller.once_in(6) {
                break;
            }
            node = self.after_unknown(node).await;
        }
    }

    pub(super) async fn release(&mut self, wanted: &Wanted, fence: u64) {
        let mut node = self.caller.any_node();
        for _ in 0..TRIES {
            let request = within(DEADLINE, release(&wanted.key, wanted.owner, fence));
            let mut keys = self.caller.nodes[node].keys.clone();
            let timed = timed(DEADLINE, keys.release_key(request)).await;
            let asked = Asked::Release { owner: wanted.owner, fence };
            if self.note(node, &wanted.key, asked, timed, |_| ACCEPTED) != Answered::Unknown {
                break;
            }
            node = self.after_unknown(node).await;
        }
    }

    /// Settles a key as its operator.
    pub(super) async fn settle(&mut self, key: &str, fence: u64, found: Option<Bytes>) {
        let mut node = self.caller.any_node();
        for _ in 0..TRIES {
            let request = within(DEADLINE, settle(key, fence, found.as_deref()));
            let mut keys = self.caller.nodes[node].keys.clone();
            let timed = timed(DEADLINE, keys.reconcile_key(request)).await;
            let asked = Asked::Settle { fence, found: found.clone() };
            if self.note(node, key, asked, timed, |_| ACCEPTED) != Answered::Unknown {
                break;
            }
            node = self.after_unknown(node).await;
        }
    }

    /// Erases the answer of a key as its operator.
    pub(super) async fn forget(&mut self, key: &str) -> Answered {
        let node = self.caller.any_node();
        let mut keys = self.caller.nodes[node].keys.clone();
        let timed = timed(DEADLINE, keys.forget_key(within(DEADLINE, forget(key)))).await;
        self.note(node, key, Asked::Forget, timed, |_| ACCEPTED)
    }

    pub(super) async fn replay(&mut self, node: usize, key: &str) -> Answered {
        let mut keys = self.caller.nodes[node].keys.clone();
        let timed = timed(DEADLINE, keys.replay_key(within(DEADLINE, replay(key)))).await;
        self.note(node, key, Asked::Replay, timed, replayed)
    }

    /// The same until it is answered.
    pub(super) async fn replay_for_sure(&mut self, node: usize, key: &str) -> Answered {
        for _ in 0..TRIES {
            let answered = self.replay(node, key).await;
            if answered != Answered::Unknown {
                return answered;
            }
        }
        panic!("node {node} does not answer for {key}");
    }

    pub(super) async fn after_unknown(&mut self, node: usize) -> usize {
        self.caller.pause(Duration::from_millis(100)).await;
        self.caller.next_node(node)
    }

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
        let call =
            Call { node, began_us, ended_us, asked, answered: answered.clone(), batch: None };
        self.caller.records.key(key, call);
        answered
    }
}

pub(super) fn failed(status: &Status, asked: &Asked) -> Answered {
    match reason(status).as_str() {
        _ if is_unknown(status) => Answered::Unknown,
        "FENCED" => Answered::Fenced,
        "COMPLETION_CONFLICT" => Answered::Conflict,
        "CLAIM_LIVE" => Answered::Live,
        "KEY_NOT_COMPLETED" => Answered::NotCompleted,
        "KEY_EXPIRED" => Answered::Erased,
        "KEY_UNKNOWN" => Answered::NoSuchKey,
        _ => Answered::Refused(refusal(status, asked)),
    }
}

pub(super) fn claimed(reply: ClaimKeyResponse) -> Answered {
    match reply.disposition() {
        Disposition::Claimed | Disposition::TakenOver | Disposition::ReconcileRequired => {
            let lease_us = proto_us(reply.lease);
            Answered::Granted { fence: reply.fence, lease_us, resumed: reply.resumed }
        }
        Disposition::InProgress => Answered::Held,
        Disposition::Indeterminate => Answered::Doubtful,
        Disposition::Replay => told(reply.completion),
        Disposition::Released => Answered::GivenBack,
        Disposition::Unspecified => Answered::Refused(format!("{reply:?}")),
    }
}

fn replayed(reply: ReplayKeyResponse) -> Answered {
    match reply.state() {
        KeyState::Claimed | KeyState::Lapsed => Answered::Held,
        KeyState::Indeterminate => Answered::Doubtful,
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
