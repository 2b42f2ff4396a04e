//! Callers of the Keys service: each picks a key again and again, claims it, works, and ends its claim
//! in one of the ways that there are, or not at all.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use semel_proto::v1;
use semel_proto::v1::claim_key_response::Disposition;
use semel_proto::v1::keys_server::Keys as _;
use semel_proto::v1::response::Content;
use tonic::Request;

use super::{Caller, TENANT, micros, wire};
use crate::oracle::keys::{Keys, Told};

const OPERATION: &str = "payments.charge";
/// How many keys are asked for at a time: few, so that callers meet.
const KEYS_AT_ONCE: u64 = 4;
/// How often those are replaced by new ones.
const KEYS_LAST_US: u64 = 3_000_000;
/// How often a call is sent before its caller gives up.
const SENDS_MAX: u32 = 6;

/// One caller of the Keys service.
pub(crate) struct KeysCaller {
    pub(crate) caller: Caller,
    pub(crate) oracle: Rc<RefCell<Keys>>,
}

/// A claim that was granted.
struct Claim {
    key: String,
    owner: Bytes,
    fence: u64,
    lease: Duration,
    renewals: u64,
    /// A release, or a completion without an answer, was sent, and may have been carried out.
    may_have_ended: bool,
}

impl KeysCaller {
    /// Works for ever.
    pub(crate) async fn work(mut self) {
        loop {
            self.turn().await;
            self.caller.pause(250).await;
        }
    }

    async fn turn(&mut self) {
        let era = self.caller.world.time.now_us() / KEYS_LAST_US;
        let key = format!("{era}-{}", self.caller.random.between(1, KEYS_AT_ONCE));
        if self.caller.random.happens(150) {
            return self.replay(key).await;
        }
        let Some(mut claim) = self.claim(key).await else { return };
        self.at_work(&mut claim).await;
        match self.caller.random.between(0, 9) {
            0 => self.release(&mut claim).await,
            1 => self.complete(&mut claim, v1::Outcome::FailedRetryable).await,
            2 => self.complete(&mut claim, v1::Outcome::Indeterminate).await,
            3 => self.complete(&mut claim, v1::Outcome::FailedFinal).await,
            // Lost, with its claim.
            4 => {}
            _ => self.complete(&mut claim, v1::Outcome::Succeeded).await,
        }
    }

    async fn claim(&mut self, key: String) -> Option<Claim> {
        let random = &mut self.caller.random;
        let (owner, lease) = (random.id(), random.millis(200, 2_000));
        let policy = match random.between(0, 2) {
            0 => v1::OnOwnerLost::TakeOver,
            _ => v1::OnOwnerLost::Reconcile,
        };
        let request = v1::ClaimKeyRequest {
            tenant: TENANT.to_owned(),
            operation: OPERATION.to_owned(),
            key: key.clone(),
            fingerprints: fingerprints(),
            owner_id: owner.clone(),
            lease: Some(wire(lease)),
            wait: random.happens(300).then(|| wire(random.millis(50, 1_500))),
            on_owner_lost: policy.into(),
            ..Default::default()
        };
        for _ in 0..SENDS_MAX {
            let node = self.caller.any_node();
            let patience = self.caller.random.millis(100, 2_000);
            let sent = request.clone();
            let (answer, span) = self
                .caller
                .call(node, patience, move |services| {
                    let sent = sent.clone();
                    async move { services.keys().claim_key(Request::new(sent)).await }
                })
                .await;
            let who = self.caller.number;
            let Ok(reply) = answer else {
                self.note(format_args!("{who} claims {key} at {node}: {answer:?}"));
                self.caller.pause(300).await;
                continue;
            };
            let (said, fence) = (reply.disposition(), reply.fence);
            self.note(format_args!("{who} claims {key} at {node}: {said:?} {fence}"));
            let mut oracle = self.oracle.borrow_mut();
            match said {
                Disposition::Claimed | Disposition::TakenOver | Disposition::ReconcileRequired => {
                    oracle.granted(&key, &owner, fence, micros(reply.lease.as_ref()), span);
                    return Some(Claim {
                        key,
                        owner,
                        fence,
                        lease,
                        renewals: 0,
                        may_have_ended: false,
                    });
                }
                Disposition::Replay => {
                    oracle.told(&key, told(reply.completion), span.answered_us);
                    return None;
                }
                _ => oracle.not_done(&key, said.as_str_name(), span),
            }
            return None;
        }
        None
    }

    /// The work, and perhaps a renewal or two.
    async fn at_work(&mut self, claim: &mut Claim) {
        let half = claim.lease / 2;
        while self.caller.random.happens(400) {
            tokio::time::sleep(half).await;
            self.renew(claim).await;
        }
        let work = u64::try_from(claim.lease.as_millis()).unwrap_or_default();
        self.caller.pause(work).await;
    }

    async fn renew(&mut self, claim: &mut Claim) {
        claim.renewals += 1;
        let sent = v1::RenewKeyRequest {
            tenant: TENANT.to_owned(),
            operation: OPERATION.to_owned(),
            key: claim.key.clone(),
            fence: claim.fence,
            owner_id: claim.owner.clone(),
            renewal: claim.renewals,
            lease: Some(wire(claim.lease)),
            checkpoint: None,
        };
        let (node, patience) = (self.caller.any_node(), Duration::from_millis(400));
        let (answer, span) = self
            .caller
            .call(node, patience, move |services| {
                let sent = sent.clone();
                async move { services.keys().renew_key(Request::new(sent)).await }
            })
            .await;
        let (key, fence) = (&claim.key, claim.fence);
        let who = self.caller.number;
        self.note(format_args!("{who} renews {key} {fence} at {node}: {answer:?}"));
        match answer {
            Ok(reply) if !reply.stale => {
                let lease_us = micros(Some(&wire(claim.lease)));
                self.oracle.borrow_mut().renewed(key, fence, lease_us, span);
            }
            Err(reason) if reason == "FENCED" => {
                self.oracle.borrow_mut().fenced(key, fence, claim.may_have_ended, span);
            }
            _ => {}
        }
    }

    async fn release(&mut self, claim: &mut Claim) {
        let sent = v1::ReleaseKeyRequest {
            tenant: TENANT.to_owned(),
            operation: OPERATION.to_owned(),
            key: claim.key.clone(),
            fence: claim.fence,
            owner_id: claim.owner.clone(),
        };
        let now_us = self.caller.world.time.now_us();
        self.oracle.borrow_mut().ending(&claim.key, claim.fence, now_us);
        // Even the first answer may be that to a second copy.
        claim.may_have_ended = true;
        for _ in 0..SENDS_MAX {
            let (node, sent) = (self.caller.any_node(), sent.clone());
            let (answer, span) = self
                .caller
                .call(node, Duration::from_millis(500), move |services| {
                    let sent = sent.clone();
                    async move { services.keys().release_key(Request::new(sent)).await }
                })
                .await;
            let (who, key, fence) = (self.caller.number, &claim.key, claim.fence);
            self.note(format_args!("{who} releases {key} {fence} at {node}: {answer:?}"));
            match answer {
                Ok(_) => return,
                Err(reason) if reason == "FENCED" => {
                    let may_have_ended = claim.may_have_ended;
                    self.oracle.borrow_mut().fenced(key, fence, may_have_ended, span);
                    return;
                }
                Err(_) => {}
            }
            self.caller.pause(200).await;
        }
    }

    async fn complete(&mut self, claim: &mut Claim, outcome: v1::Outcome) {
        let concludes = matches!(outcome, v1::Outcome::Succeeded | v1::Outcome::FailedFinal);
        let body = self.caller.random.id();
        let response =
            v1::Response { content: Some(Content::Body(body.clone())), ..Default::default() };
        let sent = v1::CompleteKeyRequest {
            tenant: TENANT.to_owned(),
            operation: OPERATION.to_owned(),
            key: claim.key.clone(),
            fence: claim.fence,
            owner_id: claim.owner.clone(),
            outcome: outcome.into(),
            response: concludes.then_some(response),
        };
        let told = Told { fence: claim.fence, outcome: outcome.into(), body };
        if concludes {
            self.oracle.borrow_mut().completing(&claim.key, told.clone());
        } else {
            // Even the first answer may be that to a second copy.
            claim.may_have_ended = true;
        }
        let now_us = self.caller.world.time.now_us();
        self.oracle.borrow_mut().ending(&claim.key, claim.fence, now_us);
        for _ in 0..SENDS_MAX {
            let (node, sent) = (self.caller.any_node(), sent.clone());
            let (answer, span) = self
                .caller
                .call(node, Duration::from_millis(500), move |services| {
                    let sent = sent.clone();
                    async move { services.keys().complete_key(Request::new(sent)).await }
                })
                .await;
            let (who, key, fence) = (self.caller.number, &claim.key, claim.fence);
            self.note(format_args!(
                "{who} completes {key} {fence} {outcome:?} at {node}: {answer:?}"
            ));
            let mut oracle = self.oracle.borrow_mut();
            match answer {
                Ok(_) if concludes => return oracle.told(key, told, span.answered_us),
                Ok(_) => return,
                Err(reason) if reason == "FENCED" => {
                    return oracle.fenced(key, fence, claim.may_have_ended, span);
                }
                Err(reason) if reason == "COMPLETION_CONFLICT" => {
                    return oracle.conflict(key, &told);
                }
                Err(_) => {}
            }
            drop(oracle);
            self.caller.pause(200).await;
        }
    }

    async fn replay(&mut self, key: String) {
        let sent = v1::ReplayKeyRequest {
            tenant: TENANT.to_owned(),
            operation: OPERATION.to_owned(),
            key: key.clone(),
            fingerprints: fingerprints(),
            wait: None,
        };
        let node = self.caller.any_node();
        let (answer, span) = self
            .caller
            .call(node, Duration::from_millis(500), move |services| {
                let sent = sent.clone();
                async move { services.keys().replay_key(Request::new(sent)).await }
            })
            .await;
        let who = self.caller.number;
        match answer {
            Ok(reply) => {
                let state = reply.state();
                self.note(format_args!("{who} reads {key} at {node}: {state:?}"));
                let mut oracle = self.oracle.borrow_mut();
                match state {
                    v1::KeyState::Succeeded | v1::KeyState::FailedFinal => {
                        oracle.told(&key, told(reply.completion), span.answered_us);
                    }
                    _ => oracle.not_done(&key, state.as_str_name(), span),
                }
            }
            Err(reason) => self.note(format_args!("{who} reads {key} at {node}: {reason}")),
        }
    }

    fn note(&self, event: std::fmt::Arguments<'_>) {
        self.caller.world.log.note(event);
    }
}

/// Asks every node for a key, once all is healed.
pub(crate) async fn expect_answers(caller: &mut Caller) {
    let sent = v1::ClaimKeyRequest {
        tenant: TENANT.to_owned(),
        operation: OPERATION.to_owned(),
        key: "after-the-storm".to_owned(),
        fingerprints: fingerprints(),
        owner_id: caller.random.id(),
        ..Default::default()
    };
    let ask = move |services: Rc<crate::node::Services>| {
        let sent = sent.clone();
        async move { services.keys().claim_key(Request::new(sent)).await }
    };
    caller.expect_answers("a claim", ask).await;
}

fn fingerprints() -> Vec<v1::Fingerprint> {
    let digest = Bytes::from_static(&[7; 32]);
    vec![v1::Fingerprint { algorithm: "sha256/v1".to_owned(), digest }]
}

fn told(completion: Option<v1::Completion>) -> Told {
    let completion = completion.unwrap_or_default();
    let body = match completion.response.and_then(|response| response.content) {
        Some(Content::Body(body)) => body,
        _ => Bytes::new(),
    };
    Told { fence: completion.fence, outcome: completion.outcome, body }
}
