//! Retries that a node grants one by one: what it is told, and what goes back to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use semel_client::layers::{BoxError, Criticality, Http, Stack};
use semel_proto::v1::{
    self, AcquireRetryTokenRequest, AcquireRetryTokenResponse, BreakerCondition, RetryVerdict,
};
use tokio::time::sleep;
use tower::{Layer, ServiceExt, service_fn};

use crate::node::{Node, seconds};
use crate::support::Client;

const MS: Duration = Duration::from_millis(1);
const TOKEN: &[u8] = &[5; 16];
const NODE: &[u8] = &[7; 16];

/// A node that leases nothing, and grants each retry after three seconds.
fn granting() -> (Node, Client) {
    let (node, channel) = Node::start();
    node.book(|book| {
        book.answer = AcquireRetryTokenResponse {
            token: TOKEN.into(),
            node: NODE.into(),
            delay: seconds(3),
            root_retries_left: 3,
            ..AcquireRetryTokenResponse::default()
        };
        book.answer.set_verdict(RetryVerdict::Granted);
    });
    (node, Client::new(channel))
}

/// Calls a dependency that always fails. What came of it, and how often it was called.
async fn call(
    stack: &Stack<Http>,
    criticality: Option<Criticality>,
) -> (Result<Response<()>, BoxError>, u32) {
    let attempts = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&attempts);
    let fails = service_fn(move |_: Request<String>| {
        counted.fetch_add(1, Ordering::Relaxed);
        let mut answer = Response::new(());
        *answer.status_mut() = StatusCode::BAD_GATEWAY;
        async move { Ok::<_, BoxError>(answer) }
    });
    let mut request = Request::get("http://stripe/").body(String::new()).unwrap();
    if let Some(criticality) = criticality {
        request.extensions_mut().insert(criticality);
    }
    let answer = stack.layer(fails).oneshot(request).await;
    (answer, attempts.load(Ordering::Relaxed))
}

fn refunds(node: &Node) -> Vec<v1::RefundRetryTokenRequest> {
    node.book(|book| book.refunds.clone())
}

#[tokio::test(start_paused = true)]
async fn the_token_of_a_call_that_is_over_before_its_retry_goes_back_to_the_node_that_granted_it() {
    let (node, client) = granting();
    let stack = client.stack(Http::default()).within(MS * 1_000);
    client
        .driven(async {
            sleep(MS * 50).await;
            let (answer, attempts) = call(&stack, None).await;
            answer.unwrap_err();
            assert_eq!(attempts, 1);
            sleep(MS * 50).await;
            let refund = refunds(&node).pop().unwrap();
            assert_eq!((refund.tenant.as_str(), refund.dependency.as_str()), ("acme", "stripe"));
            assert_eq!((&*refund.token, &*refund.node), (TOKEN, NODE));
        })
        .await;
    assert_eq!(refunds(&node).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_the_breaker_refuses_gives_its_token_back_and_one_that_is_sent_does_not() {
    let (node, client) = granting();
    let stack = client.stack(Http::default()).within(MS * 20_000);
    client
        .driven(async {
            sleep(MS * 50).await;
            let sent = call(&stack, None).await;
            assert_eq!((sent.0.unwrap().status().as_u16(), sent.1), (502, 3));
            sleep(MS * 50).await;
            assert!(refunds(&node).is_empty());
            let opening = async {
                sleep(MS * 1_000).await;
                node.say(|breaker| {
                    breaker.condition = BreakerCondition::Open.into();
                    (breaker.generation, breaker.admitted_per_mille) = (1, 0);
                    breaker.look_again = seconds(30);
                });
            };
            let calling = call(&stack, None);
            let ((answer, attempts), ()) = tokio::join!(calling, opening);
            assert_eq!((answer.unwrap().status().as_u16(), attempts), (502, 1));
            sleep(MS * 50).await;
            assert_eq!(refunds(&node).len(), 1);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn the_node_is_told_how_much_a_request_matters_and_its_reserve_is_asked_for_apart() {
    let (node, client) = granting();
    node.book(|book| {
        book.answer.set_verdict(RetryVerdict::BudgetExhausted);
        book.answer.retry_after = seconds(1);
    });
    let stack = client.stack(Http::default()).within(MS * 20_000);
    client
        .driven(async {
            sleep(MS * 50).await;
            for criticality in [Criticality::Sheddable, Criticality::Default, Criticality::High] {
                let (_, attempts) = call(&stack, Some(criticality)).await;
                assert_eq!(attempts, 1);
            }
        })
        .await;
    // A budget that is spent is not asked for again by ordinary work.
    assert_eq!(told(&node), [v1::Criticality::Sheddable, v1::Criticality::High]);
}

fn told(node: &Node) -> Vec<v1::Criticality> {
    let questions = node.book(|book| book.questions.clone());
    questions.iter().map(AcquireRetryTokenRequest::criticality).collect()
}

#[tokio::test(start_paused = true)]
async fn a_request_that_says_nothing_matters_as_much_as_what_it_is_made_for() {
    let (node, client) = granting();
    node.book(|book| book.answer.set_verdict(RetryVerdict::Unsafe));
    let stack = client.stack(Http::default()).within(MS * 20_000);
    client
        .driven(async {
            sleep(MS * 50).await;
            Criticality::High.scope(call(&stack, None)).await.0.unwrap();
            Criticality::High.scope(call(&stack, Some(Criticality::Sheddable))).await.0.unwrap();
            call(&stack, None).await.0.unwrap();
        })
        .await;
    let expected = [v1::Criticality::High, v1::Criticality::Sheddable, v1::Criticality::Default];
    assert_eq!(told(&node), expected);
}
