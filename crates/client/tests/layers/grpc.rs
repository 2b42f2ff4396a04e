//! The stack around a channel of tonic.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use semel_client::FailureKind;
use semel_client::breakers::Outcome;
use semel_client::failure::{failure_of_error, failure_of_status};
use semel_client::layers::{Grpc, GrpcStack, Repeatable};
use semel_proto::v1::retries_client::RetriesClient;
use semel_proto::v1::{
    AcquireRetryTokenRequest, AcquireRetryTokenResponse, OutcomeCounts, RetryVerdict,
};
use tokio::time::sleep;
use tonic::body::Body;
use tonic::{Code, Request, Status};
use tonic_types::StatusExt;
use tower::{Layer, ServiceExt};

use crate::node::Node;
use crate::support::Client;

/// Answers the first attempts with these, the others as the node does; keeps the heads of all.
#[derive(Clone)]
struct Flaky {
    channel: tonic::transport::Channel,
    script: Arc<Mutex<Vec<Status>>>,
    seen: Arc<Mutex<Vec<http::HeaderMap>>>,
}

impl tower::Service<http::Request<Body>> for Flaky {
    type Response = http::Response<Body>;
    type Error = tonic::transport::Error;
    type Future = futures::future::BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Self::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        self.seen.lock().unwrap().push(request.headers().clone());
        if let Some(status) = self.script.lock().unwrap().pop() {
            return Box::pin(async move { Ok(status.into_http()) });
        }
        Box::pin(self.channel.clone().oneshot(request))
    }
}

fn question(is_repeatable: bool) -> Request<AcquireRetryTokenRequest> {
    let mut request = Request::new(AcquireRetryTokenRequest {
        dependency: "asked through the layers".into(),
        ..AcquireRetryTokenRequest::default()
    });
    request.extensions_mut().insert(Repeatable(is_repeatable));
    request
}

fn flaky(channel: tonic::transport::Channel, script: Vec<Status>) -> Flaky {
    Flaky { channel, script: Arc::new(Mutex::new(script)), seen: Arc::default() }
}

#[tokio::test(start_paused = true)]
async fn a_unary_call_is_sent_again_with_its_body_its_deadline_and_its_root() {
    let (node, channel) = Node::start();
    node.book(|book| {
        book.to_lease = 5;
        book.answer = AcquireRetryTokenResponse { balance_milli: 77, ..Default::default() };
    });
    let client = Client::new(channel.clone());
    let flaky = flaky(channel, vec![Status::unavailable("gone"), Status::unknown("bug")]);
    let seen = Arc::clone(&flaky.seen);
    let stack = client.stack(Grpc::default()).within(Duration::from_secs(2));
    let mut layered = RetriesClient::new(GrpcStack::new(stack).layer(flaky));
    client
        .driven(async {
            client.tokens.budget("acme", "stripe").unwrap().first_attempt();
            sleep(Duration::from_millis(50)).await;
            let answer = layered.acquire_retry_token(question(true)).await.unwrap();
            assert_eq!(answer.into_inner().balance_milli, 77);
        })
        .await;
    let asked = node.book(|book| book.questions.pop().unwrap());
    assert_eq!(asked.dependency, "asked through the layers");
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 3);
    for headers in seen.iter() {
        assert!(headers.contains_key("grpc-timeout") && headers.contains_key("x-semel-root"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_must_not_be_repeated_is_not_and_its_status_stands() {
    let (node, channel) = Node::start();
    node.book(|book| book.to_lease = 5);
    let client = Client::new(channel.clone());
    let flaky = flaky(channel, vec![Status::unknown("bug")]);
    let stack = client.stack(Grpc::default());
    let mut layered = RetriesClient::new(GrpcStack::new(stack).layer(flaky));
    let status = client.driven(layered.acquire_retry_token(question(false))).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Unknown, "bug"));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_no_retry_gets_none() {
    let (node, channel) = Node::start();
    node.book(|book| book.to_lease = 5);
    let client = Client::new(channel.clone());
    let mut status = Status::unavailable("drained");
    status.metadata_mut().insert("grpc-retry-pushback-ms", "-1".parse().unwrap());
    let flaky = flaky(channel, vec![status]);
    let seen = Arc::clone(&flaky.seen);
    let mut layered =
        RetriesClient::new(GrpcStack::new(client.stack(Grpc::default())).layer(flaky));
    client
        .driven(async {
            client.tokens.budget("acme", "stripe").unwrap().first_attempt();
            sleep(Duration::from_millis(50)).await;
            let status = layered.acquire_retry_token(question(true)).await.unwrap_err();
            assert_eq!((status.code(), status.message()), (Code::Unavailable, "drained"));
        })
        .await;
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_channel_that_does_not_come_about_sent_nothing() {
    let (node, channel) = Node::start();
    node.cut_off().await;
    let request = http::Request::post("http://node/").body(Body::empty()).unwrap();
    let error = channel.oneshot(request).await.unwrap_err();
    assert_eq!(failure_of_error(&error).kind, FailureKind::NotSent);
    let status = Status::from_error(error.into());
    assert_eq!(failure_of_status(&status).unwrap().kind, FailureKind::NotSent);
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_is_a_status_that_says_when_to_come_back() {
    let (node, channel) = Node::start();
    node.cut_off().await;
    let client = Client::new(channel.clone());
    let breaker = client.breakers.breaker("stripe").unwrap();
    for _ in 0..20 {
        breaker.enter().await.unwrap().tell(Outcome::Failed);
    }
    let stack = client.stack(Grpc::default());
    let mut layered = RetriesClient::new(GrpcStack::new(stack).layer(channel));
    let status = layered.acquire_retry_token(question(true)).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(
        status.get_details_retry_info().unwrap().retry_delay.unwrap() > Duration::from_secs(20)
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_is_asked_for_the_token_that_is_not_in_hand_and_says_how_long_to_wait() {
    let (node, channel) = Node::start();
    node.book(|book| {
        let delay = Some(prost_types::Duration { seconds: 3, nanos: 0 });
        book.answer =
            AcquireRetryTokenResponse { delay, root_retries_left: 2, ..Default::default() };
        book.answer.set_verdict(RetryVerdict::Granted);
    });
    let client = Client::new(channel.clone());
    let flaky = flaky(channel, vec![Status::unavailable("gone")]);
    let stack = client.stack(Grpc::default());
    let mut layered = RetriesClient::new(GrpcStack::new(stack).layer(flaky));
    let began = crate::support::now();
    client
        .driven(async {
            sleep(Duration::from_millis(50)).await;
            layered.acquire_retry_token(question(true)).await.unwrap();
        })
        .await;
    assert!(crate::support::now() - began >= Duration::from_secs(3));
    let asked = node.book(|book| book.questions.remove(0));
    assert_eq!((asked.attempt, asked.repeatable, asked.dependency.as_str()), (1, true, "stripe"));
    assert_eq!(asked.root.unwrap().retries, Some(2), "half of four is with the callee");
}

/// Answers each call with a head that says nothing, and with this status behind it.
fn failing_late(status: Code, calls: &Arc<Mutex<u32>>) -> impl Fails {
    let calls = Arc::clone(calls);
    tower::service_fn(move |_: http::Request<Body>| {
        *calls.lock().unwrap() += 1;
        let mut trailers = http::HeaderMap::new();
        Status::new(status, "late").add_header(&mut trailers).unwrap();
        let body = Full::new(Bytes::new()).with_trailers(async { Some(Ok(trailers)) });
        async { Ok::<_, Status>(http::Response::new(Body::new(body))) }
    })
}

trait Fails:
    tower::Service<
        http::Request<Body>,
        Response = http::Response<Body>,
        Error = Status,
        Future: Send,
    > + Clone
    + Send
    + 'static
{
}

impl<S> Fails for S where
    S: tower::Service<
            http::Request<Body>,
            Response = http::Response<Body>,
            Error = Status,
            Future: Send,
        > + Clone
        + Send
        + 'static
{
}

#[tokio::test(start_paused = true)]
async fn a_status_in_the_trailers_is_told_to_the_breaker_and_not_sent_again() {
    let counts = |succeeded, failed, ignored| OutcomeCounts { succeeded, failed, slow: 0, ignored };
    for (status, expected) in [
        (Code::Internal, counts(0, 20, 0)),
        (Code::NotFound, counts(0, 0, 20)),
        (Code::Ok, counts(20, 0, 0)),
    ] {
        let (node, channel) = Node::start();
        node.book(|book| book.to_lease = 50);
        let (client, calls) = (Client::new(channel), Arc::new(Mutex::new(0)));
        let stack = GrpcStack::new(client.stack(Grpc::default()));
        let mut layered = RetriesClient::new(stack.layer(failing_late(status, &calls)));
        client
            .driven(async {
                client.tokens.budget("acme", "stripe").unwrap().first_attempt();
                sleep(Duration::from_millis(50)).await;
                for _ in 0..20 {
                    layered.acquire_retry_token(question(true)).await.unwrap_err();
                }
                sleep(Duration::from_millis(250)).await;
            })
            .await;
        assert_eq!(*calls.lock().unwrap(), 20, "after the head nothing is sent again");
        let told = node.book(|book| book.reports[0].outcomes[0].counts);
        assert_eq!(told, Some(expected), "{status:?}");
    }
}
