//! Claims of new keys.

use semel_proto::v1::claim_key_response::Disposition;
use semel_proto::v1::{ClaimKeyRequest, ClaimKeyResponse};

use super::{CLAIM_KEY, Dice, Scene};
use crate::bench::client::Stub;
use crate::bench::crew::Caller;

/// Claims a new key each time.
pub(crate) struct Claim(NewClaims);

impl Claim {
    /// A caller at this seat.
    pub(crate) fn new(scene: &Scene, seat: u16) -> Self {
        Self(NewClaims::new(scene, seat))
    }
}

impl Caller for Claim {
    async fn call(&mut self, stub: &mut Stub) -> Result<(), String> {
        claimed(&stub.unary(CLAIM_KEY, self.0.claim()).await?)
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
pub(super) fn claimed(reply: &ClaimKeyResponse) -> Result<(), String> {
    match reply.disposition() {
        Disposition::Claimed => Ok(()),
        other => Err(format!("the claim of a new key was answered {}", other.as_str_name())),
    }
}
