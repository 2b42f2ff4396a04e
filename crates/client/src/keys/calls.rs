//! The calls, one key each.

use std::time::Duration;

use bytes::Bytes;
use semel_proto::v1;
use semel_proto::v1::keys_client::KeysClient;

use super::claim::{Claim, ClaimAnswer};
use super::request::{ClaimRequest, ReplayRequest};
use super::work::{Completed, Renewed, ReplayAnswer, Work};
use crate::clock::Stopwatch;
use crate::connection::{Client, Error, Time};
use crate::deadline::Deadline;
use crate::wire;

/// The longest reply that is read: a stored body may be longer than gRPC's usual 4 MiB.
pub(super) const REPLY_MAX_BYTES: usize = 64 * 1024 * 1024;

/// A call that the node answers as soon as it can.
pub(super) const fn at_once(deadline: Deadline) -> Time {
    Time { deadline, wait: Duration::ZERO }
}

/// Sends one method of the Keys service.
macro_rules! send {
    ($method:ident) => {
        |transport, request| async move {
            let keys = KeysClient::new(transport).max_decoding_message_size(REPLY_MAX_BYTES);
            { keys }.$method(request).await
        }
    };
}
pub(super) use send;

impl Client {
    /// Asks for the exclusive right to do the work of a key, or for the answer if it is done.
    ///
    /// A claim that is yours has to be completed, renewed while the work runs, or released:
    /// [`once`](Self::once) does all of that.
    ///
    /// # Errors
    ///
    /// The key was used for another intent ([`Reason::KeyPayloadMismatch`](crate::Reason)), the intent is
    /// older than Semel's memory ([`Reason::KeyExpired`](crate::Reason)), the request is malformed, or no
    /// node answered before the deadline.
    pub async fn claim(
        &self,
        request: &ClaimRequest,
        deadline: Deadline,
    ) -> Result<ClaimAnswer, Error> {
        let owner_id = request.owned_by(|| self.pool.owner_id());
        let since = Stopwatch::start();
        let time = Time { deadline, wait: request.waits() };
        let message = |waited| request.to_wire(&self.tenant, owner_id, waited);
        let reply = self.pool.call(time, message, send!(claim_key)).await?;
        ClaimAnswer::from_wire(reply, request.name(&self.tenant), owner_id, since)
    }

    /// Says what the work of a claim came to. Accepted also after the lease ran out, as long as nobody took
    /// over. The same completion again is answered as before.
    ///
    /// # Errors
    ///
    /// Another took over ([`Reason::Fenced`](crate::Reason)) or it was completed otherwise
    /// ([`Reason::CompletionConflict`](crate::Reason)): nothing was written. Or no node answered before the
    /// deadline: then nobody knows whether it was stored, and the same completion may be sent again.
    pub async fn complete(
        &self,
        claim: &Claim,
        work: &Work,
        deadline: Deadline,
    ) -> Result<Completed, Error> {
        let message = |_| work.to_wire(claim);
        let reply = self.pool.call(at_once(deadline), message, send!(complete_key)).await?;
        Ok(Completed::from_wire(&reply))
    }

    /// Reads the answer of a key; never claims.
    ///
    /// # Errors
    ///
    /// There is no such key, or its fingerprint is another ([`Reason::KeyUnknown`](crate::Reason) for
    /// both); the request is malformed; or no node answered before the deadline.
    pub async fn replay(
        &self,
        request: &ReplayRequest,
        deadline: Deadline,
    ) -> Result<ReplayAnswer, Error> {
        let time = Time { deadline, wait: request.waits() };
        let message = |waited| request.to_wire(&self.tenant, waited);
        let reply = self.pool.call(time, message, send!(replay_key)).await?;
        ReplayAnswer::from_wire(reply)
    }

    /// Extends the lease of a claim by the lease that was granted, counted from now, and saves a checkpoint
    /// of at most 64 KiB, if one is given, for whoever might take over. `renewal` is 1 for the first renewal
    /// of a claim, then counts up; an older one that arrives late changes nothing.
    ///
    /// # Errors
    ///
    /// Another took over, or the key is settled ([`Reason::Fenced`](crate::Reason)); or no node answered
    /// before the deadline.
    pub async fn renew(
        &self,
        claim: &Claim,
        renewal: u64,
        checkpoint: Option<&Bytes>,
        deadline: Deadline,
    ) -> Result<Renewed, Error> {
        let since = Stopwatch::start();
        let message = |_| v1::RenewKeyRequest {
            tenant: claim.name.tenant().to_string(),
            operation: claim.name.operation().to_string(),
            key: claim.name.key().to_string(),
            fence: claim.fence,
            owner_id: Bytes::copy_from_slice(&claim.owner_id),
            renewal,
            lease: Some(wire::to_wire(claim.lease)),
            checkpoint: checkpoint.cloned(),
        };
        let reply = self.pool.call(at_once(deadline), message, send!(renew_key)).await?;
        Ok(Renewed {
            ends: since.end_of(claim.lease),
            expires_at: wire::moment(reply.lease_expires_at, "lease_expires_at")?,
            stale: reply.stale,
        })
    }

    /// Gives a claim back with the work known not to be done; after
    /// [`ReconcileRequired`](super::Disposition::ReconcileRequired) only once you have looked. Whether it
    /// had been given back before.
    ///
    /// # Errors
    ///
    /// Another took over, or the key is settled ([`Reason::Fenced`](crate::Reason)); or no node answered
    /// before the deadline.
    pub async fn release(&self, claim: &Claim, deadline: Deadline) -> Result<bool, Error> {
        let message = |_| v1::ReleaseKeyRequest {
            tenant: claim.name.tenant().to_string(),
            operation: claim.name.operation().to_string(),
            key: claim.name.key().to_string(),
            fence: claim.fence,
            owner_id: Bytes::copy_from_slice(&claim.owner_id),
        };
        let reply = self.pool.call(at_once(deadline), message, send!(release_key)).await?;
        Ok(reply.already_released)
    }
}
