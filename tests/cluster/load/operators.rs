//! Operators: they settle what is stuck, erase what is done, and look whether it is gone.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use semel_proto::v1::{KeyView, ListStuckKeysRequest, OnOwnerLost};
use tokio_util::sync::CancellationToken;

use super::key_calls::KeyCalls;
use super::keys::{Slot, Slots};
use super::{Caller, DEADLINE, refusal};
use crate::call::{is_unknown, micros, now_us, timed, within};
use crate::checker::keys::Answered;
use crate::support::ask::TENANT;

/// How long an erased key is looked at: longer than any node may go on telling it.
const LOOKED_AT: Duration = Duration::from_secs(8);
/// How many erased keys are looked at.
const ERASED_MAX: usize = 8;

/// An operator of keys.
#[derive(Debug)]
pub(crate) struct Operator {
    calls: KeyCalls,
    slots: Arc<Slots>,
    /// What it erased, and when.
    erased: VecDeque<(Slot, u64)>,
}

impl Operator {
    pub(crate) fn new(caller: Caller, slots: &Arc<Slots>) -> Self {
        let erased = VecDeque::new();
        Self { calls: KeyCalls { caller }, slots: Arc::clone(slots), erased }
    }

    pub(crate) async fn work(mut self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            self.settle_stuck().await;
            if self.calls.caller.once_in(4) {
                self.erase().await;
            }
            self.look_at_erased().await;
            self.calls.caller.pause(Duration::from_millis(200)).await;
        }
    }

    async fn settle_stuck(&mut self) {
        let node = self.calls.caller.any_node();
        let request = ListStuckKeysRequest { tenant: TENANT.to_owned(), ..<_>::default() };
        let mut keys = self.calls.caller.nodes[node].keys.clone();
        let asking = keys.list_stuck_keys(within(DEADLINE, request.clone()));
        let timed = timed(DEADLINE, asking).await;
        self.calls.caller.records.count(&timed);
        let stuck: Vec<KeyView> = match timed.result {
            Ok(reply) => reply.keys,
            Err(status) if is_unknown(&status) => return,
            Err(status) => panic!("{}", refusal(&status, &request)),
        };
        for view in stuck {
            // Others are taken over as well, once somebody wants them.
            let blocks = view.on_owner_lost() == OnOwnerLost::Block;
            if self.calls.caller.once_in(if blocks { 2 } else { 6 }) {
                let done = self.calls.caller.once_in(3);
                let found = done.then(|| self.calls.caller.body());
                self.calls.settle(&view.key, view.fence, found).await;
            }
        }
    }

    /// Erases a key that is wanted no more, or that still is, if it is done.
    async fn erase(&mut self) {
        let wanted = self.slots.any(&mut self.calls.caller);
        let former = wanted.before().filter(|_| !self.calls.caller.once_in(6));
        let slot = former.unwrap_or(wanted);
        let answered = self.calls.forget(&slot.key()).await;
        // Without an answer it may be gone, too.
        if matches!(answered, Answered::Accepted { .. } | Answered::Unknown) {
            self.erased.push_back((slot, now_us()));
        }
    }

    async fn look_at_erased(&mut self) {
        let old_us = now_us().saturating_sub(micros(LOOKED_AT));
        let over = |erased: &VecDeque<(Slot, u64)>| {
            erased.len() > ERASED_MAX || erased.front().is_some_and(|(_, at_us)| *at_us < old_us)
        };
        while over(&self.erased) {
            self.erased.pop_front();
        }
        let keys: Vec<Slot> = self.erased.iter().map(|(slot, _)| *slot).collect();
        for slot in keys {
            if self.calls.caller.once_in(3) {
                let wanted = slot.wanted(&mut self.calls.caller);
                self.calls.claim(&wanted).await;
            } else {
                let node = self.calls.caller.any_node();
                self.calls.replay(node, &slot.key()).await;
            }
        }
    }
}
