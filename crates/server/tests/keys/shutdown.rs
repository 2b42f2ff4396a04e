//! The end of a node: calls in flight finish, waiters are sent away, and it ends in time.

use std::time::Duration;

use semel_proto::v1;
use semel_store::memory::Fault;
use tokio::task::JoinSet;
use tokio_stream::StreamExt;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};

use crate::support::*;

fn asking_for(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.to_owned() }
}

#[tokio::test]
async fn a_call_in_flight_is_cut_off() {
    let node = TestNode::start().await;
    let request = claim("done");
    let fence = node.keys.claim(request.clone()).await.expect("granted").fence;
    node.store.faults().script([Fault::Hold, Fault::Hold]);
    let mut calls = JoinSet::new();
    let keys = node.keys.clone();
    calls.spawn(async move { keys.complete(succeed(&request, fence, "x")).await.map(drop) });
    within(node.store.faults().until_held(1)).await;
    let keys = node.keys.clone();
    calls.spawn(async move {
        keys.claim_all(v1::ClaimKeysRequest { claims: vec![claim("batch")] }).await.map(drop)
    });
    within(node.store.faults().until_held(2)).await;

    let (store, address) = (node.store.clone(), node.address());
    let mut health = HealthClient::new(channel(address).await);
    let watch = health.watch(asking_for("semel.v1.Keys")).await.expect("watches");
    let mut watch = watch.into_inner();
    let mut ending = JoinSet::new();
    ending.spawn(node.shutdown());
    while within(watch.next()).await.is_some() {}
    assert!(ending.try_join_next().is_none(), "it waits for its calls");
    store.faults().release();
    for call in within(calls.join_all()).await {
        call.expect("finished");
    }
    within(ending.join_all()).await;
    let refused = tonic::transport::Endpoint::from_shared(format!("http://{address}"));
    refused.expect("an address").connect().await.expect_err("nobody listens any more");
}

#[tokio::test]
async fn a_waiter_holds_the_end_up_or_is_cut_off_without_a_word() {
    let node = TestNode::start().await;
    node.keys.claim(claim("k")).await.expect("granted");
    let mut waiters = JoinSet::new();
    for owner in 2..12 {
        let keys = node.keys.clone();
        let request = claim("k").owner(owner).wait_ms(3_600_000);
        waiters.spawn(async move { keys.claim(request).await.map(drop) });
    }
    let keys = node.keys.clone();
    let read = v1::ReplayKeyRequest { wait: Some(milliseconds(3_600_000)), ..replay(&claim("k")) };
    waiters.spawn(async move { keys.replay(read).await.map(drop) });
    node.store.until(|seen| seen.watches >= 11).await;
    let began_us = machine_us();
    node.shutdown().await;
    assert!(machine_us() - began_us < 5_000_000, "well within the grace");
    for answer in within(waiters.join_all()).await {
        assert_eq!(answer.expect_err("sent away").named(), ("SHUTTING_DOWN", None));
    }
}

#[tokio::test]
async fn who_watches_the_health_is_not_told_or_holds_the_end_up() {
    let node = TestNode::start().await;
    let mut health = HealthClient::new(channel(node.address()).await);
    let mut watches = Vec::new();
    for service in ["", "semel.v1.Keys"] {
        let checked = health.check(asking_for(service)).await.expect("known from the start");
        assert_eq!(checked.into_inner().status(), ServingStatus::Serving);
        let watch = health.watch(asking_for(service)).await.expect("watches");
        let mut watch = watch.into_inner();
        let first = within(watch.next()).await.expect("at once").expect("answered");
        assert_eq!(first.status(), ServingStatus::Serving);
        watches.push(watch);
    }
    let unknown = health.check(asking_for("nobody")).await.expect_err("no such service");
    assert_eq!(unknown.code(), tonic::Code::NotFound);
    let began_us = machine_us();
    node.shutdown().await;
    assert!(machine_us() - began_us < 5_000_000, "well within the grace");
    for mut watch in watches {
        let mut last = ServingStatus::Unknown;
        while let Some(Ok(change)) = within(watch.next()).await {
            last = change.status();
        }
        assert_eq!(last, ServingStatus::NotServing);
    }
}

#[tokio::test]
async fn a_store_that_is_down_goes_unnoticed() {
    let node =
        TestNode::with(|options| options.keys.sweep_interval = Duration::from_millis(10)).await;
    let mut health = HealthClient::new(channel(node.address()).await);
    let watch = health.watch(asking_for("semel.v1.Keys")).await.expect("watches");
    let mut watch = watch.into_inner();
    let mut until = async |wanted| {
        loop {
            let change = within(watch.next()).await.expect("it lives").expect("answered");
            if change.status() == wanted {
                return;
            }
        }
    };
    until(ServingStatus::Serving).await;
    node.store.faults().set_down(true);
    until(ServingStatus::NotServing).await;
    node.store.faults().set_down(false);
    until(ServingStatus::Serving).await;
}

#[tokio::test]
async fn a_store_that_hangs_keeps_the_node_for_ever() {
    let node = TestNode::with(|options| options.grace = Duration::from_millis(300)).await;
    node.store.faults().script([Fault::Hold]);
    let mut hangs = JoinSet::new();
    let keys = node.keys.clone();
    hangs.spawn(async move { keys.raw().claim_key(claim("k")).await });
    within(node.store.faults().until_held(1)).await;
    let began_us = machine_us();
    node.shutdown().await;
    let took_us = machine_us() - began_us;
    assert!((300_000..5_000_000).contains(&took_us), "{took_us} µs");
    let cut_off = within(hangs.join_next()).await.expect("one").expect("no panic");
    cut_off.expect_err("it never was answered");
}

#[tokio::test]
async fn a_sweep_that_hangs_keeps_the_node_for_ever() {
    let (node, clock) = TestNode::manual(|options| {
        options.grace = Duration::from_millis(300);
        options.keys.sweep_interval = Duration::from_millis(10);
    })
    .await;
    let request = claim("k");
    let fence = node.keys.claim(request.clone()).await.expect("granted").fence;
    node.keys.complete(succeed(&request, fence, "x")).await.expect("completed");
    node.store.faults().script([Fault::Hold]);
    clock.advance_us(2 * 86_400_000_000);
    within(node.store.faults().until_held(1)).await;
    let began_us = machine_us();
    node.shutdown().await;
    assert!(machine_us() - began_us < 5_000_000);
}

#[tokio::test]
async fn a_generic_client_does_not_find_the_contract() {
    let node = TestNode::start().await;
    let mut reflection = ServerReflectionClient::new(channel(node.address()).await);
    let ask =
        |request| ServerReflectionRequest { host: String::new(), message_request: Some(request) };
    let requests = vec![
        ask(MessageRequest::ListServices(String::new())),
        ask(MessageRequest::FileContainingSymbol("semel.v1.Keys".to_owned())),
        ask(MessageRequest::FileByFilename("google/rpc/status.proto".to_owned())),
        ask(MessageRequest::FileContainingSymbol("grpc.health.v1.Health".to_owned())),
    ];
    let replies = reflection
        .server_reflection_info(tokio_stream::iter(requests))
        .await
        .expect("answers")
        .into_inner()
        .collect::<Vec<Result<ServerReflectionResponse, _>>>();
    let replies = within(replies).await;
    let mut replies = replies
        .into_iter()
        .map(|reply| reply.expect("answered").message_response.expect("a response"));
    let Some(MessageResponse::ListServicesResponse(listed)) = replies.next() else {
        panic!("services");
    };
    let names: Vec<_> = listed.service.into_iter().map(|service| service.name).collect();
    for service in ["semel.v1.Keys", "grpc.health.v1.Health"] {
        assert!(names.iter().any(|name| name == service), "{names:?}");
    }
    for reply in replies.by_ref() {
        let MessageResponse::FileDescriptorResponse(file) = reply else { panic!("{reply:?}") };
        assert_eq!(file.file_descriptor_proto.len(), 1);
    }
}
