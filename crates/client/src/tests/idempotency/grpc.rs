//! What a caller of gRPC sees. The service in question is another Semel: whether it runs is seen by its calls.

use std::time::Duration;

use semel_proto::v1::keys_client::KeysClient;
use semel_proto::v1::keys_server::KeysServer;
use semel_proto::v1::{ClaimKeyRequest, ClaimKeyResponse, Fingerprint};
use tokio::time::sleep;
use tonic::{Code, Request, Response, Status};
use tonic_types::StatusExt;
use tower::{Layer, ServiceExt};

use super::super::semel::{Mood, Node, Semel, client};
use crate::layers::IdempotencyLayer;
use crate::layers::idempotency::{GrpcDialect, Verdict};
use crate::metrics::measured::Measured;

/// Only one method is named to the layer.
fn layer(semel: &Node) -> IdempotencyLayer<GrpcDialect> {
    IdempotencyLayer::grpc(client([semel]), |parts| {
        (parts.uri.path() == "/semel.v1.Keys/ClaimKey").then(|| "keys.claim".to_owned())
    })
    .lease(Duration::from_secs(3))
}

fn message(key: &str) -> ClaimKeyRequest {
    let digest = bytes::Bytes::from_static(&[7; 32]);
    ClaimKeyRequest {
        key: key.to_owned(),
        fingerprints: vec![Fingerprint { algorithm: "test".to_owned(), digest }],
        ..Default::default()
    }
}

fn keyed(idempotency_key: &'static str, key: &str) -> Request<ClaimKeyRequest> {
    let mut request = Request::new(message(key));
    request.metadata_mut().insert("idempotency-key", idempotency_key.parse().unwrap());
    request
}

async fn call(
    layer: &IdempotencyLayer<GrpcDialect>,
    service: &Node,
    request: Request<ClaimKeyRequest>,
) -> Result<Response<ClaimKeyResponse>, Status> {
    let server = KeysServer::new(service.clone())
        .map_request(|request: ::http::Request<tonic::body::Body>| request);
    let server = layer.layer(server.map_err(|never| match never {}));
    KeysClient::new(server.map_err(|error: tower::BoxError| error)).claim_key(request).await
}

fn reason(status: &Status) -> String {
    let info = status.get_details_error_info().expect("the reason is told");
    assert_eq!(info.domain, "semel.v1");
    info.reason
}

#[tokio::test(start_paused = true)]
async fn a_message_is_replayed() {
    let (semel, service) = (Semel::default_node(&[]), Semel::default_node(&[]));
    let layer = layer(&semel);
    let first = call(&layer, &service, keyed("intent-1", "a")).await.unwrap();
    assert_eq!(first.get_ref().fence, 100);
    let again = call(&layer, &service, keyed("\"intent-1\"", "a")).await.unwrap();
    assert_eq!(again.get_ref(), first.get_ref(), "run again, it would say that it resumed");
    assert_eq!(again.metadata().get("idempotency-replayed").unwrap(), "true");
    assert_eq!(service.calls(), ["claim"]);
}

#[tokio::test(start_paused = true)]
async fn a_status_is_replayed_if_it_is_final() {
    for (status, runs, next) in [
        (Status::not_found("no such account"), 1, Code::NotFound),
        (Status::resource_exhausted("later"), 2, Code::Ok),
        (Status::unavailable("the provider hung up"), 1, Code::FailedPrecondition),
        (Status::internal("a bug"), 1, Code::FailedPrecondition),
        (Verdict::NotDone.on(Status::unavailable("it was not even asked")), 2, Code::Ok),
        (Verdict::FailedFinal.on(Status::aborted("for good")), 1, Code::Aborted),
    ] {
        let semel = Semel::default_node(&[]);
        let service = Semel::default_node(&[Mood::Refuse(status.clone()), Mood::Answer]);
        let layer = layer(&semel);
        let first = call(&layer, &service, keyed("1", "a")).await.unwrap_err();
        assert_eq!((first.code(), first.message()), (status.code(), status.message()));
        let second = call(&layer, &service, keyed("1", "a")).await;
        assert_eq!(second.as_ref().map_or_else(Status::code, |_| Code::Ok), next, "{status}");
        assert_eq!(service.calls().len(), runs, "{status}");
        if let Err(second) = second {
            match next {
                Code::FailedPrecondition => assert_eq!(reason(&second), "OUTCOME_UNKNOWN"),
                _ => assert_eq!(second.message(), status.message()),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_can_not_be_answered_is_refused_in_the_words_of_grpc() {
    let (semel, service) = (Semel::default_node(&[]), Semel::default_node(&[]));
    let strict = layer(&semel);
    let missing = call(&strict, &service, Request::new(message("a"))).await.unwrap_err();
    assert_eq!((missing.code(), &*reason(&missing)), (Code::InvalidArgument, "KEY_MISSING"));

    service.set(Mood::Slow(Duration::from_secs(2)));
    let meanwhile = async {
        sleep(Duration::from_secs(1)).await;
        let early = call(&strict, &service, keyed("1", "a")).await.unwrap_err();
        let other = call(&strict, &service, keyed("1", "b")).await.unwrap_err();
        (early, other)
    };
    let (first, (early, other)) = tokio::join!(call(&strict, &service, keyed("1", "a")), meanwhile);
    first.unwrap();
    assert_eq!((early.code(), &*reason(&early)), (Code::Aborted, "IN_PROGRESS"));
    let told = early.get_details_retry_info().unwrap().retry_delay;
    assert_eq!(told, Some(Duration::from_secs(1)));
    assert_eq!(early.metadata().get("grpc-retry-pushback-ms").unwrap(), "1000");
    assert_eq!(other.code(), Code::FailedPrecondition);
    assert_eq!(reason(&other), "KEY_PAYLOAD_MISMATCH");

    semel.set(Mood::Refuse(Status::unavailable("connection refused")));
    let away = call(&strict, &service, keyed("2", "a")).await.unwrap_err();
    assert_eq!((away.code(), &*reason(&away)), (Code::Unavailable, "SEMEL_UNREACHABLE"));
    assert_eq!(service.calls(), ["claim"]);
}

#[tokio::test(start_paused = true)]
async fn methods_that_are_not_named_and_calls_without_a_key_go_through() {
    let (semel, service) = (Semel::default_node(&[]), Semel::default_node(&[]));
    let optional = layer(&semel).key_optional();
    call(&optional, &service, Request::new(message("a"))).await.unwrap();
    let unnamed = IdempotencyLayer::grpc(client([&semel]), |_| None);
    call(&unnamed, &service, keyed("1", "b")).await.unwrap();
    assert_eq!(service.calls(), ["claim", "claim"]);
    assert!(semel.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_stream_with_a_key_is_refused() {
    let semel = Semel::default_node(&[]);
    let service = Semel::default_node(&[]);
    let server = KeysServer::new(service.clone())
        .map_request(|request: ::http::Request<tonic::body::Body>| request);
    let server = layer(&semel).layer(server.map_err(|never| -> tower::BoxError { match never {} }));
    let one = [0, 0, 0, 0, 1, 7];
    for (body, expected) in
        [(one.repeat(2), "12"), (Vec::new(), "12"), (vec![0, 0, 0, 0, 9, 7], "12")]
    {
        let request = ::http::Request::post("/semel.v1.Keys/ClaimKey")
            .header("content-type", "application/grpc")
            .header("idempotency-key", "1")
            .body(tonic::body::Body::new(http_body_util::Full::new(bytes::Bytes::from(body))))
            .unwrap();
        let answer = server.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.headers()["grpc-status"], expected);
    }
    assert!(service.calls().is_empty() && semel.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_timeout_of_the_call_bounds_the_wait_for_others_and_for_semel() {
    for mood in [Mood::Answer, Mood::Silent] {
        let (semel, service) = (Semel::default_node(&[]), Semel::default_node(&[Mood::Silent]));
        let layer = layer(&semel).wait(Duration::from_secs(30));
        let held = call(&layer, &service, keyed("1", "a"));
        let impatient = async {
            sleep(Duration::from_millis(100)).await;
            semel.set(mood);
            let mut request = keyed("1", "a");
            request.set_timeout(Duration::from_secs(2));
            let began = crate::Deadline::within(Duration::from_millis(2_050));
            let status = call(&layer, &service, request).await.unwrap_err();
            assert!(!began.is_past(), "{status}");
            status
        };
        let status = tokio::select! {
            _ = held => panic!("the service says nothing"),
            status = impatient => status,
        };
        assert_eq!(reason(&status), "SEMEL_UNREACHABLE");
    }
}

#[tokio::test(start_paused = true)]
async fn calls_of_grpc_are_counted_by_what_became_of_them() {
    let measured = Measured::new();
    let (semel, service) = (Semel::default_node(&[]), Semel::default_node(&[]));
    let layer = layer(&semel).measured(measured.metrics());
    call(&layer, &service, keyed("1", "a")).await.unwrap();
    call(&layer, &service, keyed("1", "a")).await.unwrap();
    call(&layer, &service, keyed("1", "b")).await.unwrap_err();
    call(&layer, &service, Request::new(message("a"))).await.unwrap_err();
    call(&layer, &service, keyed("a,b", "a")).await.unwrap_err();
    measured.assert_keys(&[
        ("claim.duration keys.claim claimed", 1),
        ("claim.duration keys.claim refused", 1),
        ("claim.duration keys.claim replayed", 1),
        ("completion.duration keys.claim stored", 1),
        ("requests keys.claim key_invalid", 1),
        ("requests keys.claim key_missing", 1),
        ("requests keys.claim mismatch", 1),
        ("requests keys.claim ran", 1),
        ("requests keys.claim replayed", 1),
    ]);
}
