//! Callers who hang up, handlers that don't end, claims that are lost.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use ::http::Response;
use bytes::Bytes;
use futures::{FutureExt, stream};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;
use tower::{BoxError, Layer, ServiceExt, service_fn};

use super::super::semel::Semel;
use super::{Handler, answer, layer, send, this_charge};
use crate::keys::{Disposition, OnOwnerLost};
use crate::once::Held;

const SECOND: Duration = Duration::from_secs(1);

async fn slow(number: u32, _: Option<Held>) -> Response<String> {
    sleep(SECOND + SECOND / 2).await;
    answer(201, number)
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_hangs_up_never_releases_the_key() {
    let node = Semel::default_node(&[]);
    let layer = layer(&node);
    let handler = Handler::new(slow);
    assert!(timeout(SECOND, send(&layer, &handler, this_charge())).await.is_err());
    assert!(node.calls().iter().all(|call| ["claim", "renew"].contains(call)));
    send(&layer, &handler, this_charge()).await.assert_problem(409, "IN_PROGRESS");
    sleep(3 * SECOND).await;
    for _ in 0..2 {
        send(&layer, &handler, this_charge()).await.assert_problem(409, "OUTCOME_UNKNOWN");
    }
    assert_eq!(handler.runs(), 1, "no handler that does not look first runs again");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_looks_first_runs_again_and_is_told_so() {
    let node = Semel::default_node(&[]);
    let layer = layer(&node).on_owner_lost(OnOwnerLost::Reconcile);
    let handler = Handler::new(async |number, held: Option<Held>| {
        let disposition = held.unwrap().disposition();
        if number == 1 {
            assert_eq!(disposition, Disposition::Claimed);
            std::future::pending::<()>().await;
        }
        assert_eq!(disposition, Disposition::ReconcileRequired);
        answer(200, number)
    });
    assert!(timeout(SECOND, send(&layer, &handler, this_charge())).await.is_err());
    sleep(3 * SECOND).await;
    assert_eq!(send(&layer, &handler, this_charge()).await.body, "run 2");
    assert!(send(&layer, &handler, this_charge()).await.is_replayed());
}

#[tokio::test(start_paused = true)]
async fn in_tasks_the_handler_ends_whoever_hangs_up() {
    let node = Semel::default_node(&[]);
    let tracker = TaskTracker::new();
    let layer = layer(&node).to_the_end(tracker.clone(), 1);
    let handler = Handler::new(slow);
    assert!(timeout(SECOND, send(&layer, &handler, this_charge())).await.is_err());
    let other = super::charge(Some(r#""order-2""#), "{}");
    let refused = send(&layer, &handler, other).await;
    refused.assert_problem(503, "OVERLOADED");
    tracker.close();
    timeout(SECOND, tracker.wait()).await.expect("half a second is left of it");
    let replayed = send(&layer, &handler, this_charge()).await;
    assert!(replayed.is_replayed());
    assert_eq!(replayed.body, "run 1");
    assert_eq!(handler.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_panic_goes_through_from_a_task_too_and_settles_nothing() {
    for tracked in [false, true] {
        let node = Semel::default_node(&[]);
        let layer = layer(&node);
        let layer = if tracked { layer.to_the_end(TaskTracker::new(), 1) } else { layer };
        let handler = Handler::new(async |_, _| -> Response<String> { panic!("on purpose") });
        let sent = send(&layer, &handler, this_charge());
        let panic = AssertUnwindSafe(sent).catch_unwind().await.expect_err("it goes through");
        assert_eq!(panic.downcast_ref(), Some(&"on purpose"));
        assert_eq!(node.calls(), ["claim"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_is_not_over_in_time_leaves_an_unknown_outcome() {
    let node = Semel::default_node(&[]);
    let layer = layer(&node).time_limit(10 * SECOND);
    let handler = Handler::new(async |_, _| std::future::pending().await);
    send(&layer, &handler, this_charge()).await.assert_problem(504, "OUTCOME_UNKNOWN");
    send(&layer, &handler, this_charge()).await.assert_problem(409, "OUTCOME_UNKNOWN");
    assert_eq!(handler.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn whoever_was_overtaken_has_no_say() {
    let node = Semel::default_node(&[]);
    let layer = layer(&node);
    let semel = node.clone();
    let handler = Handler::new(move |number, _| {
        semel.semel().take_over("order-1");
        async move { answer(201, number) }
    });
    let overtaken = send(&layer, &handler, this_charge()).await;
    overtaken.assert_problem(409, "IN_PROGRESS");
    assert!(overtaken.headers.contains_key("retry-after"));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_breaks_off_leaves_an_unknown_outcome() {
    let node = Semel::default_node(&[]);
    let layer = layer(&node);
    let handler = service_fn(async |_: super::Asked| {
        let frames = [Ok(Frame::data(Bytes::from_static(b"half of"))), Err("it broke off")];
        Ok::<_, BoxError>(Response::new(StreamBody::new(stream::iter(frames))))
    });
    let answer = layer.layer(handler).oneshot(this_charge()).await.unwrap();
    assert_eq!(answer.status(), 409);
    assert!(answer.into_body().collect().await.is_ok(), "nothing of it is handed on");
    let handler = Handler::new(slow);
    send(&layer, &handler, this_charge()).await.assert_problem(409, "OUTCOME_UNKNOWN");
    assert_eq!(handler.runs(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_service_goes_through_and_leaves_an_unknown_outcome() {
    let node = Semel::default_node(&[]);
    let layer = layer(&node);
    let failing = service_fn(async |_: super::Asked| {
        Err::<Response<String>, BoxError>("no such luck".into())
    });
    let error = layer.layer(failing).oneshot(this_charge()).await.unwrap_err();
    assert_eq!(error.to_string(), "no such luck");
    let handler = Handler::new(slow);
    send(&layer, &handler, this_charge()).await.assert_problem(409, "OUTCOME_UNKNOWN");
    assert_eq!(handler.runs(), 0);
}
