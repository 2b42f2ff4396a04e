//! Bytes that make no request, or one that nobody meant: a clear status, and the node lives on.

use bytes::{Buf, BufMut, Bytes};
use prost::Message;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use semel_proto::v1;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Code, Status};

use crate::malformed::nothing_written;
use crate::support::*;

/// Bytes as they come, for requests that no client library would make.
#[derive(Clone, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}

/// Calls a method with bytes.
async fn call_raw(
    client: &mut tonic::client::Grpc<tonic::transport::Channel>,
    method: &'static str,
    bytes: Vec<u8>,
) -> Result<Bytes, Status> {
    client.ready().await.expect("the connection lives");
    let request = tonic::Request::new(Bytes::from(bytes));
    let path = tonic::codegen::http::uri::PathAndQuery::from_static(method);
    within(client.unary(request, path, Raw)).await.map(tonic::Response::into_inner)
}

/// Random changes of valid requests: each is answered or refused, and the connection lives on.
#[tokio::test]
async fn bytes_that_nobody_expected_end_the_connection() {
    let (node, _clock) = TestNode::manual(|_| {}).await;
    let mut client = tonic::client::Grpc::new(channel(node.address()).await);
    let mut random = SmallRng::seed_from_u64(8);
    let request = claim("k").label("team", "billing").first_sent_us(NOON_US);
    let seeds = [
        ("/semel.v1.Keys/ClaimKey", request.encode_to_vec()),
        ("/semel.v1.Keys/CompleteKey", succeed(&request, 1, "body").encode_to_vec()),
        ("/semel.v1.Keys/ReplayKey", replay(&request).encode_to_vec()),
        ("/semel.v1.Keys/RenewKey", renew(&request, 1, 1).encode_to_vec()),
        ("/semel.v1.Keys/ReleaseKey", release(&request, 1).encode_to_vec()),
        (
            "/semel.v1.Keys/ClaimKeys",
            v1::ClaimKeysRequest { claims: vec![request] }.encode_to_vec(),
        ),
        ("/semel.v1.Keys/ListKeys", list().encode_to_vec()),
        ("/semel.v1.Keys/ListStuckKeys", list_stuck().encode_to_vec()),
    ];
    for number in 0..2_000 {
        let (method, seed) = &seeds[number % seeds.len()];
        let mut bytes = seed.clone();
        for _ in 0..random.random_range(1..4) {
            let place = random.random_range(0..bytes.len());
            match random.random_range(0..4) {
                0 => bytes[place] = random.random(),
                1 => bytes[place] ^= 1 << random.random_range(0..8),
                2 => bytes.truncate(place.max(1)),
                _ => bytes.insert(place, random.random()),
            }
        }
        let allowed = match call_raw(&mut client, method, bytes.clone()).await {
            Ok(_) => true,
            // No message at all.
            Err(status) if status.code() == Code::Internal => status.message().contains("decode"),
            Err(status) => {
                let refused = Refused::of(&status);
                refused.code == Code::InvalidArgument
                    || ["KEY_UNKNOWN", "FENCED", "KEY_EXPIRED", "KEY_PAYLOAD_MISMATCH"]
                        .contains(&refused.reason.as_str())
                    || refused.reason == "FINGERPRINT_INCOMPARABLE"
            }
        };
        assert!(allowed, "{method}: {bytes:?}");
    }
    node.keys.claim(claim("alive")).await.expect("granted");
}

#[tokio::test]
async fn text_that_is_no_text_is_taken_for_some() {
    let node = TestNode::start().await;
    let mut client = tonic::client::Grpc::new(channel(node.address()).await);
    let mut bytes = claim("k-k").encode_to_vec();
    let dash = bytes.windows(3).position(|text| text == b"k-k").expect("the key") + 1;
    bytes[dash] = 0xff;
    let status = call_raw(&mut client, "/semel.v1.Keys/ClaimKey", bytes).await;
    assert_eq!(status.expect_err("no UTF-8").code(), Code::Internal);
    nothing_written(&node).await;
}
