//! The charge service: takes requests, asks the provider, and, given a key, asks Semel first.
//!
//! Like any server it works on when its caller has hung up.

use std::time::Duration;

use anstyle::Style;
use bytes::Bytes;
use semel_proto::v1::claim_key_response::Disposition;
use semel_proto::v1::keys_client::KeysClient;
use semel_proto::v1::response::Content;
use semel_proto::v1::{
    ClaimKeyRequest, CompleteKeyRequest, Completion, Fingerprint, Outcome, Response,
};
use sha2::{Digest, Sha256};
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;
use tonic::transport::Channel;

use super::provider::Provider;
use super::timeline::{Party, Timeline};
use crate::entropy::random;
use crate::failure::Failure;
use crate::output::{CAUTION, GOOD};
use crate::values::to_wire;

const TENANT: &str = "demo";
const OPERATION: &str = "payments.charge";
const ORDER: &[u8] = b"charge 42.00 EUR";

/// How the service asks Semel.
#[derive(Clone)]
pub(crate) struct Keys {
    /// A client of the node.
    pub(crate) client: KeysClient<Channel>,
    /// How long a claim waits for somebody else's; not at all if absent.
    pub(crate) wait: Option<Duration>,
}

/// What the service answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Charged for this very request.
    Charged(String),
    /// Charged before: here is the stored answer.
    Replayed(String),
    /// An earlier request is being worked on: come back.
    InProgress,
    /// It went wrong.
    Failed(String),
}

/// The service.
#[derive(Clone)]
pub(crate) struct ChargeService {
    provider: Provider,
    keys: Option<Keys>,
    timeline: Timeline,
    requests: TaskTracker,
}

impl ChargeService {
    /// A service that asks Semel if it is given `keys`.
    pub(crate) fn new(provider: Provider, keys: Option<Keys>, timeline: Timeline) -> Self {
        Self { provider, keys, timeline, requests: TaskTracker::new() }
    }

    /// Takes a request. The work goes on whether or not anybody still listens to the answer.
    pub(crate) fn request(&self, key: &'static str) -> JoinHandle<Answer> {
        let service = self.clone();
        self.requests.spawn(async move {
            match &service.keys {
                None => Answer::Charged(service.charge().await),
                Some(keys) => service
                    .charge_once(keys.clone(), key)
                    .await
                    .unwrap_or_else(|failure| Answer::Failed(failure.message.clone())),
            }
        })
    }

    /// Waits until nothing is being worked on any more.
    pub(crate) async fn finish(&self) {
        self.requests.close();
        self.requests.wait().await;
    }

    async fn charge(&self) -> String {
        self.say(Style::new(), "asks the provider").await;
        format!("paid with charge {}", self.provider.charge().await)
    }

    async fn charge_once(&self, mut keys: Keys, key: &str) -> Result<Answer, Failure> {
        let claim = claim(key, keys.wait)?;
        let reply = keys.client.claim_key(claim.clone()).await?.into_inner();
        match reply.disposition() {
            Disposition::Claimed => {
                self.say(GOOD, "CLAIMED: the work is ours").await;
                let receipt = self.charge().await;
                keys.client.complete_key(completion(claim, reply.fence, &receipt)).await?;
                self.say(GOOD, "completed the key with the receipt").await;
                Ok(Answer::Charged(receipt))
            }
            Disposition::Replay => {
                self.say(GOOD, "REPLAY: done before, here is the receipt").await;
                Ok(Answer::Replayed(receipt(reply.completion)))
            }
            Disposition::InProgress => {
                self.say(CAUTION, "IN_PROGRESS: an earlier attempt is at work").await;
                Ok(Answer::InProgress)
            }
            other => Err(Failure::broken(format!("the claim was answered {other:?}"))),
        }
    }

    async fn say(&self, style: Style, text: &str) {
        self.timeline.say(Party::Service, style, text.to_owned()).await;
    }
}

fn claim(key: &str, wait: Option<Duration>) -> Result<ClaimKeyRequest, Failure> {
    Ok(ClaimKeyRequest {
        tenant: TENANT.to_owned(),
        operation: OPERATION.to_owned(),
        key: key.to_owned(),
        fingerprints: vec![Fingerprint {
            algorithm: "sha256/v1".to_owned(),
            digest: Bytes::copy_from_slice(&Sha256::digest(ORDER)),
        }],
        owner_id: Bytes::copy_from_slice(&random::<16>()?),
        wait: wait.map(to_wire),
        ..ClaimKeyRequest::default()
    })
}

fn completion(claim: ClaimKeyRequest, fence: u64, receipt: &str) -> CompleteKeyRequest {
    CompleteKeyRequest {
        tenant: claim.tenant,
        operation: claim.operation,
        key: claim.key,
        owner_id: claim.owner_id,
        fence,
        outcome: Outcome::Succeeded.into(),
        response: Some(Response {
            status: 200,
            content: Some(Content::Body(Bytes::from(receipt.to_owned()))),
            ..Response::default()
        }),
    }
}

fn receipt(completion: Option<Completion>) -> String {
    let response = completion.and_then(|completion| completion.response);
    match response.and_then(|response| response.content) {
        Some(Content::Body(body)) => String::from_utf8_lossy(&body).into_owned(),
        _ => String::new(),
    }
}
