//! The oracle: what must be true of each key, known from requests and replies alone.
//!
//! It knows nothing of how a node decides. What was sent and not answered stays unknown until an
//! answer settles it. It checks at every reply that
//!
//! - a fence belongs to one owner, and a new one is greater than every one that was answered before
//!   its claim was sent;
//! - while an owner holds a claim that does not lapse and has not begun to end it, nobody else is
//!   given one;
//! - a key that was answered as completed is from then on answered with the same bytes, under the
//!   same fence, and an answer is one that somebody sent;
//! - a completion is not accepted after a later fence was answered.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use semel_proto::v1::claim_key_response::Disposition;
use semel_proto::v1::{ClaimKeyResponse, Completion};

use crate::support::ask::{Owner, body};

/// What a key was completed with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) fence: u64,
    pub(crate) body: Bytes,
}

impl Answer {
    fn of(completion: &Completion) -> Self {
        let body = Bytes::copy_from_slice(body(completion.response.as_ref().unwrap()));
        Self { fence: completion.fence, body }
    }
}

/// A claim that was answered, and that its owner has not begun to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) owner: Owner,
    pub(crate) fence: u64,
    /// When the lease ends at the earliest, by the store's clock: seconds and nanoseconds.
    pub(crate) lease_until: (i64, i32),
}

/// What is known of one key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// Whether its claims may lapse while the test runs.
    pub(crate) brief: bool,
    granted: BTreeMap<u64, Owner>,
    pub(crate) held: Option<Held>,
    /// Completions that were sent, each with its owner.
    pub(crate) sent: Vec<(Owner, Answer)>,
    pub(crate) answer: Option<Answer>,
}

/// What was known of a key when a request was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Before {
    newest_fence: u64,
    answered: bool,
}

/// The facts of all keys.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    keys: HashMap<String, Facts>,
}

impl Ledger {
    /// Notes a key before its first request.
    pub(crate) fn open(&mut self, key: &str, brief: bool) {
        self.keys.entry(key.to_owned()).or_insert_with(|| Facts { brief, ..Facts::default() });
    }

    pub(crate) fn facts(&self, key: &str) -> &Facts {
        &self.keys[key]
    }

    /// All keys with their facts.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&String, &Facts)> {
        self.keys.iter()
    }

    /// What is known now, to be held against the reply of a request that is sent now.
    pub(crate) fn before(&self, key: &str) -> Before {
        let facts = &self.keys[key];
        let newest_fence = facts.granted.last_key_value().map_or(0, |(fence, _)| *fence);
        Before { newest_fence, answered: facts.answer.is_some() }
    }

    /// A claim was answered.
    pub(crate) fn claimed(
        &mut self,
        key: &str,
        owner: Owner,
        before: Before,
        reply: &ClaimKeyResponse,
    ) {
        let facts = self.keys.get_mut(key).unwrap();
        match reply.disposition() {
            Disposition::Claimed | Disposition::TakenOver => {
                facts.grant(key, owner, before, reply);
            }
            Disposition::Replay => {
                facts.settle(key, Answer::of(reply.completion.as_ref().unwrap()));
            }
            Disposition::InProgress => assert!(!before.answered, "{key} was completed: {facts:?}"),
            // This owner gave it back before.
            Disposition::Released => {}
            other => panic!("{key}: {other:?} was not asked for; {facts:?}"),
        }
    }

    /// A lease was extended.
    pub(crate) fn renewed(&mut self, key: &str, fence: u64, lease_until: (i64, i32)) {
        let held = self.keys.get_mut(key).unwrap().held.as_mut();
        if let Some(held) = held.filter(|held| held.fence == fence) {
            held.lease_until = held.lease_until.max(lease_until);
        }
    }

    /// A holder is about to give its claim back: from here on another may get it.
    pub(crate) fn releasing(&mut self, key: &str, fence: u64) {
        self.keys.get_mut(key).unwrap().let_go(fence);
    }

    /// A completion is about to be sent.
    pub(crate) fn completing(&mut self, key: &str, owner: Owner, answer: Answer) -> Before {
        let facts = self.keys.get_mut(key).unwrap();
        facts.let_go(answer.fence);
        facts.sent.push((owner, answer));
        self.before(key)
    }

    /// A completion was accepted.
    pub(crate) fn completed(&mut self, key: &str, before: Before, answer: Answer) {
        let facts = self.keys.get_mut(key).unwrap();
        let stale = before.newest_fence > answer.fence;
        assert!(!stale, "{key}: {answer:?} was accepted after a later fence: {facts:?}");
        facts.settle(key, answer);
    }

    /// A completion was refused since somebody else has the claim.
    pub(crate) fn fenced(&self, key: &str) {
        let facts = &self.keys[key];
        assert!(facts.brief, "{key} was fenced although its claims do not lapse: {facts:?}");
    }
}

impl Facts {
    fn grant(&mut self, key: &str, owner: Owner, before: Before, reply: &ClaimKeyResponse) {
        let fence = reply.fence;
        assert!(!before.answered, "{key} was completed, then claimed with {fence}: {self:?}");
        let other = self.granted.insert(fence, owner).filter(|other| *other != owner);
        assert!(other.is_none(), "{key}: fence {fence} was given twice: {self:?}");
        let known = before.newest_fence >= fence;
        assert!(!known || reply.resumed, "{key}: fence {fence} came late: {self:?}");
        let live = self.held.filter(|held| held.owner != owner && !self.brief);
        assert!(live.is_none(), "{key}: two live fences, {fence} and another: {self:?}");
        let until = reply.lease_expires_at.unwrap();
        let lease_until = (until.seconds, until.nanos);
        self.held = Some(Held { owner, fence, lease_until });
    }

    fn let_go(&mut self, fence: u64) {
        self.held = self.held.filter(|held| held.fence != fence);
    }

    /// The key has this answer for ever.
    fn settle(&mut self, key: &str, answer: Answer) {
        let sent = self.sent.iter().any(|(_, sent)| *sent == answer);
        assert!(sent, "{key}: nobody sent {answer:?}: {self:?}");
        let same = self.answer.as_ref().is_none_or(|first| *first == answer);
        assert!(same, "{key}: the answer changed to {answer:?}: {self:?}");
        self.held = None;
        self.answer = Some(answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::ask::{complete, owner};

    fn grant(fence: u64) -> ClaimKeyResponse {
        ClaimKeyResponse {
            disposition: Disposition::Claimed.into(),
            fence,
            lease_expires_at: Some(prost_types::Timestamp::default()),
            ..ClaimKeyResponse::default()
        }
    }

    fn replay(fence: u64, body: &'static [u8]) -> ClaimKeyResponse {
        let response = complete("k", owner(0), fence, body).response;
        ClaimKeyResponse {
            disposition: Disposition::Replay.into(),
            completion: Some(Completion { fence, response, ..Completion::default() }),
            ..ClaimKeyResponse::default()
        }
    }

    /// A ledger in which owner 1 holds the key with fence 5.
    fn held() -> Ledger {
        let mut ledger = Ledger::default();
        ledger.open("k", false);
        ledger.claimed("k", owner(1), Before::default(), &grant(5));
        ledger
    }

    fn completed() -> Ledger {
        let mut ledger = held();
        let answer = Answer { fence: 5, body: Bytes::from_static(b"a") };
        let before = ledger.completing("k", owner(1), answer.clone());
        ledger.completed("k", before, answer);
        ledger
    }

    #[test]
    fn the_oracle_accepts_a_life_without_faults() {
        let mut ledger = completed();
        let before = ledger.before("k");
        ledger.claimed("k", owner(2), before, &replay(5, b"a"));
    }

    #[test]
    #[should_panic(expected = "two live fences")]
    fn the_oracle_sees_two_live_fences() {
        held().claimed("k", owner(2), Before::default(), &grant(6));
    }

    #[test]
    #[should_panic(expected = "was given twice")]
    fn the_oracle_sees_a_fence_that_was_given_twice() {
        let mut ledger = held();
        ledger.releasing("k", 5);
        ledger.claimed("k", owner(2), Before::default(), &grant(5));
    }

    #[test]
    #[should_panic(expected = "came late")]
    fn the_oracle_sees_a_fence_that_goes_back() {
        let mut ledger = held();
        ledger.releasing("k", 5);
        let before = ledger.before("k");
        ledger.claimed("k", owner(2), before, &grant(4));
    }

    #[test]
    #[should_panic(expected = "was completed, then claimed")]
    fn the_oracle_sees_a_second_run() {
        let mut ledger = completed();
        let before = ledger.before("k");
        ledger.claimed("k", owner(2), before, &grant(6));
    }

    #[test]
    #[should_panic(expected = "was completed:")]
    fn the_oracle_sees_an_answer_that_was_lost() {
        let mut ledger = completed();
        let before = ledger.before("k");
        let busy = Disposition::InProgress.into();
        let reply = ClaimKeyResponse { disposition: busy, ..ClaimKeyResponse::default() };
        ledger.claimed("k", owner(2), before, &reply);
    }

    #[test]
    #[should_panic(expected = "nobody sent")]
    fn the_oracle_sees_an_answer_that_changed() {
        let mut ledger = completed();
        let before = ledger.before("k");
        ledger.claimed("k", owner(2), before, &replay(5, b"b"));
    }

    #[test]
    #[should_panic(expected = "accepted after a later fence")]
    fn the_oracle_sees_a_loser_that_writes() {
        let mut ledger = held();
        ledger.releasing("k", 5);
        ledger.claimed("k", owner(2), Before::default(), &grant(6));
        let answer = Answer { fence: 5, body: Bytes::from_static(b"a") };
        let before = ledger.completing("k", owner(1), answer.clone());
        ledger.completed("k", before, answer);
    }
}
