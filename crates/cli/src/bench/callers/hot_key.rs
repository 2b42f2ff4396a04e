//! Everybody claims one key: one gets it and does the work, the others get its answer.

use std::collections::BTreeSet;
use std::time::Duration;

use prost::Message;
use semel_proto::v1::claim_key_response::Disposition;
use semel_proto::v1::{ClaimKeyRequest, ClaimKeyResponse, CompleteKeyResponse, Completion};
use serde::Serialize;

use super::{CLAIM_KEY, COMPLETE_KEY, Scene};
use crate::bench::client::Stub;
use crate::bench::crew::Caller;
use crate::values::to_wire;

const WAIT: Duration = Duration::from_secs(30);

/// Claims the one key, and completes it if it gets it.
pub(crate) struct HotKey {
    request: ClaimKeyRequest,
    claimed: u64,
    replayed: u64,
    answers: Vec<Completion>,
}

impl HotKey {
    /// A caller at this seat.
    pub(crate) fn new(scene: &Scene, seat: u16) -> Self {
        let mut request = scene.claim(format!("{}-hot", scene.run), scene.dice(seat).owner_id());
        request.wait = Some(to_wire(WAIT));
        Self { request, claimed: 0, replayed: 0, answers: Vec::new() }
    }

    async fn complete(&self, stub: &mut Stub, fence: u64) -> Result<(), String> {
        let completion = Scene::completion(&self.request, fence, Scene::body(fence));
        stub.unary(COMPLETE_KEY, completion).await.map(|_: CompleteKeyResponse| ())
    }

    /// Keeps every answer that differs from those before: normally one.
    fn compare(&mut self, answer: Option<Completion>) -> Result<(), String> {
        let answer = answer.ok_or("a replay came without its answer")?;
        if !self.answers.contains(&answer) {
            self.answers.push(answer);
        }
        Ok(())
    }
}

impl Caller for HotKey {
    async fn call(&mut self, stub: &mut Stub) -> Result<(), String> {
        let reply: ClaimKeyResponse = stub.unary(CLAIM_KEY, self.request.clone()).await?;
        match reply.disposition() {
            Disposition::Claimed => {
                self.claimed += 1;
                self.complete(stub, reply.fence).await
            }
            Disposition::Replay => {
                self.replayed += 1;
                self.compare(reply.completion)
            }
            other => Err(format!("the hot key was answered {}", other.as_str_name())),
        }
    }
}

/// What came of the one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct HotKeySum {
    /// How many callers were told to do the work.
    pub(crate) claimed: u64,
    /// How many got an answer.
    pub(crate) replayed: u64,
    /// How many answers there were that differ in any byte.
    pub(crate) distinct_responses: usize,
}

impl HotKeySum {
    /// Over all callers.
    pub(crate) fn of<'a>(callers: impl Iterator<Item = &'a HotKey>) -> Self {
        let (mut claimed, mut replayed, mut distinct) = (0, 0, BTreeSet::new());
        for caller in callers {
            claimed += caller.claimed;
            replayed += caller.replayed;
            distinct.extend(caller.answers.iter().map(Message::encode_to_vec));
        }
        Self { claimed, replayed, distinct_responses: distinct.len() }
    }

    /// Whether the work was done once, and everybody was told the same.
    pub(crate) const fn is_right(self) -> bool {
        self.claimed == 1 && self.distinct_responses <= 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(answers: &[u64]) -> HotKey {
        let mut caller = HotKey::new(&Scene::new(0).unwrap(), 0);
        for fence in answers {
            let answer = Completion { fence: *fence, ..Completion::default() };
            caller.compare(Some(answer)).unwrap();
        }
        caller
    }

    #[test]
    fn answers_that_differ_are_told_apart() {
        let sum = |callers: [&[u64]; 2]| HotKeySum::of(callers.map(caller).iter());
        let same = sum([&[7, 7], &[7]]);
        assert_eq!(same.distinct_responses, 1);
        let different = sum([&[7, 8, 7], &[7]]);
        assert_eq!(different.distinct_responses, 2);
        assert!(!HotKeySum { claimed: 1, ..different }.is_right());
        assert!(!HotKeySum { claimed: 2, ..same }.is_right());
        assert!(HotKeySum { claimed: 1, ..same }.is_right());
    }
}
