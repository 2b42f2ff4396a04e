//! A small Semel in this process, without a network: its nodes share one store, and can be told to be
//! difficult. Time is Tokio's, so that tests can pause it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use semel_proto::v1::claim_key_response::Disposition;
use semel_proto::v1::keys_server::{Keys, KeysServer};
use semel_proto::v1::{self, ClaimKeyResponse, KeyState, Outcome};
use tokio::sync::Notify;
use tonic::body::Body;
use tonic::codegen::http;
use tonic::{Code, Request, Response, Status};
use tonic_types::{ErrorDetails, StatusExt};
use tower::ServiceExt;

use crate::connection::{Client, ClientBuilder, Node as ClientNode, Transport};
use crate::deadline::Deadline;

/// How a node treats one call.
#[derive(Clone, Debug)]
pub(super) enum Mood {
    /// As it should.
    Answer,
    /// Carries it out, and the reply is lost with the connection.
    LoseReply,
    /// Carries it out, and says nothing.
    FallSilent,
    /// Says nothing, and does nothing.
    Silent,
    /// Refuses.
    Refuse(Status),
    /// Answers after so long.
    Slow(Duration),
}

/// One key.
struct Record {
    fingerprint: Bytes,
    owner: Bytes,
    fence: u64,
    lease_ends: Deadline,
    renewals: Vec<u64>,
    checkpoint: Bytes,
    checkpoints: u32,
    completion: Option<v1::CompleteKeyRequest>,
    released: bool,
}

/// What all nodes share.
#[derive(Default)]
pub(super) struct Semel {
    records: Mutex<HashMap<String, Record>>,
    changed: Notify,
}

/// A node of it.
#[derive(Clone)]
pub(super) struct Node {
    semel: Arc<Semel>,
    /// For the next calls, in order; then the last one for all.
    moods: Arc<Mutex<VecDeque<Mood>>>,
    /// The methods that were called, in order.
    calls: Arc<Mutex<Vec<&'static str>>>,
    /// So many batches are carried out, while each item is told that the store gave no answer.
    pub(super) undecided: Arc<Mutex<u32>>,
    /// What the last call's metadata said.
    pub(super) metadata: Arc<Mutex<tonic::metadata::MetadataMap>>,
}

impl Semel {
    pub(super) fn node(self: &Arc<Self>, moods: &[Mood]) -> Node {
        Node {
            semel: Arc::clone(self),
            moods: Arc::new(Mutex::new(moods.iter().cloned().collect())),
            calls: Arc::default(),
            undecided: Arc::default(),
            metadata: Arc::default(),
        }
    }

    /// The only node of a Semel of its own.
    pub(super) fn default_node(moods: &[Mood]) -> Node {
        Arc::new(Self::default()).node(moods)
    }

    /// Where a key stands.
    pub(super) fn key(&self, key: &str) -> Key {
        let records = self.records.lock().unwrap();
        let record = records.get(key).expect("the key is known");
        Key {
            outcome: record.completion.as_ref().map(v1::CompleteKeyRequest::outcome),
            is_released: record.released,
            is_live: !record.lease_ends.is_past(),
            renewals: record.renewals.clone(),
            checkpoint: record.checkpoint.clone(),
            checkpoints: record.checkpoints,
        }
    }

    /// Lets another owner take the claim over, as if its lease had lapsed.
    pub(super) fn take_over(&self, key: &str) {
        let mut records = self.records.lock().unwrap();
        let record = records.get_mut(key).unwrap();
        record.owner = Bytes::from_static(&[0xff; 16]);
        record.fence += 1;
        record.lease_ends = Deadline::within(Duration::from_secs(3_600));
    }
}

/// A key, as tests look at it.
pub(super) struct Key {
    pub(super) outcome: Option<Outcome>,
    pub(super) is_released: bool,
    pub(super) is_live: bool,
    pub(super) renewals: Vec<u64>,
    pub(super) checkpoint: Bytes,
    /// How often one was sent.
    pub(super) checkpoints: u32,
}

/// A client of these nodes.
pub(super) fn client<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> Client {
    process(nodes, 1)
}

/// A client of these nodes in a process of its own: its owner ids are others.
pub(super) fn process<'a>(nodes: impl IntoIterator<Item = &'a Node>, number: u8) -> Client {
    over(Client::builder("acme", [""; 0]).seed([number; 32]), nodes)
}

/// The client that `builder` makes of these nodes.
pub(super) fn over<'a>(
    builder: ClientBuilder,
    nodes: impl IntoIterator<Item = &'a Node>,
) -> Client {
    let transport = |node: &Node| {
        let service = KeysServer::new(node.clone());
        let service = service.map_request(|request: http::Request<Body>| request);
        ClientNode::new(Transport::new(service.map_err(|never| match never {})))
    };
    builder.over(nodes.into_iter().map(transport).collect()).unwrap()
}

pub(super) fn refusal(code: Code, reason: &str, retry_after: Option<Duration>) -> Status {
    let mut details = ErrorDetails::with_error_info(reason, "semel.v1", HashMap::new());
    if retry_after.is_some() {
        details.set_retry_info(retry_after);
    }
    Status::with_error_details(code, "as the test says", details)
}

impl Node {
    pub(super) fn set(&self, mood: Mood) {
        *self.moods.lock().unwrap() = VecDeque::from([mood]);
    }

    /// For the next calls, in order; then the last one for all.
    pub(super) fn moods(&self, moods: &[Mood]) {
        *self.moods.lock().unwrap() = moods.iter().cloned().collect();
    }

    pub(super) fn semel(&self) -> &Semel {
        &self.semel
    }

    pub(super) fn calls(&self) -> Vec<&'static str> {
        self.calls.lock().unwrap().clone()
    }

    /// Treats a call by the mood of the moment.
    async fn treat<M, R>(
        &self,
        name: &'static str,
        request: Request<M>,
        carry_out: impl AsyncFnOnce(M) -> Result<R, Status>,
    ) -> Result<Response<R>, Status> {
        self.calls.lock().unwrap().push(name);
        let (metadata, _, message) = request.into_parts();
        *self.metadata.lock().unwrap() = metadata;
        let mood = {
            let mut moods = self.moods.lock().unwrap();
            let last = moods.len() <= 1;
            if last { moods.front().cloned() } else { moods.pop_front() }
        };
        match mood.unwrap_or(Mood::Answer) {
            Mood::Answer => carry_out(message).await.map(Response::new),
            Mood::Slow(time) => {
                tokio::time::sleep(time).await;
                carry_out(message).await.map(Response::new)
            }
            Mood::LoseReply => {
                let _ = carry_out(message).await;
                Err(Status::unavailable("the connection broke"))
            }
            Mood::FallSilent => {
                let _ = carry_out(message).await;
                std::future::pending().await
            }
            Mood::Silent => std::future::pending().await,
            Mood::Refuse(status) => Err(status),
        }
    }

    /// What an item of a batch is told.
    fn told<T>(
        &self,
        done: Result<T, Status>,
        is_undecided: bool,
    ) -> Result<T, tonic_types::Status> {
        let unavailable = refusal(Code::Unavailable, "STORE_UNAVAILABLE", None);
        let done = if is_undecided { done.and(Err(unavailable)) } else { done };
        done.map_err(|status| item(&status))
    }

    fn is_undecided(&self) -> bool {
        let mut undecided = self.undecided.lock().unwrap();
        let is_undecided = *undecided > 0;
        *undecided -= u32::from(is_undecided);
        is_undecided
    }

    fn try_claim(&self, asked: &v1::ClaimKeyRequest) -> Result<ClaimKeyResponse, Status> {
        let mut records = self.semel.records.lock().unwrap();
        let fingerprint = asked.fingerprints[0].digest.clone();
        let lease: Duration =
            asked.lease.map_or(Duration::from_secs(30), |lease| lease.try_into().unwrap());
        let Some(record) = records.get_mut(&asked.key) else {
            let record = Record {
                fingerprint,
                owner: asked.owner_id.clone(),
                fence: 100,
                lease_ends: Deadline::within(lease),
                renewals: Vec::new(),
                checkpoint: Bytes::new(),
                checkpoints: 0,
                completion: None,
                released: false,
            };
            let granted = granted(&record, lease, Disposition::Claimed, false);
            records.insert(asked.key.clone(), record);
            return Ok(granted);
        };
        if record.fingerprint != fingerprint {
            return Err(refusal(Code::FailedPrecondition, "KEY_PAYLOAD_MISMATCH", None));
        }
        if let Some(completion) = &record.completion
            && completion.outcome() != Outcome::Indeterminate
        {
            return Ok(replay(completion));
        }
        let (settled, live) = (record.completion.is_some(), !record.lease_ends.is_past());
        if !settled && !record.released && record.owner == asked.owner_id {
            record.lease_ends = Deadline::within(lease);
            return Ok(granted(record, lease, Disposition::Claimed, true));
        }
        if !settled && !record.released && live {
            let retry_after = Some(prost_types::Duration { seconds: 1, nanos: 0 });
            let disposition = Disposition::InProgress.into();
            return Ok(ClaimKeyResponse { disposition, retry_after, ..Default::default() });
        }
        let fresh = record.released;
        record.owner = asked.owner_id.clone();
        record.fence += u64::from(!fresh);
        record.lease_ends = Deadline::within(lease);
        record.completion = None;
        record.released = false;
        let disposition = if fresh { Disposition::Claimed } else { Disposition::ReconcileRequired };
        Ok(granted(record, lease, disposition, false))
    }

    async fn claim(&self, asked: v1::ClaimKeyRequest) -> Result<ClaimKeyResponse, Status> {
        let wait = asked.wait.map_or(Duration::ZERO, |wait| wait.try_into().unwrap());
        let until = Deadline::within(wait);
        loop {
            let changed = self.semel.changed.notified();
            let answer = self.try_claim(&asked)?;
            if answer.disposition() != Disposition::InProgress || until.is_past() {
                return Ok(answer);
            }
            let _ = tokio::time::timeout(until.left(), changed).await;
        }
    }

    /// Looks the holder's record up; the rest is fenced.
    fn held<T>(
        &self,
        (key, fence, owner): (&str, u64, &Bytes),
        act: impl FnOnce(&mut Record) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let mut records = self.semel.records.lock().unwrap();
        let record =
            records.get_mut(key).ok_or_else(|| refusal(Code::NotFound, "KEY_UNKNOWN", None))?;
        if record.fence != fence || record.owner != *owner {
            return Err(refusal(Code::FailedPrecondition, "FENCED", None));
        }
        let done = act(record);
        self.semel.changed.notify_waiters();
        done
    }

    fn complete(&self, asked: v1::CompleteKeyRequest) -> Result<v1::CompleteKeyResponse, Status> {
        if asked.outcome() == Outcome::FailedRetryable {
            let mut records = self.semel.records.lock().unwrap();
            let record = records.get_mut(&asked.key).unwrap();
            let already = record.released && record.owner == asked.owner_id;
            if !already && (record.fence != asked.fence || record.owner != asked.owner_id) {
                return Err(refusal(Code::FailedPrecondition, "FENCED", None));
            }
            if !already {
                record.released = true;
                record.fence += 1;
            }
            self.semel.changed.notify_waiters();
            let state = KeyState::Released.into();
            return Ok(v1::CompleteKeyResponse {
                already_completed: already,
                state,
                ..Default::default()
            });
        }
        let ids = (&*asked.key.clone(), asked.fence, &asked.owner_id.clone());
        self.held(ids, |record| {
            let already = record.completion.as_ref() == Some(&asked);
            record.completion = Some(asked);
            Ok(v1::CompleteKeyResponse { already_completed: already, ..Default::default() })
        })
    }

    fn renew(&self, asked: v1::RenewKeyRequest) -> Result<v1::RenewKeyResponse, Status> {
        self.held((&asked.key, asked.fence, &asked.owner_id), |record| {
            if record.completion.is_some() {
                return Err(refusal(Code::FailedPrecondition, "FENCED", None));
            }
            let stale = record.renewals.iter().any(|known| *known > asked.renewal);
            if !stale && !record.renewals.contains(&asked.renewal) {
                record.renewals.push(asked.renewal);
                record.lease_ends = Deadline::within(asked.lease.unwrap().try_into().unwrap());
                if let Some(checkpoint) = asked.checkpoint {
                    record.checkpoint = checkpoint;
                    record.checkpoints += 1;
                }
            }
            Ok(v1::RenewKeyResponse { lease_expires_at: Some(MOMENT.into()), stale })
        })
    }
}

/// No client may reckon with the store's clock.
const MOMENT: SystemTime = SystemTime::UNIX_EPOCH;

fn granted(
    record: &Record,
    lease: Duration,
    disposition: Disposition,
    resumed: bool,
) -> ClaimKeyResponse {
    ClaimKeyResponse {
        disposition: disposition.into(),
        fence: record.fence,
        lease: Some(lease.try_into().unwrap()),
        lease_expires_at: Some(MOMENT.into()),
        derived_key: "semel-00".to_owned(),
        resumed,
        checkpoint: record.checkpoint.clone(),
        attempt: 1,
        ..Default::default()
    }
}

fn replay(completion: &v1::CompleteKeyRequest) -> ClaimKeyResponse {
    ClaimKeyResponse {
        disposition: Disposition::Replay.into(),
        completion: Some(v1::Completion {
            outcome: completion.outcome,
            response: completion.response.clone(),
            completed_at: Some(MOMENT.into()),
            fence: completion.fence,
            expires_at: Some(MOMENT.into()),
            ..Default::default()
        }),
        ..Default::default()
    }
}

type Answer<T> = Result<Response<T>, Status>;

/// The answer to what no test asks for.
fn not_played<T>() -> Answer<T> {
    Err(Status::unimplemented("not played here"))
}

#[tonic::async_trait]
impl Keys for Node {
    async fn claim_key(&self, request: Request<v1::ClaimKeyRequest>) -> Answer<ClaimKeyResponse> {
        self.treat("claim", request, async |asked| self.claim(asked).await).await
    }

    async fn complete_key(
        &self,
        request: Request<v1::CompleteKeyRequest>,
    ) -> Answer<v1::CompleteKeyResponse> {
        self.treat("complete", request, async |asked| self.complete(asked)).await
    }

    async fn renew_key(
        &self,
        request: Request<v1::RenewKeyRequest>,
    ) -> Answer<v1::RenewKeyResponse> {
        self.treat("renew", request, async |asked| self.renew(asked)).await
    }

    async fn release_key(
        &self,
        request: Request<v1::ReleaseKeyRequest>,
    ) -> Answer<v1::ReleaseKeyResponse> {
        self.treat("release", request, async |asked: v1::ReleaseKeyRequest| {
            self.held((&asked.key, asked.fence, &asked.owner_id), |record| {
                let already_released = std::mem::replace(&mut record.released, true);
                Ok(v1::ReleaseKeyResponse { already_released })
            })
        })
        .await
    }

    async fn claim_keys(
        &self,
        request: Request<v1::ClaimKeysRequest>,
    ) -> Answer<v1::ClaimKeysResponse> {
        use v1::claim_key_result::Result as Item;
        self.treat("claim_keys", request, async |asked: v1::ClaimKeysRequest| {
            let is_undecided = self.is_undecided();
            let result = |claim| {
                let told = self.told(self.try_claim(claim), is_undecided);
                let result = Some(told.map_or_else(Item::Error, Item::Response));
                v1::ClaimKeyResult { result }
            };
            Ok(v1::ClaimKeysResponse { results: asked.claims.iter().map(result).collect() })
        })
        .await
    }

    async fn complete_keys(
        &self,
        request: Request<v1::CompleteKeysRequest>,
    ) -> Answer<v1::CompleteKeysResponse> {
        use v1::complete_key_result::Result as Item;
        self.treat("complete_keys", request, async |asked: v1::CompleteKeysRequest| {
            let is_undecided = self.is_undecided();
            let result = |completion| {
                let told = self.told(self.complete(completion), is_undecided);
                let result = Some(told.map_or_else(Item::Error, Item::Response));
                v1::CompleteKeyResult { result }
            };
            Ok(v1::CompleteKeysResponse {
                results: asked.completions.into_iter().map(result).collect(),
            })
        })
        .await
    }

    async fn replay_key(&self, _: Request<v1::ReplayKeyRequest>) -> Answer<v1::ReplayKeyResponse> {
        not_played()
    }

    async fn get_key(&self, _: Request<v1::GetKeyRequest>) -> Answer<v1::GetKeyResponse> {
        not_played()
    }

    async fn list_keys(&self, _: Request<v1::ListKeysRequest>) -> Answer<v1::ListKeysResponse> {
        not_played()
    }

    async fn list_stuck_keys(
        &self,
        _: Request<v1::ListStuckKeysRequest>,
    ) -> Answer<v1::ListStuckKeysResponse> {
        not_played()
    }

    async fn reconcile_key(
        &self,
        _: Request<v1::ReconcileKeyRequest>,
    ) -> Answer<v1::ReconcileKeyResponse> {
        not_played()
    }

    async fn forget_key(&self, _: Request<v1::ForgetKeyRequest>) -> Answer<v1::ForgetKeyResponse> {
        not_played()
    }
}

/// A status as a batch carries it.
fn item(status: &Status) -> tonic_types::Status {
    use prost::Message as _;
    tonic_types::Status::decode(status.details()).unwrap()
}
