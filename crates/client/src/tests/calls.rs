//! Single calls and batches, against nodes that are away, silent, shutting down, or lose replies.

use std::time::Duration;

use futures::StreamExt;
use tonic::{Code, Status};

use super::semel::{Mood, Node, Semel, client, over, refusal};
use crate::connection::{Client, Reason};
use crate::deadline::Deadline;
use crate::fingerprint::Intent;
use crate::keys::{Claim, ClaimAnswer, ClaimRequest, Response, Work};

fn request(key: &str) -> ClaimRequest {
    ClaimRequest::new("charge", key).fingerprint(Intent::new("charge", "a").bytes(b"1"))
}

fn soon() -> Deadline {
    Deadline::within(Duration::from_secs(10))
}

fn yours(answer: ClaimAnswer) -> Claim {
    match answer {
        ClaimAnswer::Yours(claim) => *claim,
        other => panic!("{other:?}"),
    }
}

/// How long something takes.
async fn timed<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let day = Duration::from_secs(86_400);
    let end = Deadline::within(day);
    let done = work.await;
    (done, day - end.left())
}

fn calls(nodes: &[Node]) -> usize {
    nodes.iter().map(|node| node.calls().len()).sum()
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_reply_was_lost_is_resumed() {
    let node = Semel::default_node(&[Mood::LoseReply, Mood::Answer]);
    let claim = yours(client([&node]).claim(&request("k"), soon()).await.unwrap());
    assert!(claim.resumed);
    assert_eq!(claim.fence, 100);
    assert_eq!(node.calls(), ["claim", "claim"]);
}

#[tokio::test(start_paused = true)]
async fn a_completion_whose_reply_was_lost_is_recognised() {
    let node = Semel::default_node(&[]);
    let client = client([&node]);
    let claim = yours(client.claim(&request("k"), soon()).await.unwrap());
    let work = Work::Succeeded(Response::new(200, "done"));
    node.moods(&[Mood::LoseReply, Mood::Answer]);
    assert!(client.complete(&claim, &work, soon()).await.unwrap().already);
    match client.claim(&request("k"), soon()).await.unwrap() {
        ClaimAnswer::Done(answer) => {
            assert!(!answer.failed);
            assert_eq!(answer.response, Some(Response::new(200, "done")));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn while_one_node_is_away_the_other_is_asked_and_the_first_left_alone() {
    let semel = std::sync::Arc::new(Semel::default());
    let away = semel.node(&[Mood::Refuse(Status::unavailable("connection refused"))]);
    let nodes = [away.clone(), semel.node(&[])];
    let client = client(&nodes);
    let all = async {
        for number in 0..100 {
            yours(client.claim(&request(&format!("k{number}")), soon()).await.unwrap());
        }
    };
    let ((), took) = timed(all).await;
    assert_eq!(took, Duration::ZERO, "another node is asked at once");
    assert_eq!(away.calls().len(), 1);
    assert_eq!(calls(&nodes), 101);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_back_is_asked_again() {
    let semel = std::sync::Arc::new(Semel::default());
    let away = semel.node(&[Mood::Refuse(Status::unavailable("connection refused"))]);
    let client = client([&away, &semel.node(&[])]);
    for number in 0..400 {
        if number == 200 {
            away.set(Mood::Answer);
        }
        yours(client.claim(&request(&format!("k{number}")), soon()).await.unwrap());
        tokio::time::advance(Duration::from_millis(50)).await;
    }
    // 10 s away, at 50 ms, 100 ms, ... 3 s, and then its share of what came in the time after.
    let asked = away.calls().len();
    assert!((40..150).contains(&asked), "{asked}");
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_costs_a_second_and_no_call() {
    let semel = std::sync::Arc::new(Semel::default());
    for silence in [Mood::Silent, Mood::FallSilent] {
        let nodes = [semel.node(std::slice::from_ref(&silence)), semel.node(&[])];
        let client = client(&nodes);
        let mut worst = Duration::ZERO;
        for number in 0..50 {
            let key = request(&format!("{silence:?}{number}"));
            let (answer, took) = timed(client.claim(&key, soon())).await;
            yours(answer.unwrap());
            worst = worst.max(took);
        }
        assert_eq!(worst, Duration::from_secs(1));
        assert_eq!(nodes[0].calls().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn with_little_time_a_silent_node_gets_half_of_it() {
    let semel = std::sync::Arc::new(Semel::default());
    let nodes = [semel.node(&[Mood::Silent]), semel.node(&[])];
    let client = client(&nodes);
    for number in 0..20 {
        let deadline = Deadline::within(Duration::from_millis(300));
        yours(client.claim(&request(&format!("k{number}")), deadline).await.unwrap());
    }
    assert_eq!(nodes[0].calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_slow_store_is_given_more_time_at_each_attempt() {
    let node = Semel::default_node(&[Mood::Slow(Duration::from_millis(2_500))]);
    let (answer, took) = timed(client([&node]).claim(&request("k"), soon())).await;
    yours(answer.unwrap());
    assert!(took < Duration::from_secs(8), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_names_a_time_is_left_alone_for_it() {
    let later = Duration::from_millis(700);
    let busy = Mood::Refuse(refusal(Code::ResourceExhausted, "OVERLOADED", Some(later)));
    let node = Semel::default_node(&[busy, Mood::Answer]);
    let (answer, took) = timed(client([&node]).claim(&request("k"), soon())).await;
    yours(answer.unwrap());
    assert!((later..later * 2).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_the_deadline_ends_it_and_the_error_says_what_was_met() {
    let node = Semel::default_node(&[Mood::Refuse(Status::unavailable("connection refused"))]);
    let client = client([&node]);
    let deadline = Deadline::within(Duration::from_secs(5));
    let (error, took) = timed(client.claim(&request("k"), deadline)).await;
    let error = error.unwrap_err();
    assert!(took <= Duration::from_secs(5), "{took:?}");
    assert!(error.is_repeatable());
    assert!(error.to_string().contains("connection refused"), "{error}");
    assert!((4..15).contains(&node.calls().len()), "{} attempts in 5 s", node.calls().len());

    node.set(Mood::Refuse(refusal(Code::Unavailable, "STORE_UNAVAILABLE", None)));
    let error = client.claim(&request("k"), Deadline::within(Duration::from_secs(5))).await;
    assert_eq!(error.unwrap_err().reason(), Some(&Reason::StoreUnavailable));
}

#[tokio::test(start_paused = true)]
async fn once_one_call_finds_the_node_back_all_that_wait_go_on() {
    let node = Semel::default_node(&[Mood::Refuse(Status::unavailable("connection refused"))]);
    let client = client([&node]);
    let keys: Vec<ClaimRequest> = (0..20).map(|number| request(&format!("k{number}"))).collect();
    let mut calls: futures::stream::FuturesUnordered<_> =
        keys.iter().map(|key| timed(client.claim(key, soon()))).collect();
    let back = async {
        tokio::time::sleep(Duration::from_millis(2_000)).await;
        node.set(Mood::Answer);
    };
    let all = async {
        let mut took = Vec::new();
        while let Some((answer, time)) = calls.next().await {
            yours(answer.unwrap());
            took.push(time);
        }
        took
    };
    let (took, ()) = tokio::join!(all, back);
    assert_eq!(took.len(), keys.len());
    let (first, last) = (took[0], took[took.len() - 1]);
    assert_eq!(first, last, "the first that is answered wakes the others");
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_for_good_is_not_repeated() {
    let node = Semel::default_node(&[]);
    let client = client([&node]);
    yours(client.claim(&request("k"), soon()).await.unwrap());
    let other =
        ClaimRequest::new("charge", "k").fingerprint(Intent::new("charge", "b").bytes(b"1"));
    let error = client.claim(&other, soon()).await.unwrap_err();
    assert_eq!(error.reason(), Some(&Reason::KeyPayloadMismatch));
    assert!(!error.is_repeatable());
    assert_eq!(node.calls().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_gets_the_time_to_wait_and_then_the_claim() {
    let semel = std::sync::Arc::new(Semel::default());
    let client = client([&semel.node(&[])]);
    let first = yours(client.claim(&request("k"), soon()).await.unwrap());
    let waiting = request("k").wait(Duration::from_secs(8));
    let work = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        client.release(&first, soon()).await.unwrap();
    };
    let ((answer, took), ()) = tokio::join!(timed(client.claim(&waiting, soon())), work);
    assert_eq!(took, Duration::from_secs(5));
    let second = yours(answer.unwrap());
    assert!(second.ends.left() <= second.lease.saturating_sub(took), "counted from the sending");
}

#[tokio::test(start_paused = true)]
async fn what_a_silent_node_took_of_the_wait_is_not_waited_again() {
    let node = Semel::default_node(&[Mood::Answer, Mood::Silent, Mood::Answer]);
    let client = client([&node]);
    yours(client.claim(&request("k"), soon()).await.unwrap());
    let waiting = request("k").wait(Duration::from_secs(4));
    let (answer, took) = timed(client.claim(&waiting, soon())).await;
    assert!(matches!(answer.unwrap(), ClaimAnswer::InProgress { .. }));
    assert!(took < Duration::from_millis(5_500), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn every_attempt_carries_what_is_left_of_the_time_and_the_token() {
    let node = Semel::default_node(&[]);
    let builder = Client::builder("acme", [""; 0]).seed([1; 32]).bearer_token("secret");
    let client = over(builder, [&node]);
    yours(client.claim(&request("k"), Deadline::within(Duration::from_secs(1))).await.unwrap());
    let metadata = node.metadata.lock().unwrap().clone();
    assert_eq!(metadata.get("grpc-timeout").unwrap(), "500000u", "half of it");
    assert_eq!(metadata.get("authorization").unwrap(), "Bearer secret");
    client.clone().set_bearer_token("next").unwrap();
    client.set_bearer_token("mal\nformed").unwrap_err();
    yours(client.claim(&request("k2"), soon()).await.unwrap());
    let metadata = node.metadata.lock().unwrap().clone();
    assert_eq!(metadata.get("authorization").unwrap(), "Bearer next");
}

#[tokio::test(start_paused = true)]
async fn a_batch_has_a_result_for_each_and_a_lost_reply_changes_none() {
    let node = Semel::default_node(&[Mood::LoseReply, Mood::Answer]);
    let client = client([&node]);
    let requests = [request("a"), request("b"), request("a")];
    let results = client.claim_batch(&requests, soon()).await.unwrap();
    let mut results = results.into_iter();
    let (first, second) = (results.next().unwrap().unwrap(), results.next().unwrap().unwrap());
    assert!(matches!(results.next().unwrap().unwrap(), ClaimAnswer::InProgress { .. }));
    let (first, second) = (yours(first), yours(second));
    assert!(first.resumed && second.resumed);
    let stale = Claim { fence: 7, ..first.clone() };
    let done = || Work::Succeeded(Response::default());
    let completions = [(first, done()), (second, Work::NotDone), (stale, done())];
    let results = client.complete_batch(&completions, soon()).await.unwrap();
    assert!(results[0].is_ok() && results[1].is_ok());
    assert_eq!(results[2].as_ref().unwrap_err().reason(), Some(&Reason::Fenced));
}

#[tokio::test(start_paused = true)]
async fn what_a_node_does_not_serve_is_refused_by_its_code() {
    let node = Semel::default_node(&[]);
    let client = client([&node]);
    let replay = crate::keys::ReplayRequest::new("charge", "k");
    let error = client.replay(&replay, soon()).await.unwrap_err();
    assert_eq!(error.reason(), Some(&Reason::Unknown("UNIMPLEMENTED".to_owned())));
}
