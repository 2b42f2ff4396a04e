//! Answers of completed keys, at random.

use semel_proto::v1::response::Content;
use semel_proto::v1::{ReplayKeyRequest, ReplayKeyResponse};

use super::{Dice, OPERATION, REPLAY_KEY, Scene, TENANT};
use crate::bench::client::Stub;
use crate::bench::crew::Caller;

/// Reads the answer of one of the keys that are there beforehand.
pub(crate) struct Replay {
    scene: Scene,
    dice: Dice,
}

impl Replay {
    /// A caller at this seat.
    pub(crate) fn new(scene: &Scene, seat: u16) -> Self {
        Self { scene: scene.clone(), dice: scene.dice(seat) }
    }
}

impl Caller for Replay {
    async fn call(&mut self, stub: &mut Stub) -> Result<(), String> {
        let number = self.dice.below(self.scene.keys());
        let request = ReplayKeyRequest {
            tenant: TENANT.to_owned(),
            operation: OPERATION.to_owned(),
            key: self.scene.key(number),
            fingerprints: vec![self.scene.fingerprint()],
            wait: None,
        };
        judge(&stub.unary(REPLAY_KEY, request).await?, number)
    }
}

/// It must be that key's own answer.
fn judge(reply: &ReplayKeyResponse, number: u64) -> Result<(), String> {
    let response = reply.completion.as_ref().and_then(|completion| completion.response.as_ref());
    match response.and_then(|response| response.content.as_ref()) {
        Some(Content::Body(body)) if *body == Scene::body(number) => Ok(()),
        Some(_) => Err("a key was answered with another key's answer".to_owned()),
        None => Err("a completed key was answered without its answer".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use semel_proto::v1::{Completion, Response};

    use super::*;

    #[test]
    fn another_keys_answer_is_an_error() {
        let content = Some(Content::Body(Scene::body(7)));
        let response = Some(Response { content, ..Response::default() });
        let completion = Some(Completion { response, ..Completion::default() });
        let reply = ReplayKeyResponse { completion, ..ReplayKeyResponse::default() };
        assert!(judge(&reply, 7).is_ok());
        assert!(judge(&reply, 8).is_err());
        assert!(judge(&ReplayKeyResponse::default(), 7).is_err());
    }
}
