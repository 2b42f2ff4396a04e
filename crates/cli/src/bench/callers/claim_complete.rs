//! Claims of new keys and their completions.

use bytes::Bytes;
use semel_proto::v1::keys_client::KeysClient;
use tonic::transport::Channel;

use super::claim::{NewClaims, claimed};
use super::{Scene, refused};
use crate::bench::crew::Caller;

/// Claims a new key and completes it, each time.
pub(crate) struct ClaimComplete {
    keys: KeysClient<Channel>,
    next: NewClaims,
    body: Bytes,
}

impl ClaimComplete {
    /// A caller over this connection.
    pub(crate) fn new(channel: Channel, scene: &Scene, seat: u16) -> Self {
        Self {
            keys: KeysClient::new(channel),
            next: NewClaims::new(scene, seat),
            body: Scene::body(seat.into()),
        }
    }
}

impl Caller for ClaimComplete {
    async fn call(&mut self) -> Result<(), String> {
        let claim = self.next.claim();
        let reply = self.keys.claim_key(claim.clone()).await.map_err(|status| refused(&status))?;
        claimed(reply.get_ref().disposition())?;
        let completion = Scene::completion(&claim, reply.get_ref().fence, self.body.clone());
        self.keys.complete_key(completion).await.map_err(|status| refused(&status))?;
        Ok(())
    }
}
