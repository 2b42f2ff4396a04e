//! What is counted of requests and their keys.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use ::http::{Request, Response};
use futures::FutureExt;
use http_body_util::Full;
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;
use tonic::Status;

use super::super::semel::{Mood, Semel};
use super::{Asked, Handler, answer, charge, layer, send, this_charge};
use crate::metrics::measured::Measured;
use crate::once::Held;

const SECOND: Duration = Duration::from_secs(1);

async fn created(number: u32, _: Option<Held>) -> Response<String> {
    answer(201, number)
}

fn order_2() -> Asked {
    charge(Some(r#""order-2""#), "{}")
}

#[tokio::test(start_paused = true)]
async fn each_request_counts_once_by_what_became_of_it() {
    let measured = Measured::new();
    let node = Semel::default_node(&[]);
    let layer = layer(&node).measured(measured.metrics()).request_max_bytes(100);
    let handler = Handler::new(created);
    let other_payload = charge(Some(r#""order-1""#), "{}");
    let too_long = charge(Some(r#""order-1""#), &"x".repeat(101));
    let requests = [
        this_charge(),
        this_charge(),
        other_payload,
        charge(None, "{}"),
        charge(Some("order 1"), "{}"),
        too_long,
        // No key belongs to it, so it is not counted.
        Request::get("/charges").body(Full::default()).unwrap(),
    ];
    for request in requests {
        send(&layer, &handler, request).await;
    }
    measured.assert_keys(&[
        ("claim.duration charge claimed", 1),
        ("claim.duration charge refused", 1),
        ("claim.duration charge replayed", 1),
        ("completion.duration charge stored", 1),
        ("requests charge key_invalid", 1),
        ("requests charge key_missing", 1),
        ("requests charge mismatch", 1),
        ("requests charge ran", 1),
        ("requests charge replayed", 1),
        ("requests charge unreadable", 1),
    ]);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_known_is_not_counted_as_run() {
    let measured = Measured::new();
    let node = Semel::default_node(&[]);
    let layer = layer(&node).measured(measured.metrics()).time_limit(10 * SECOND);
    let slow = Handler::new(async |number, _| {
        sleep(2 * SECOND).await;
        answer(500, number)
    });
    let second = async {
        sleep(SECOND).await;
        send(&layer, &slow, this_charge()).await
    };
    let (first, second) = tokio::join!(send(&layer, &slow, this_charge()), second);
    assert_eq!(first.status, 500);
    second.assert_problem(409, "IN_PROGRESS");
    let endless = Handler::new(async |_, _| std::future::pending().await);
    send(&layer, &endless, order_2()).await.assert_problem(504, "OUTCOME_UNKNOWN");
    let semel = node.clone();
    let taken_over = Handler::new(move |number, _| {
        semel.semel().take_over("order-3");
        async move { answer(201, number) }
    });
    let order_3 = charge(Some(r#""order-3""#), "{}");
    send(&layer, &taken_over, order_3).await.assert_problem(409, "IN_PROGRESS");
    measured.assert_keys(&[
        ("claim.duration charge claimed", 3),
        ("claim.duration charge in_progress", 1),
        ("completion.duration charge refused", 1),
        ("completion.duration charge stored", 2),
        ("requests charge in_progress", 1),
        ("requests charge overtaken", 1),
        ("requests charge timed_out", 1),
        ("requests charge unknown", 1),
    ]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_answer_was_lost_has_not_run_unless_it_is_resumed() {
    let measured = Measured::new();
    let node = Semel::default_node(&[Mood::LoseReply, Mood::Answer]);
    let layer = layer(&node).measured(measured.metrics());
    let handler = Handler::new(created);
    assert_eq!(send(&layer, &handler, this_charge()).await.status, 201);
    node.set(Mood::FallSilent);
    send(&layer, &handler, order_2()).await.assert_problem(503, "SEMEL_UNREACHABLE");
    assert!(node.semel().key("order-2").is_live, "it was granted");
    assert_eq!(handler.runs(), 1);
    measured.assert_keys(&[
        ("claim.duration charge resumed", 1),
        ("claim.duration charge unanswered", 1),
        ("completion.duration charge stored", 1),
        ("requests charge ran", 1),
        ("requests charge unavailable", 1),
    ]);
}

#[tokio::test(start_paused = true)]
async fn what_goes_without_a_key_and_what_semel_does_not_hear_of_is_seen() {
    let measured = Measured::new();
    let node = Semel::default_node(&[Mood::Answer, Mood::Silent]);
    let layer = layer(&node).measured(measured.metrics()).key_optional().unkeyed_without_semel();
    let handler = Handler::new(created);
    for request in [this_charge(), charge(None, "{}"), order_2()] {
        assert_eq!(send(&layer, &handler, request).await.status, 201);
    }
    assert_eq!(handler.runs(), 3);
    measured.assert_keys(&[
        ("claim.duration charge claimed", 1),
        ("claim.duration charge unanswered", 1),
        ("completion.duration charge unanswered", 1),
        ("requests charge ran", 1),
        ("requests charge unkeyed", 1),
        ("requests charge unprotected", 1),
    ]);
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_hangs_up_and_a_panic_are_counted_as_dropped() {
    let measured = Measured::new();
    let node = Semel::default_node(&[]);
    let layer = layer(&node).measured(measured.metrics());
    let endless = Handler::new(async |_, _| std::future::pending().await);
    assert!(timeout(SECOND, send(&layer, &endless, this_charge())).await.is_err());
    let panics = Handler::new(async |_, _| -> Response<String> { panic!("on purpose") });
    let sent = send(&layer, &panics, order_2());
    assert!(AssertUnwindSafe(sent).catch_unwind().await.is_err());
    let counts = measured.keys();
    assert_eq!(counts["requests charge dropped"], 2, "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn in_tasks_what_ends_counts_whoever_waits_and_what_finds_no_place_too() {
    let measured = Measured::new();
    let node = Semel::default_node(&[]);
    let tracker = TaskTracker::new();
    let layer = layer(&node).measured(measured.metrics()).to_the_end(tracker.clone(), 1);
    let slow = Handler::new(async |number, _| {
        sleep(2 * SECOND).await;
        answer(201, number)
    });
    assert!(timeout(SECOND, send(&layer, &slow, this_charge())).await.is_err());
    send(&layer, &slow, order_2()).await.assert_problem(503, "OVERLOADED");
    tracker.close();
    tracker.wait().await;
    measured.assert_keys(&[
        ("claim.duration charge claimed", 1),
        ("completion.duration charge stored", 1),
        ("requests charge overloaded", 1),
        ("requests charge ran", 1),
    ]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_without_an_answer_of_semels_is_unavailable() {
    let measured = Measured::new();
    let node = Semel::default_node(&[Mood::Refuse(Status::unavailable("connection refused"))]);
    let layer = layer(&node).measured(measured.metrics());
    send(&layer, &Handler::new(created), this_charge()).await;
    measured.assert_keys(&[
        ("claim.duration charge unanswered", 1),
        ("requests charge unavailable", 1),
    ]);
}
