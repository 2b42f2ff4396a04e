//! Clients that ask for many keys in one call, some of them twice.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rand::RngExt;
use semel_proto::v1::claim_key_result::Result as ClaimResult;
use semel_proto::v1::complete_key_result::Result as CompleteResult;
use semel_proto::v1::{ClaimKeysRequest, CompleteKeysRequest};
use tokio_util::sync::CancellationToken;

use super::key_calls::{KeyCalls, Wanted, claimed, failed};
use super::keys::Slots;
use super::{Caller, DEADLINE};
use crate::call::{Timed, timed, within};
use crate::checker::keys::{Answered, Asked, Call};
use crate::support::ask::{complete, item_status};

const TRIES: usize = 3;

/// A client of batches.
#[derive(Debug)]
pub(crate) struct BatchClient {
    calls: KeyCalls,
    slots: Arc<Slots>,
}

/// An item: the key, what is asked of it, and by whom.
type Item = (Wanted, Asked);

impl BatchClient {
    pub(crate) fn new(caller: Caller, slots: &Arc<Slots>) -> Self {
        Self { calls: KeyCalls { caller }, slots: Arc::clone(slots) }
    }

    pub(crate) async fn work(mut self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            self.execute().await;
            self.calls.caller.pause(Duration::from_millis(250)).await;
        }
    }

    async fn execute(&mut self) {
        let items = self.wanted();
        let answers = self.claim(&items).await;
        // An owner that was given its claim twice has it once.
        let mut held: Vec<(Wanted, u64)> = Vec::new();
        for ((wanted, _), answered) in items.into_iter().zip(answers) {
            let Answered::Granted { fence, .. } = answered else { continue };
            if held.iter().all(|(other, _)| other.owner != wanted.owner) {
                held.push((wanted, fence));
            }
        }
        self.calls.caller.pause(Duration::from_millis(200)).await;
        let mut done = Vec::new();
        for (wanted, fence) in held {
            match self.calls.caller.random.random_range(0..4) {
                0 => self.calls.release(&wanted, fence).await,
                1 => {}
                _ => {
                    let body = self.calls.caller.body();
                    let asked = |body| Asked::Complete { owner: wanted.owner, fence, body };
                    done.push((wanted.clone(), asked(body.clone())));
                    match self.calls.caller.random.random_range(0..3) {
                        0 => done.push((wanted.clone(), asked(body))),
                        1 => done.push((wanted.clone(), asked(Bytes::from_static(b"otherwise")))),
                        _ => {}
                    }
                }
            }
        }
        if !done.is_empty() {
            self.complete(&done).await;
        }
    }

    /// Some keys, and some of them a second time: for the same owner, or for another.
    fn wanted(&mut self) -> Vec<Item> {
        let mut items = Vec::new();
        for _ in 0..self.calls.caller.random.random_range(2..6) {
            let slot = self.slots.any(&mut self.calls.caller);
            let wanted = slot.wanted(&mut self.calls.caller);
            let again = match self.calls.caller.random.random_range(0..3) {
                0 => Some(wanted.clone()),
                1 => Some(slot.wanted(&mut self.calls.caller)),
                _ => None,
            };
            items.extend([Some(wanted), again].into_iter().flatten());
        }
        items.into_iter().map(|wanted| (wanted.clone(), wanted.asked())).collect()
    }

    /// Sends the claims until they are answered.
    async fn claim(&mut self, items: &[Item]) -> Vec<Answered> {
        let claims = items.iter().map(|(wanted, _)| wanted.request()).collect();
        let request = ClaimKeysRequest { claims };
        let mut node = self.calls.caller.any_node();
        for _ in 0..TRIES {
            let mut keys = self.calls.caller.nodes[node].keys.clone();
            let asking = keys.claim_keys(within(DEADLINE, request.clone()));
            let told = timed(DEADLINE, asking).await;
            let answers = self.note(node, items, told, |reply, asked| {
                let results = reply.results.into_iter().zip(asked);
                let answer =
                    |(result, asked): (semel_proto::v1::ClaimKeyResult, &Asked)| match result
                        .result
                        .unwrap()
                    {
                        ClaimResult::Response(reply) => claimed(reply),
                        ClaimResult::Error(error) => failed(&item_status(&error), asked),
                    };
                results.map(answer).collect()
            });
            if answers.iter().all(|answered| *answered != Answered::Unknown) {
                return answers;
            }
            node = self.calls.after_unknown(node).await;
        }
        Vec::new()
    }

    async fn complete(&mut self, items: &[Item]) {
        let completions = items.iter().map(|(wanted, asked)| match asked {
            Asked::Complete { owner, fence, body } => complete(&wanted.key, *owner, *fence, body),
            _ => panic!("no completion: {asked:?}"),
        });
        let request = CompleteKeysRequest { completions: completions.collect() };
        let mut node = self.calls.caller.any_node();
        for _ in 0..TRIES {
            let mut keys = self.calls.caller.nodes[node].keys.clone();
            let asking = keys.complete_keys(within(DEADLINE, request.clone()));
            let told = timed(DEADLINE, asking).await;
            let answers =
                self.note(node, items, told, |reply, asked| {
                    let results = reply.results.into_iter().zip(asked);
                    let answer = |(result, asked): (semel_proto::v1::CompleteKeyResult, &Asked)| {
                        match result.result.unwrap() {
                            CompleteResult::Response(_) => Answered::Accepted { late: false },
                            CompleteResult::Error(error) => failed(&item_status(&error), asked),
                        }
                    };
                    results.map(answer).collect()
                });
            if answers.iter().all(|answered| *answered != Answered::Unknown) {
                return;
            }
            node = self.calls.after_unknown(node).await;
        }
    }

    /// Records a call, item by item. `told` gives the items' answers.
    fn note<R>(
        &mut self,
        node: usize,
        items: &[Item],
        timed: Timed<R>,
        told: impl FnOnce(R, Vec<&Asked>) -> Vec<Answered>,
    ) -> Vec<Answered> {
        let records = Arc::clone(&self.calls.caller.records);
        records.count(&timed);
        let batch = Some(self.calls.caller.random.random());
        let Timed { began_us, ended_us, result } = timed;
        let answers = match result {
            Ok(reply) => told(reply, items.iter().map(|(_, asked)| asked).collect()),
            Err(status) => items.iter().map(|(_, asked)| failed(&status, asked)).collect(),
        };
        assert_eq!(answers.len(), items.len(), "an answer for each item");
        for ((wanted, asked), answered) in items.iter().zip(&answers) {
            let (asked, answered) = (asked.clone(), answered.clone());
            let call = Call { node, began_us, ended_us, asked, answered, batch };
            records.key(&wanted.key, call);
        }
        answers
    }
}
