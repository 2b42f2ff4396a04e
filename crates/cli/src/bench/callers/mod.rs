//! What one caller sends and expects, a file for each kind of load.
//!
//! A caller builds as little as it can per request: the client's own work is half of what is
//! measured.

mod acquire;
mod breaker_state;
mod claim;
mod claim_complete;
mod hot_key;
mod replay;
mod report;
mod spread;

use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use semel_proto::v1::response::Content;
use semel_proto::v1::{ClaimKeyRequest, CompleteKeyRequest, Fingerprint, Outcome, Response};

pub(crate) use self::acquire::{Acquire, GrantSum};
pub(crate) use self::breaker_state::BreakerState;
pub(crate) use self::claim::Claim;
pub(crate) use self::claim_complete::ClaimComplete;
pub(crate) use self::hot_key::{HotKey, HotKeySum};
pub(crate) use self::replay::Replay;
pub(crate) use self::report::ReportBoth;
pub(crate) use self::spread::Spread;

use crate::entropy::random;
use crate::failure::Failure;

const CLAIM_KEY: &str = "/semel.v1.Keys/ClaimKey";
const COMPLETE_KEY: &str = "/semel.v1.Keys/CompleteKey";
const REPLAY_KEY: &str = "/semel.v1.Keys/ReplayKey";
const ACQUIRE_RETRY_TOKEN: &str = "/semel.v1.Retries/AcquireRetryToken";
const REPORT_REQUESTS: &str = "/semel.v1.Retries/ReportRequests";
const BREAKER_STATE: &str = "/semel.v1.Breakers/BreakerState";
const REPORT_OUTCOMES: &str = "/semel.v1.Breakers/ReportOutcomes";

pub(super) const TENANT: &str = "bench";
const OPERATION: &str = "bench.write";
const BODY_BYTES: usize = 200;

/// What all callers of one run share: keys that no other run has, and how many are there beforehand.
#[derive(Clone)]
pub(crate) struct Scene {
    run: String,
    seed: u64,
    keys: u64,
}

impl Scene {
    /// A new run with `keys` completed keys beforehand.
    pub(crate) fn new(keys: u64) -> Result<Self, Failure> {
        let seed = u64::from_le_bytes(random()?);
        Ok(Self { run: format!("{seed:016x}"), seed, keys })
    }

    /// How many completed keys there are beforehand.
    pub(crate) const fn keys(&self) -> u64 {
        self.keys
    }

    /// The name of a key that is there beforehand.
    pub(crate) fn key(&self, number: u64) -> String {
        format!("{}-{number}", self.run)
    }

    /// Its answer: always as long, never the same.
    pub(crate) fn body(number: u64) -> Bytes {
        format!("{number:0BODY_BYTES$}").into()
    }

    /// The claim of a key.
    pub(crate) fn claim(&self, key: String, owner_id: Bytes) -> ClaimKeyRequest {
        ClaimKeyRequest {
            tenant: TENANT.to_owned(),
            operation: OPERATION.to_owned(),
            key,
            fingerprints: vec![self.fingerprint()],
            owner_id,
            ..ClaimKeyRequest::default()
        }
    }

    /// The completion of a claim, with the answer of key `number`.
    pub(crate) fn completion(
        claim: &ClaimKeyRequest,
        fence: u64,
        body: Bytes,
    ) -> CompleteKeyRequest {
        let response = Response {
            status: 200,
            content_type: "text/plain".to_owned(),
            content: Some(Content::Body(body)),
            ..Response::default()
        };
        CompleteKeyRequest {
            tenant: claim.tenant.clone(),
            operation: claim.operation.clone(),
            key: claim.key.clone(),
            fence,
            owner_id: claim.owner_id.clone(),
            outcome: Outcome::Succeeded.into(),
            response: Some(response),
        }
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint {
            algorithm: "bench/v1".to_owned(),
            digest: self.seed.to_le_bytes().repeat(4).into(),
        }
    }

    /// Cheap randomness of a caller's own.
    pub(crate) fn dice(&self, seat: u16) -> Dice {
        Dice(SmallRng::seed_from_u64(self.seed ^ u64::from(seat)))
    }
}

/// Cheap randomness: no two seats of one run throw the same.
pub(crate) struct Dice(SmallRng);

impl Dice {
    /// A new owner id, or any other id of 16 bytes.
    pub(crate) fn owner_id(&mut self) -> Bytes {
        let mut id = [0; 16];
        self.0.fill_bytes(&mut id);
        Bytes::copy_from_slice(&id)
    }

    /// A number below `end`, which must not be 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64() % end.max(1)
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use prost_types::FileDescriptorSet;

    use super::*;

    #[test]
    fn every_method_is_in_the_contract() {
        let files = FileDescriptorSet::decode(semel_proto::DESCRIPTORS).unwrap().file;
        let mut paths = Vec::new();
        for file in files {
            for service in file.service {
                let name = format!("/{}.{}/", file.package.as_deref().unwrap(), service.name());
                paths.extend(service.method.iter().map(|method| name.clone() + method.name()));
            }
        }
        for method in [
            CLAIM_KEY,
            COMPLETE_KEY,
            REPLAY_KEY,
            ACQUIRE_RETRY_TOKEN,
            REPORT_REQUESTS,
            BREAKER_STATE,
            REPORT_OUTCOMES,
        ] {
            assert!(paths.iter().any(|path| path == method), "{method}");
        }
    }
}
