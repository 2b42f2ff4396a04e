//! What can be true of keys.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::Span;
use crate::log::{Log, Promise};

/// An answer of a key: what an owner completes it with, and what everybody is told from then on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) fence: u64,
    pub(crate) outcome: i32,
    pub(crate) body: Bytes,
}

/// What is known of all keys.
#[derive(Debug)]
pub(crate) struct Keys {
    log: Log,
    keys: BTreeMap<String, Known>,
}

#[derive(Debug, Default)]
struct Known {
    claims: BTreeMap<u64, Held>,
    /// What may have been stored.
    possible: Vec<Told>,
    /// What everybody is told, and since when somebody knows.
    settled: Option<(Told, u64)>,
}

/// A claim, as far as its owner can tell.
#[derive(Debug)]
struct Held {
    owner: Bytes,
    /// When the first answer named it.
    answered_us: u64,
    /// Until when its owner may rely on it: counted from before it asked.
    until_us: u64,
    /// When its owner began to end it.
    ended_us: Option<u64>,
}

impl Held {
    fn is_live_at(&self, at_us: u64) -> bool {
        at_us < self.until_us && self.ended_us.is_none_or(|ended_us| at_us < ended_us)
    }
}

impl Keys {
    pub(crate) fn new(log: Log) -> Self {
        Self { log, keys: BTreeMap::new() }
    }

    fn known(&mut self, key: &str) -> &mut Known {
        self.keys.entry(key.to_owned()).or_default()
    }

    /// A claim was granted.
    pub(crate) fn granted(
        &mut self,
        key: &str,
        owner: &Bytes,
        fence: u64,
        lease_us: u64,
        span: Span,
    ) {
        let known = self.known(key);
        let before = known.claims.iter().filter(|(_, held)| held.answered_us < span.sent_us);
        let highest = before.map(|(fence, _)| *fence).max().unwrap_or(0);
        let mut broken = Vec::new();
        if fence < highest {
            broken.push((Promise::FencesRise, format!("fence {fence} after {highest}")));
        }
        if let Some((told, since_us)) = &known.settled
            && *since_us < span.sent_us
        {
            broken.push((Promise::CompletionKept, format!("granted again, after {told:?}")));
        }
        let held = known.claims.entry(fence).or_insert_with(|| Held {
            owner: owner.clone(),
            answered_us: span.answered_us,
            until_us: 0,
            ended_us: None,
        });
        if held.owner != *owner {
            broken.push((Promise::OneLiveFence, format!("fence {fence} has two owners")));
        }
        held.until_us = held.until_us.max(span.sent_us.saturating_add(lease_us));
        broken.extend(known.two_live());
        self.broken(key, broken);
    }

    /// A renewal was acknowledged.
    pub(crate) fn renewed(&mut self, key: &str, fence: u64, lease_us: u64, span: Span) {
        let known = self.known(key);
        let until_us = span.sent_us.saturating_add(lease_us);
        if let Some(held) = known.claims.get_mut(&fence) {
            held.until_us = held.until_us.max(until_us);
        }
        let broken = known.two_live();
        self.broken(key, broken);
    }

    /// An owner is about to end its claim.
    pub(crate) fn ending(&mut self, key: &str, fence: u64, now_us: u64) {
        if let Some(held) = self.known(key).claims.get_mut(&fence) {
            held.ended_us.get_or_insert(now_us);
        }
    }

    /// An owner is about to complete with an answer.
    pub(crate) fn completing(&mut self, key: &str, told: Told) {
        let known = self.known(key);
        if !known.possible.contains(&told) {
            known.possible.push(told);
        }
    }

    /// Somebody was told the key's answer, or that its own was accepted.
    pub(crate) fn told(&mut self, key: &str, told: Told, now_us: u64) {
        let known = self.known(key);
        let mut broken = Vec::new();
        if !known.possible.contains(&told) {
            broken.push((Promise::ReplayExact, format!("{told:?} is nobody's")));
        }
        match &known.settled {
            None => known.settled = Some((told, now_us)),
            Some((settled, _)) if *settled != told => {
                broken.push((Promise::ReplayExact, format!("{told:?}, and before {settled:?}")));
            }
            Some(_) => {}
        }
        self.broken(key, broken);
    }

    /// Somebody was told that the key is not done.
    pub(crate) fn not_done(&mut self, key: &str, said: &str, span: Span) {
        let known = self.known(key);
        if let Some((told, since_us)) = &known.settled
            && *since_us < span.sent_us
        {
            let broken = format!("{said}, after {told:?}");
            self.broken(key, [(Promise::CompletionKept, broken)]);
        }
    }

    /// An owner that wanted to renew or complete was told that its fence is an old one.
    pub(crate) fn fenced(&mut self, key: &str, fence: u64, may_have_ended: bool, span: Span) {
        let known = self.known(key);
        let held = known.claims.get(&fence);
        if !may_have_ended && held.is_some_and(|held| span.answered_us < held.until_us) {
            let broken = format!("fence {fence} is refused while its lease runs");
            self.broken(key, [(Promise::LiveClaimHolds, broken)]);
        }
    }

    /// An owner was told that another answer stands.
    pub(crate) fn conflict(&mut self, key: &str, told: &Told) {
        let known = self.known(key);
        if !known.possible.iter().any(|other| other != told) {
            let broken = format!("{told:?} conflicts with nothing");
            self.broken(key, [(Promise::CompletionKept, broken)]);
        }
    }

    fn broken(&self, key: &str, broken: impl IntoIterator<Item = (Promise, String)>) {
        for (promise, seen) in broken {
            self.log.violated(promise, format!("{key}: {seen}"));
        }
    }
}

impl Known {
    /// A later claim that had been answered while an earlier one was surely live.
    fn two_live(&self) -> Option<(Promise, String)> {
        let mut later_answered_us = u64::MAX;
        for (fence, held) in self.claims.iter().rev() {
            if later_answered_us != u64::MAX && held.is_live_at(later_answered_us) {
                let seen = format!("fence {fence} was live when a later one was granted");
                return Some((Promise::OneLiveFence, seen));
            }
            later_answered_us = later_answered_us.min(held.answered_us);
        }
        None
    }
}
