//! Claims of new keys and their completions.

use bytes::Bytes;
use semel_proto::v1::{ClaimKeyResponse, CompleteKeyResponse};

use super::claim::{NewClaims, claimed};
use super::{CLAIM_KEY, COMPLETE_KEY, Scene};
use crate::bench::client::Stub;
use crate::bench::crew::Caller;

/// Claims a new key and completes it, each time.
pub(crate) struct ClaimComplete {
    next: NewClaims,
    body: Bytes,
}

impl ClaimComplete {
    /// A caller at this seat.
    pub(crate) fn new(scene: &Scene, seat: u16) -> Self {
        Self { next: NewClaims::new(scene, seat), body: Scene::body(seat.into()) }
    }
}

impl Caller for ClaimComplete {
    async fn call(&mut self, stub: &mut Stub) -> Result<(), String> {
        let claim = self.next.claim();
        let reply: ClaimKeyResponse = stub.unary(CLAIM_KEY, claim.clone()).await?;
        claimed(&reply)?;
        let completion = Scene::completion(&claim, reply.fence, self.body.clone());
        stub.unary(COMPLETE_KEY, completion).await.map(|_: CompleteKeyResponse| ())
    }
}
