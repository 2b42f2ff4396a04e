//! Callers that send nonsense: requests with bytes changed at random, messages over the limit, frames
//! that lie, and bytes that are no HTTP at all. Each call gets a status that says what was wrong, and
//! the node neither panics nor grows.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use prost::Message;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use semel_proto::v1::claim_key_response::Disposition;
use semel_proto::v1::{
    ClaimKeyRequest, ClaimKeysRequest, CompleteKeyRequest, CompleteKeysRequest, ForgetKeyRequest,
    GetKeyRequest, KeyState, ListKeysRequest, ListStuckKeysRequest, ReconcileKeyRequest,
    RenewKeyRequest, ReplayKeyRequest, Response,
};
use tokio::task::JoinSet;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::support::ask::{
    OPERATION, TENANT, brief_claim, claim, complete, owner, reason, release, renew, replay,
};
use crate::support::node::Node;
use crate::support::settings::{number, seed};

const CALLERS: u64 = 64;
const CONNECTIONS: usize = 4;
const MIB: u64 = 1 << 20;
/// What a node reads of one message at the most.
const MESSAGE_MAX_BYTES: usize = 8 << 20;
/// Records that came of the mutations, and what the allocator keeps, may add this much.
const GROWTH_MAX_BYTES: u64 = 48 * MIB;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mutated_requests_get_a_clear_status_each_and_leave_the_node_as_it_was() {
    let mutations = number("SEMEL_MUTATIONS", 100_000);
    let seed = seed();
    let node = Node::start(&[]);
    let methods = Arc::new(methods(&node).await);

    let mut codes = send_mutations(&node, &methods, seed, mutations / 5).await;
    let before = node.resident_bytes();
    let rest = send_mutations(&node, &methods, seed ^ 1 << 32, mutations - mutations / 5).await;
    let after = node.resident_bytes();
    for (code, count) in rest {
        *codes.entry(code).or_default() += count;
    }

    println!("{mutations} mutated requests: {codes:?}");
    println!("resident memory: {} MiB, then {} MiB", before / MIB, after / MIB);
    node.assert_calm();
    assert!(after < before + GROWTH_MAX_BYTES, "it grew from {before} to {after} bytes");
    let late = codes.get("DeadlineExceeded").copied().unwrap_or_default();
    assert!(late < mutations / 10, "too many were given up to count as answered");
    assert!(codes["Ok"] > 0 && codes["InvalidArgument"] > 0, "the mutations reach every depth");
    assert_serves(&node).await;
}

/// A call of the service: examples of its request, and whether bytes are such a request at all.
struct Method {
    name: &'static str,
    examples: Vec<Bytes>,
    decodes: fn(&[u8]) -> bool,
}

impl Method {
    fn new<M: Message + Default>(name: &'static str, examples: &[M]) -> Self {
        let examples = examples.iter().map(|example| example.encode_to_vec().into()).collect();
        Self { name, examples, decodes: |bytes| M::decode(bytes).is_ok() }
    }
}

/// All twelve calls, about keys that are there in every state.
async fn methods(node: &Node) -> Vec<Method> {
    let mut keys = node.keys().await;
    let mut held = Vec::new();
    for number in 0..8 {
        let key = format!("key-{number}");
        let request = brief_claim(&key, owner(number), Duration::from_secs(3_600));
        let fence = keys.claim_key(request).await.unwrap().into_inner().fence;
        held.push((key, owner(number), fence));
    }
    for (key, owner, fence) in &held[4..] {
        keys.complete_key(complete(key, *owner, *fence, b"done")).await.unwrap();
    }
    let (tenant, operation) = (TENANT.to_owned(), OPERATION.to_owned());
    let (key, holder, fence) = held[0].clone();
    let stranger = owner(99);
    let claims = [claim(&key, holder), claim(&held[5].0, stranger), full_claim(&key, stranger)];
    let completes = [complete(&key, holder, fence, b"done"), complete(&key, stranger, 1, b"")];
    let reconcile = ReconcileKeyRequest {
        tenant: tenant.clone(),
        operation: operation.clone(),
        key: key.clone(),
        fence,
        resolution: 1,
        response: Some(Response::default()),
        actor: "tester".to_owned(),
        reason: "mutated".to_owned(),
    };
    let forget = ForgetKeyRequest {
        tenant: tenant.clone(),
        operation: operation.clone(),
        key: held[6].0.clone(),
        actor: "tester".to_owned(),
        reason: "mutated".to_owned(),
    };
    let get = GetKeyRequest {
        tenant: tenant.clone(),
        operation: operation.clone(),
        key: key.clone(),
        include_body: true,
    };
    let list = ListKeysRequest {
        tenant: tenant.clone(),
        operation: operation.clone(),
        state: KeyState::Claimed.into(),
        labels: [("region".to_owned(), "eu".to_owned())].into(),
        page_size: 10,
        page_token: String::new(),
    };
    let next = keys.list_keys(ListKeysRequest { page_size: 1, labels: [].into(), ..list.clone() });
    let page_token = next.await.unwrap().into_inner().next_page_token;
    let stuck = ListStuckKeysRequest {
        tenant,
        operation,
        stuck_for: Some(prost_types::Duration { seconds: 1, nanos: 0 }),
        page_size: 10,
        page_token: String::new(),
    };
    let renewal = RenewKeyRequest {
        checkpoint: Some(Bytes::from_static(b"half")),
        ..renew(&key, holder, fence, 1)
    };
    vec![
        Method::new::<ClaimKeyRequest>("ClaimKey", &claims),
        Method::new::<CompleteKeyRequest>("CompleteKey", &completes),
        Method::new::<ReplayKeyRequest>("ReplayKey", &[replay(&key), replay(&held[5].0)]),
        Method::new("RenewKey", &[renewal]),
        Method::new("ReleaseKey", &[release(&held[1].0, held[1].1, held[1].2)]),
        Method::new("ClaimKeys", &[ClaimKeysRequest { claims: claims.to_vec() }]),
        Method::new("CompleteKeys", &[CompleteKeysRequest { completions: completes.to_vec() }]),
        Method::new("GetKey", &[get]),
        Method::new("ListKeys", &[list.clone(), ListKeysRequest { page_token, ..list }]),
        Method::new("ListStuckKeys", &[stuck]),
        Method::new("ReconcileKey", &[reconcile]),
        Method::new("ForgetKey", &[forget]),
    ]
}

/// A claim with every field set.
fn full_claim(key: &str, owner: [u8; 16]) -> ClaimKeyRequest {
    let seconds = |seconds| Some(prost_types::Duration { seconds, nanos: 1 });
    ClaimKeyRequest {
        retention: seconds(90_000),
        wait: Some(prost_types::Duration { seconds: 0, nanos: 1_000_000 }),
        first_sent: Some(prost_types::Timestamp { seconds: 4_102_444_800, nanos: 0 }),
        labels: [("region".to_owned(), "eu".to_owned())].into(),
        ..brief_claim(key, owner, Duration::from_secs(30))
    }
}

async fn send_mutations(
    node: &Node,
    methods: &Arc<Vec<Method>>,
    seed: u64,
    mutations: u64,
) -> BTreeMap<String, u64> {
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push(node.connect().await);
    }
    let mut callers = JoinSet::new();
    for (channel, number) in connections.into_iter().cycle().zip(0..CALLERS) {
        let methods = Arc::clone(methods);
        let share = mutations / CALLERS + u64::from(number < mutations % CALLERS);
        let random = SmallRng::seed_from_u64(seed ^ number);
        callers.spawn(async move { send_share(channel, &methods, random, share).await });
    }
    let mut codes = BTreeMap::new();
    while let Some(share) = callers.join_next().await {
        for code in share.unwrap() {
            *codes.entry(format!("{code:?}")).or_default() += 1;
        }
    }
    codes
}

async fn send_share(
    mut channel: Channel,
    methods: &[Method],
    mut random: SmallRng,
    share: u64,
) -> Vec<Code> {
    let mut codes = Vec::new();
    for _ in 0..share {
        let method = pick(&mut random, methods);
        let example = pick(&mut random, &method.examples);
        let message = mutated(&mut random, methods, example);
        let code = if random.random_ratio(1, 20) {
            // Of a frame that lies, only a status is asked for.
            let frame = lying_frame(&mut random, &message);
            call(&mut channel, method.name, frame).await.code()
        } else {
            let status = call(&mut channel, method.name, frame(&message)).await;
            assert_clear(&status, method, &message);
            status.code()
        };
        codes.push(code);
    }
    codes
}

/// What came back must fit what was sent.
fn assert_clear(status: &Status, method: &Method, message: &[u8]) {
    let what = || format!("{} {message:02x?}: {status:?}", method.name);
    if !(method.decodes)(message) {
        let says_so = status.code() == Code::Internal && status.message().contains("decode");
        assert!(says_so, "{}", what());
        return;
    }
    match status.code() {
        // A mutated wait can outlast the call.
        Code::Ok | Code::DeadlineExceeded | Code::Cancelled => {}
        Code::InvalidArgument => {
            let field = status.get_details_bad_request().map(|bad| bad.field_violations.len());
            assert_eq!(field, Some(1), "{}", what());
            assert!(!reason(status).is_empty(), "{}", what());
        }
        Code::FailedPrecondition
        | Code::NotFound
        | Code::PermissionDenied
        | Code::ResourceExhausted => assert!(!reason(status).is_empty(), "{}", what()),
        _ => panic!("{}", what()),
    }
}

fn pick<'a, T>(random: &mut SmallRng, from: &'a [T]) -> &'a T {
    &from[random.random_range(0..from.len())]
}

/// One change or a few, of the kinds that break parsers, and more often of those that leave most of the
/// message readable.
fn mutated(random: &mut SmallRng, methods: &[Method], example: &[u8]) -> Vec<u8> {
    let mut bytes = example.to_vec();
    let changes = if random.random_ratio(3, 4) { 1 } else { random.random_range(2..=4) };
    for _ in 0..changes {
        let at = random.random_range(0..=bytes.len());
        let end = (at + random.random_range(0..16)).min(bytes.len());
        match random.random_range(0..16) {
            0..6 if at < bytes.len() => bytes[at] ^= 1 << random.random_range(0..8),
            6..9 if at < bytes.len() => bytes[at] = *pick(random, &[0, 1, 0x7f, 0x80, 0xfe, 0xff]),
            // Two messages in a row are one, with the fields of both.
            9 => bytes.extend_from_slice(example),
            10 => bytes.truncate(at),
            11 => drop(bytes.drain(at..end)),
            12 => bytes.extend_from_within(at..end),
            13 => {
                let noise: Vec<u8> = (at..end).map(|_| random.random()).collect();
                bytes.splice(at..at, noise);
            }
            // The largest number, and one that is too long.
            14 => {
                let length = random.random_range(9..=10);
                bytes.splice(at..end, [&vec![0xff; length][..], &[1]].concat());
            }
            _ => {
                let other = pick(random, methods);
                let other = pick(random, &other.examples);
                bytes.splice(at..end, other.iter().copied());
            }
        }
    }
    bytes
}

/// A message in its frame: not compressed, and as long as it says.
fn frame(message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).unwrap();
    [&[0], &length.to_be_bytes()[..], message].concat().into()
}

/// A frame that is compressed in no known way, too short, too long, or twice there.
fn lying_frame(random: &mut SmallRng, message: &[u8]) -> Bytes {
    let mut bytes = frame(message).to_vec();
    match random.random_range(0..5) {
        0 => bytes[0] = random.random(),
        1 => bytes[random.random_range(1..5)] = random.random(),
        2 => bytes.truncate(random.random_range(0..bytes.len())),
        3 => bytes.extend_from_within(..),
        _ => bytes.push(random.random()),
    }
    bytes.into()
}

/// Sends these very bytes as the body of a call.
async fn call(channel: &mut Channel, method: &str, body: Bytes) -> Status {
    let request = http::Request::post(format!("/semel.v1.Keys/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("grpc-timeout", "1S")
        .body(Body::new(Full::new(body)))
        .unwrap();
    std::future::poll_fn(|context| channel.poll_ready(context)).await.unwrap();
    let (head, body) = match channel.call(request).await {
        Ok(response) => response.into_parts(),
        // The client's own clock can be the first to give up.
        Err(error) => return Status::from_error(Box::new(error)),
    };
    // An error comes in the headers, or after the message in the trailers.
    let headers = Status::from_header_map(&head.headers);
    let trailers = match body.collect().await {
        Ok(body) => body.trailers().and_then(Status::from_header_map),
        Err(status) => Some(status),
    };
    headers.or(trailers).expect("every call ends with a status")
}

async fn assert_serves(node: &Node) {
    let mut keys = node.keys().await;
    let reply = keys.claim_key(claim("afterwards", owner(1))).await.unwrap().into_inner();
    assert_eq!(reply.disposition(), Disposition::Claimed);
}

#[tokio::test]
async fn a_message_over_the_limit_is_refused_and_a_body_over_its_limit_is_left_out() {
    let node = Node::start(&[]);
    let mut channel = node.connect().await;
    let largest = Bytes::from(vec![0; MESSAGE_MAX_BYTES]);
    for method in ["ClaimKey", "CompleteKey", "ClaimKeys"] {
        let status = call(&mut channel, method, frame(&[&largest[..], &[0]].concat())).await;
        assert_eq!(status.code(), Code::OutOfRange, "{status:?}");
        assert!(status.message().contains("limit"), "{status:?}");
    }
    let mut announced = frame(b"").to_vec();
    announced[1..].copy_from_slice(&u32::MAX.to_be_bytes());
    let status = call(&mut channel, "ClaimKey", announced.into()).await;
    assert_eq!(status.code(), Code::OutOfRange, "{status:?}");

    let mut keys = node.keys().await;
    let fence = keys.claim_key(claim("k", owner(1))).await.unwrap().into_inner().fence;
    let body = &largest[..MESSAGE_MAX_BYTES - 1_000];
    let reply = keys.complete_key(complete("k", owner(1), fence, body)).await.unwrap();
    assert!(reply.into_inner().omitted_too_large);
    let replayed = keys.replay_key(replay("k")).await.unwrap().into_inner().completion.unwrap();
    assert!(replayed.omitted_too_large);

    let batch = ClaimKeysRequest { claims: vec![claim("l", owner(1)); 1_001] };
    let refused = keys.claim_keys(batch).await.unwrap_err();
    assert_eq!(reason(&refused), "BATCH_INVALID", "{refused:?}");
    node.assert_calm();
    assert_serves(&node).await;
}

#[tokio::test]
async fn bytes_that_are_no_http_end_their_connection_only() {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let node = Node::start(&[]);
    let address = node.url.strip_prefix("http://").unwrap();
    let mut random = SmallRng::seed_from_u64(seed());
    let mut inputs: Vec<Vec<u8>> = vec![
        Vec::new(),
        b"GET / HTTP/1.1\r\nhost: semel\r\n\r\n".to_vec(),
        // The hello of TLS, a half of the preface, and a frame of the greatest length.
        vec![0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0],
        PREFACE[..10].to_vec(),
        [PREFACE, &[0xff; 64]].concat(),
        // Settings twice over, then a frame on a stream that nobody opened.
        [PREFACE, &[0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 1]].concat(),
    ];
    for _ in 0..200 {
        let noise: Vec<u8> = (0..random.random_range(1..400)).map(|_| random.random()).collect();
        inputs.push([if random.random() { PREFACE } else { &[] }, &noise].concat());
    }
    for input in inputs {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        // The node may have hung up already, which is the best answer.
        let sent = stream.write_all(&input).and_then(|()| stream.shutdown(Shutdown::Write));
        if sent.is_ok() {
            let ended = stream.read_to_end(&mut Vec::new());
            let hung =
                matches!(&ended, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock);
            assert!(!hung, "the connection was kept for nothing: {input:02x?}");
        }
    }
    node.assert_calm();
    assert_serves(&node).await;
}
