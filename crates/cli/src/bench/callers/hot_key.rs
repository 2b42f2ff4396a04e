//! Everybody claims one key: one gets it and does the work, the others get its answer.

use std::time::Duration;

use prost::Message;
use semel_proto::v1::claim_key_response::Disposition;
use semel_proto::v1::keys_client::KeysClient;
use semel_proto::v1::{ClaimKeyRequest, Completion};
use serde::Serialize;
use tonic::transport::Channel;

use super::{Scene, refused};
use crate::bench::crew::Caller;
use crate::values::to_wire;

const WAIT: Duration = Duration::from_secs(30);

/// Claims the one key, and completes it if it gets it.
pub(crate) struct HotKey {
    keys: KeysClient<Channel>,
    request: ClaimKeyRequest,
    claimed: u64,
    replayed: u64,
    answers: Vec<Completion>,
}

impl HotKey {
    /// A caller over this connection.
    pub(crate) fn new(channel: Channel, scene: &Scene, seat: u16) -> Self {
        let mut request = scene.claim(format!("{}-hot", scene.run), scene.dice(seat).owner_id());
        request.wait = Some(to_wire(WAIT));
        let keys = KeysClient::new(channel);
        Self { keys, request, claimed: 0, replayed: 0, answers: Vec::new() }
    }

    async fn complete(&mut self, fence: u64) -> Result<(), String> {
        let completion = Scene::completion(&self.request, fence, Scene::body(fence));
        self.keys.complete_key(completion).await.map_err(|status| refused(&status))?;
        Ok(())
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
    async fn call(&mut self) -> Result<(), String> {
        let reply = self.keys.claim_key(self.request.clone()).await;
        let reply = reply.map_err(|status| refused(&status))?.into_inner();
        match reply.disposition() {
            Disposition::Claimed => {
                self.claimed += 1;
                self.complete(reply.fence).await
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
    pub(crate) fn of(callers: &[HotKey]) -> Self {
        let mut encoded: Vec<Vec<u8>> =
            callers.iter().flat_map(|caller| &caller.answers).map(Message::encode_to_vec).collect();
        encoded.sort_unstable();
        encoded.dedup();
        Self {
            claimed: callers.iter().map(|caller| caller.claimed).sum(),
            replayed: callers.iter().map(|caller| caller.replayed).sum(),
            distinct_responses: encoded.len(),
        }
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
        let channel = tonic::transport::Endpoint::from_static("http://127.0.0.1:1").connect_lazy();
        let mut caller = HotKey::new(channel, &Scene::new(0).unwrap(), 0);
        for fence in answers {
            let answer = Completion { fence: *fence, ..Completion::default() };
            caller.compare(Some(answer)).unwrap();
        }
        caller
    }

    #[tokio::test]
    async fn answers_that_differ_are_told_apart() {
        let same = HotKeySum::of(&[caller(&[7, 7]), caller(&[7])]);
        assert_eq!(same.distinct_responses, 1);
        let different = HotKeySum::of(&[caller(&[7, 8, 7]), caller(&[7])]);
        assert_eq!(different.distinct_responses, 2);
        assert!(!HotKeySum { claimed: 1, ..different }.is_right());
        assert!(!HotKeySum { claimed: 2, ..same }.is_right());
        assert!(HotKeySum { claimed: 1, ..same }.is_right());
    }
}
