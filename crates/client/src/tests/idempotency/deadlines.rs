//! The request's own deadline, and the root that it works for.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::http::Response;
use semel_proto::v1::Outcome;
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;
use tonic::Status;

use super::super::semel::{Mood, Semel};
use super::{Asked, Handler, answer, layer, send, this_charge};
use crate::layers::idempotency::HttpDialect;
use crate::layers::{Criticality, IdempotencyLayer};
use crate::once::Held;
use crate::{Deadline, Root};

const SECOND: Duration = Duration::from_secs(1);

async fn created(number: u32, _: Option<Held>) -> Response<String> {
    answer(201, number)
}

/// The charge, from a caller who gives it a second.
fn within_a_second() -> Asked {
    let mut request = this_charge();
    request.headers_mut().insert("x-deadline-ms", 1_000.into());
    request
}

/// Sends it under the current deadline that this is: by a header, or by a scope.
async fn send_within_a_second<F, W>(
    by_header: bool,
    layer: &IdempotencyLayer<HttpDialect>,
    handler: &Handler<F>,
) -> super::Read
where
    F: Fn(u32, Option<Held>) -> W + Clone + Send + 'static,
    W: Future<Output = Response<String>> + Send + 'static,
{
    let sent = async {
        if by_header {
            return send(layer, handler, within_a_second()).await;
        }
        Deadline::within(SECOND).scope(send(layer, handler, this_charge())).await
    };
    timeout(SECOND + SECOND / 10, sent).await.expect("no longer than the request's own deadline")
}

#[tokio::test(start_paused = true)]
async fn a_claim_and_a_handler_are_over_at_the_requests_own_deadline() {
    for by_header in [true, false] {
        let silent = Semel::default_node(&[Mood::Silent]);
        let handler = Handler::new(created);
        let refused = send_within_a_second(by_header, &layer(&silent), &handler).await;
        refused.assert_problem(503, "SEMEL_UNREACHABLE");
        assert_eq!(handler.runs(), 0);

        let node = Semel::default_node(&[]);
        let endless = Handler::new(async |_, _| std::future::pending().await);
        let late = send_within_a_second(by_header, &layer(&node), &endless).await;
        late.assert_problem(504, "OUTCOME_UNKNOWN");
        assert_eq!(node.semel().key("order-1").outcome, Some(Outcome::Indeterminate));
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_for_another_is_over_at_the_requests_own_deadline() {
    for by_header in [true, false] {
        let node = Semel::default_node(&[]);
        let slow = Handler::new(async |number, _| {
            sleep(10 * SECOND).await;
            answer(201, number)
        });
        let layer = layer(&node).wait(20 * SECOND);
        let second = async {
            sleep(SECOND).await;
            send_within_a_second(by_header, &layer, &slow).await
        };
        let (first, second) = tokio::join!(send(&layer, &slow, this_charge()), second);
        assert_eq!(first.status, 201);
        second.assert_problem(503, "SEMEL_UNREACHABLE");
        assert_eq!(slow.runs(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_done_in_time_is_completed_also_after_the_deadline() {
    let away = Mood::Refuse(Status::unavailable("connection refused"));
    let node = Semel::default_node(&[Mood::Answer, away]);
    let handler = Handler::new(async |number, _| {
        sleep(SECOND * 9 / 10).await;
        answer(201, number)
    });
    let outage = async {
        sleep(4 * SECOND).await;
        node.set(Mood::Answer);
    };
    let layer = layer(&node).lease(10 * SECOND);
    let (answered, ()) = tokio::join!(send(&layer, &handler, within_a_second()), outage);
    assert_eq!(answered.status, 201);
    assert_eq!(node.semel().key("order-1").outcome, Some(Outcome::Succeeded));
}

#[tokio::test(start_paused = true)]
async fn a_request_without_time_is_turned_away_and_never_goes_without_its_key() {
    let node = Semel::default_node(&[]);
    let layer = layer(&node).unkeyed_without_semel();
    let handler = Handler::new(created);
    let mut late = this_charge();
    late.headers_mut().insert("x-deadline-ms", 0.into());
    send(&layer, &handler, late).await.assert_problem(504, "DEADLINE_PAST");
    assert!(node.calls().is_empty());
    assert_eq!(handler.runs(), 0);
}

/// What a handler saw: what was left of its deadline, its root, and how much it matters.
type Seen = Arc<Mutex<Option<(Option<Duration>, Option<Root>, Option<Criticality>)>>>;

fn looking(
    seen: Seen,
) -> impl Fn(u32, Option<Held>) -> futures::future::Ready<Response<String>> + Clone {
    move |number, _| {
        let left = Deadline::current().map(Deadline::left);
        *seen.lock().unwrap() = Some((left, Root::current(), Criticality::current()));
        futures::future::ready(answer(201, number))
    }
}

#[tokio::test(start_paused = true)]
async fn the_handler_sees_its_deadline_the_root_and_how_much_it_matters_in_tasks_too() {
    for (in_task, left) in [(false, SECOND), (true, 60 * SECOND)] {
        let node = Semel::default_node(&[]);
        let layer = layer(&node);
        let layer = if in_task { layer.to_the_end(TaskTracker::new(), 1) } else { layer };
        let seen = Seen::default();
        let handler = Handler::new(looking(Arc::clone(&seen)));
        let root = Root::new("root-1", 3);
        let sent = send(&layer, &handler, within_a_second());
        let sent = Criticality::High.scope(root.clone().scope(sent));
        assert_eq!(sent.await.status, 201);
        let (saw, its_root, matters) = seen.lock().unwrap().take().unwrap();
        assert_eq!(saw, Some(left), "in a task: {in_task}");
        assert_eq!(matters, Some(Criticality::High), "in a task: {in_task}");
        its_root.expect("there is one").cap(1);
        assert_eq!(root.left(), 1, "it is the same");
    }
}

#[tokio::test(start_paused = true)]
async fn in_tasks_an_impatient_caller_is_told_to_come_again_and_the_handler_goes_on() {
    let node = Semel::default_node(&[]);
    let tracker = TaskTracker::new();
    let layer = layer(&node).to_the_end(tracker.clone(), 1);
    let handler = Handler::new(async |number, _| {
        sleep(3 * SECOND).await;
        answer(201, number)
    });
    let sent = send(&layer, &handler, within_a_second());
    let told = timeout(SECOND + SECOND / 10, sent).await.expect("at its own deadline");
    told.assert_problem(409, "IN_PROGRESS");
    tracker.close();
    tracker.wait().await;
    assert!(send(&layer, &handler, this_charge()).await.is_replayed());
    assert_eq!(handler.runs(), 1);
}
