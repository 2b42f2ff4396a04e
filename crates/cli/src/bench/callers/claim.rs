//! Claims of new keys.

use semel_proto::v1::ClaimKeyRequest;
use semel_proto::v1::claim_key_response::Disposition;
use semel_proto::v1::keys_client::KeysClient;
use tonic::transport::Channel;

use super::{Dice, Scene, refused};
use crate::bench::crew::Caller;

/// Claims a new key each time.
pub(crate) struct Claim {
    keys: KeysClient<Channel>,
    next: NewClaims,
}

impl Claim {
    /// A caller over this connection.
    pub(crate) fn new(channel: Channel, scene: &Scene, seat: u16) -> Self {
        Self { keys: KeysClient::new(channel), next: NewClaims::new(scene, seat) }
    }
}

impl Caller for Claim {
    async fn call(&mut self) -> Result<(), String> {
        let request = self.next.claim();
        let reply = self.keys.claim_key(request).await.map_err(|status| refused(&status))?;
        claimed(reply.get_ref().disposition())
    }
}

/// Claims that nobody made before.
pub(super) struct NewClaims {
    template: ClaimKeyRequest,
    dice: Dice,
    seat: u16,
    count: u64,
}

impl NewClaims {
    pub(super) fn new(scene: &Scene, seat: u16) -> Self {
        let template = scene.claim(format!("{}-new", scene.run), bytes::Bytes::new());
        Self { template, dice: scene.dice(seat), seat, count: 0 }
    }

    pub(super) fn claim(&mut self) -> ClaimKeyRequest {
        self.count += 1;
        ClaimKeyRequest {
            key: format!("{}-{}-{}", self.template.key, self.seat, self.count),
            owner_id: self.dice.owner_id(),
            tenant: self.template.tenant.clone(),
            operation: self.template.operation.clone(),
            fingerprints: self.template.fingerprints.clone(),
            ..ClaimKeyRequest::default()
        }
    }
}

/// A new key must be claimed at once.
pub(super) fn claimed(answer: Disposition) -> Result<(), String> {
    if answer == Disposition::Claimed {
        return Ok(());
    }
    Err(format!("the claim of a new key was answered {}", answer.as_str_name()))
}
