//! The load: callers that claim, renew, complete, release and ask again, on keys of their own and on
//! keys that all of them want, until the node is gone.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use semel_proto::v1::claim_key_response::Disposition;
use semel_proto::v1::keys_client::KeysClient;
use semel_proto::v1::{ClaimKeyRequest, RenewKeyRequest};
use tokio::sync::Semaphore;
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::ledger::{Answer, Ledger};
use crate::support::ask::{Owner, brief_claim, claim, complete, owner, reason, release, renew};

/// Longer than the test: a claim with it lapses never.
const LONG_LEASE: Duration = Duration::from_secs(24 * 3_600);
/// The shortest that there is: a claim with it lapses under its owner's hands.
const BRIEF_LEASE: Duration = Duration::from_millis(100);

/// What all callers share.
#[derive(Clone)]
pub(crate) struct Scene {
    pub(crate) ledger: Arc<Mutex<Ledger>>,
    /// A permit for each reply.
    pub(crate) replies: Arc<Semaphore>,
    pub(crate) round: u64,
    pub(crate) seed: u64,
}

impl Scene {
    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap()
    }
}

/// How many replies there were, by what was asked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) claims: u64,
    pub(crate) completions: u64,
    pub(crate) renewals: u64,
    pub(crate) releases: u64,
    pub(crate) replays: u64,
    /// Requests whose result is not known.
    pub(crate) unknown: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.claims += other.claims;
        self.completions += other.completions;
        self.renewals += other.renewals;
        self.releases += other.releases;
        self.replays += other.replays;
        self.unknown += other.unknown;
    }
}

/// One caller.
pub(crate) struct Caller {
    keys: KeysClient<Channel>,
    scene: Scene,
    random: SmallRng,
    number: u64,
    executions: u64,
    counts: Counts,
}

impl Caller {
    pub(crate) fn new(keys: KeysClient<Channel>, scene: Scene, number: u64) -> Self {
        let random = SmallRng::seed_from_u64(scene.seed ^ scene.round << 32 ^ number);
        Self { keys, scene, random, number, executions: 0, counts: Counts::default() }
    }

    /// Works until the node gives no more answers.
    pub(crate) async fn work(mut self) -> Counts {
        loop {
            if let Err(status) = self.execute().await {
                let lost =
                    matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Cancelled);
                assert!(lost, "{status:?}");
                self.counts.unknown += 1;
                return self.counts;
            }
        }
    }

    /// One execution: it claims a key, and does with the claim what its dice say.
    async fn execute(&mut self) -> Result<(), Status> {
        self.executions += 1;
        let (key, brief) = self.pick_key();
        let owner = self.new_owner();
        let request = if brief {
            brief_claim(&key, owner, BRIEF_LEASE)
        } else {
            ClaimKeyRequest { lease: Some(LONG_LEASE.try_into().unwrap()), ..claim(&key, owner) }
        };
        let before = {
            let mut ledger = self.scene.ledger();
            ledger.open(&key, brief);
            ledger.before(&key)
        };
        let reply = self.keys.claim_key(request).await?.into_inner();
        self.scene.ledger().claimed(&key, owner, before, &reply);
        match reply.disposition() {
            Disposition::Claimed | Disposition::TakenOver => {
                self.replied(|counts| &mut counts.claims);
                self.hold(&key, owner, reply.fence).await
            }
            Disposition::Replay => {
                self.replied(|counts| &mut counts.replays);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A key of this caller's own, or one of those that all callers of this or any earlier round want.
    fn pick_key(&mut self) -> (String, bool) {
        let round = self.scene.round;
        match self.random.random_range(0..10) {
            0..6 => (format!("own-{round}-{}-{}", self.number, self.executions), false),
            6..8 => (format!("wanted-{round}-{}", self.random.random_range(0..64)), false),
            8 => {
                let round = self.random.random_range(0..=round);
                (format!("wanted-{round}-{}", self.random.random_range(0..64)), false)
            }
            _ => (format!("brief-{round}-{}", self.random.random_range(0..16)), true),
        }
    }

    fn new_owner(&self) -> Owner {
        let parts = [self.scene.round, self.number, self.executions];
        owner(parts.iter().fold(0, |all, part| all << 40 | u128::from(*part)))
    }

    async fn hold(&mut self, key: &str, owner: Owner, fence: u64) -> Result<(), Status> {
        for renewal in 1..=self.random.random_range(0..3) {
            let lease = Some(LONG_LEASE.try_into().unwrap());
            let request = RenewKeyRequest { lease, ..renew(key, owner, fence, renewal) };
            match self.keys.renew_key(request).await {
                Ok(reply) => {
                    let until = reply.into_inner().lease_expires_at.unwrap();
                    self.scene.ledger().renewed(key, fence, (until.seconds, until.nanos));
                    self.replied(|counts| &mut counts.renewals);
                }
                Err(status) => return self.refused(key, status),
            }
        }
        match self.random.random_range(0..10) {
            0..6 => self.complete(key, owner, fence).await,
            6..8 => self.release(key, owner, fence).await,
            // Its owner forgets about it.
            _ => Ok(()),
        }
    }

    async fn complete(&mut self, key: &str, owner: Owner, fence: u64) -> Result<(), Status> {
        let length = self.random.random_range(0..600);
        let body: Vec<u8> = (0..length).map(|_| self.random.random()).collect();
        let answer = Answer { fence, body: Bytes::from(body) };
        let request = complete(key, owner, fence, &answer.body);
        let before = self.scene.ledger().completing(key, owner, answer.clone());
        match self.keys.complete_key(request).await {
            Ok(_) => {
                self.scene.ledger().completed(key, before, answer);
                self.replied(|counts| &mut counts.completions);
                Ok(())
            }
            Err(status) => self.refused(key, status),
        }
    }

    async fn release(&mut self, key: &str, owner: Owner, fence: u64) -> Result<(), Status> {
        self.scene.ledger().releasing(key, fence);
        match self.keys.release_key(release(key, owner, fence)).await {
            Ok(_) => {
                self.replied(|counts| &mut counts.releases);
                Ok(())
            }
            Err(status) => self.refused(key, status),
        }
    }

    /// Somebody else may have the claim since; anything else is the end.
    fn refused(&self, key: &str, status: Status) -> Result<(), Status> {
        if reason(&status) != "FENCED" {
            return Err(status);
        }
        self.scene.ledger().fenced(key);
        Ok(())
    }

    fn replied(&mut self, count: impl Fn(&mut Counts) -> &mut u64) {
        *count(&mut self.counts) += 1;
        self.scene.replies.add_permits(1);
    }
}
