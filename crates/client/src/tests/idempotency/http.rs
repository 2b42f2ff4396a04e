//! What a caller of HTTP sees.

use std::time::Duration;

use ::http::header::LOCATION;
use ::http::{Request, Response};
use bytes::Bytes;
use http_body_util::Full;
use tokio::time::sleep;
use tonic::Status;

use super::super::semel::{Mood, Semel};
use super::{Handler, answer, charge, layer, send, this_charge};
use crate::keys::Disposition;
use crate::layers::idempotency::Verdict;
use crate::once::Held;

async fn created(number: u32, _: Option<Held>) -> Response<String> {
    answer(201, number)
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_replayed_byte_for_byte() {
    let node = Semel::default_node(&[]);
    let layer = layer(&node);
    let handler = Handler::new(async |number, held: Option<Held>| {
        let held = held.expect("the handler has the claim");
        assert_eq!(held.disposition(), Disposition::Claimed);
        Response::builder()
            .status(201)
            .header("content-type", "application/json")
            .header("location", format!("/charges/{number}"))
            .header("x-served-by", "node-3")
            .body(format!(r#"{{"id":{number},"fence":{}}}"#, held.fence()))
            .unwrap()
    });
    let first = send(&layer, &handler, this_charge()).await;
    assert_eq!(first.status, 201);
    assert!(!first.is_replayed());
    assert_eq!(first.headers["x-served-by"], "node-3");
    for _ in 0..3 {
        // Written otherwise, and the same all the same.
        let again = charge(Some(r#""order-1""#), r#"{ "amount": 1.0 }"#);
        let again = send(&layer, &handler, again).await;
        assert!(again.is_replayed());
        assert_eq!((again.status, &again.body), (first.status, &first.body));
        assert_eq!(again.headers["content-type"], "application/json");
        assert_eq!(again.headers[LOCATION], "/charges/1");
        assert!(!again.headers.contains_key("x-served-by"));
    }
    assert_eq!(handler.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_the_draft_refuses_is_refused() {
    let node = Semel::default_node(&[]);
    let layer = layer(&node).request_max_bytes(100).dialect(|http| http.documentation("https://d"));
    let handler = Handler::new(created);
    send(&layer, &handler, this_charge()).await;
    let long = "x".repeat(101);
    for (request, status, reason) in [
        (charge(None, "{}"), 400, "KEY_MISSING"),
        (charge(Some(r#""""#), "{}"), 400, "KEY_INVALID"),
        (charge(Some("bare"), "{}"), 400, "KEY_INVALID"),
        (charge(Some(r#""long""#), &long), 413, "BODY_TOO_LARGE"),
        (charge(Some(r#""order-1""#), r#"{"amount": 2}"#), 422, "KEY_PAYLOAD_MISMATCH"),
    ] {
        let refused = send(&layer, &handler, request).await;
        refused.assert_problem(status, reason);
        assert_eq!(refused.headers["link"], r#"<https://d>; rel="describedby""#);
    }
    assert_eq!(handler.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_none_of_its_business_goes_through_untouched() {
    let node = Semel::default_node(&[]);
    let handler = Handler::new(async |number, held: Option<Held>| {
        assert!(held.is_none());
        answer(200, number)
    });
    let get = || Request::get("/charges").body(Full::new(Bytes::new())).unwrap();
    let (strict, optional) = (layer(&node), layer(&node).key_optional());
    assert_eq!(send(&strict, &handler, get()).await.body, "run 1");
    assert_eq!(send(&optional, &handler, charge(None, "{}")).await.body, "run 2");
    assert!(node.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_handler_says_what_became_of_its_work() {
    // The first answer, what it says of itself, and what the next attempt gets: a run, a replay or a problem.
    for (status, said, runs, next) in [
        (402, None, 1, 402),
        (404, None, 1, 404),
        (303, None, 1, 303),
        (429, None, 2, 200),
        (401, None, 2, 200),
        (500, None, 1, 409),
        (503, None, 1, 409),
        (408, None, 1, 409),
        (503, Some(Verdict::NotDone), 2, 200),
        (500, Some(Verdict::FailedFinal), 1, 500),
        (200, Some(Verdict::Unknown), 1, 409),
    ] {
        let node = Semel::default_node(&[]);
        let layer = layer(&node);
        let handler = Handler::new(move |number, _| async move {
            let mut answer = answer(if number == 1 { status } else { 200 }, number);
            if let Some(said) = said {
                answer.extensions_mut().insert(said);
            }
            answer
        });
        let first = send(&layer, &handler, this_charge()).await;
        assert_eq!((first.status.as_u16(), &first.body[..]), (status, &b"run 1"[..]));
        let second = send(&layer, &handler, this_charge()).await;
        assert_eq!(second.status, next, "{status} {said:?}");
        assert_eq!(handler.runs(), runs, "{status} {said:?}");
        if next == 409 {
            second.assert_problem(409, "OUTCOME_UNKNOWN");
        } else {
            assert_eq!(second.is_replayed(), runs == 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_meanwhile_is_told_to_come_again_or_waits() {
    let node = Semel::default_node(&[]);
    let layer = layer(&node);
    let waiting = layer.clone().wait(Duration::from_secs(10));
    let handler = Handler::new(async |number, _| {
        sleep(Duration::from_millis(1_500)).await;
        answer(201, number)
    });
    let meanwhile = async {
        sleep(Duration::from_millis(500)).await;
        let early = send(&layer, &handler, this_charge()).await;
        early.assert_problem(409, "IN_PROGRESS");
        assert_eq!(early.headers["retry-after"], "1");
        // Another intent under the same key is never told to come again.
        let other = charge(Some(r#""order-1""#), r#"{"amount": 2}"#);
        send(&layer, &handler, other).await.assert_problem(422, "KEY_PAYLOAD_MISMATCH");
        send(&waiting, &handler, this_charge()).await
    };
    let (first, waited) = tokio::join!(send(&layer, &handler, this_charge()), meanwhile);
    assert_eq!(first.body, waited.body);
    assert!(waited.is_replayed() && !first.is_replayed());
    assert_eq!(handler.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn equal_keys_of_two_callers_do_not_meet_and_tenants_are_chosen_by_request() {
    let node = Semel::default_node(&[]);
    let named = |name: &'static str| {
        move |parts: &::http::request::Parts| parts.headers[name].to_str().unwrap().to_owned()
    };
    let layer = layer(&node).caller_by(named("x-user")).tenant_by(named("x-tenant"));
    let handler = Handler::new(async |_, held: Option<Held>| {
        let name = held.unwrap().claim().name.clone();
        Response::new(format!("{} {}", name.tenant(), name.key()))
    });
    let by = |user: &'static str| {
        let mut request = this_charge();
        request.headers_mut().insert("x-user", user.parse().unwrap());
        request.headers_mut().insert("x-tenant", "globex".parse().unwrap());
        request
    };
    let (alice, bob) =
        (send(&layer, &handler, by("alice")).await, send(&layer, &handler, by("bob")).await);
    assert!(alice.body.starts_with(b"globex ") && alice.body.ends_with(b":order-1"));
    assert_ne!(alice.body, bob.body);
    assert_eq!(send(&layer, &handler, by("alice")).await.body, alice.body);
    assert_eq!(handler.runs(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_too_long_reaches_the_first_caller_and_is_never_cut() {
    let node = Semel::default_node(&[]);
    let layer = layer(&node).answer_max_bytes(10);
    let handler = Handler::new(async |_, _| Response::new("0123456789a".to_owned()));
    let first = send(&layer, &handler, this_charge()).await;
    assert_eq!(first.body, "0123456789a");
    send(&layer, &handler, this_charge()).await.assert_problem(410, "ANSWER_OMITTED");
    assert_eq!(handler.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn without_semel_requests_are_refused_soon_unless_that_is_given_up() {
    let node = Semel::default_node(&[Mood::Refuse(Status::unavailable("connection refused"))]);
    let handler = Handler::new(created);
    let began = crate::Deadline::within(Duration::from_secs(6));
    let refused = send(&layer(&node), &handler, this_charge()).await;
    refused.assert_problem(503, "SEMEL_UNREACHABLE");
    assert_eq!(refused.headers["retry-after"], "1");
    assert!(!began.is_past(), "the handler's whole minute was waited for");
    assert_eq!(handler.runs(), 0);
    let open = layer(&node).unkeyed_without_semel();
    assert_eq!(send(&open, &handler, this_charge()).await.status, 201);
    assert_eq!(handler.runs(), 1);
}
