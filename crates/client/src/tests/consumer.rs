//! Events that are delivered more than once, to consumers that are lost.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tonic::Status;

use super::semel::{Mood, Node, Semel, client, over, process};
use crate::connection::{Client, Reason};
use crate::consumer::{Consumed, Consumer, Event};
use crate::deadline::Deadline;
use crate::fingerprint::Intent;
use crate::keys::{Disposition, Response, Work};
use crate::once::{Outcome, Record, Unknown};
use crate::root::Root;

const LEASE: Duration = Duration::from_secs(3);

/// How often each event had its effect.
type Effects = Arc<Mutex<BTreeMap<String, u32>>>;

fn event(number: u32) -> Event<u32> {
    let key = format!("e{number}");
    Event { fingerprint: Intent::new("apply", "").bytes(key.as_bytes()), key, payload: number }
}

fn consumer(node: &Node, number: u8) -> Consumer {
    process([node], number).consumer("apply").lease(LEASE)
}

fn soon() -> Deadline {
    Deadline::within(Duration::from_secs(60))
}

fn done(number: u32) -> Work {
    Work::Succeeded(Response::new(200, format!("effect of {number}")))
}

fn acknowledged<T>(consumed: &[Consumed<T>]) -> usize {
    consumed.iter().filter(|event| event.may_acknowledge()).count()
}

#[tokio::test(start_paused = true)]
async fn a_delivery_is_claimed_in_one_call_and_each_event_has_its_effect_once() {
    let node = Semel::default_node(&[]);
    let effects = Effects::default();
    let apply = async |_, number: &u32| {
        *effects.lock().unwrap().entry(format!("e{number}")).or_default() += 1;
        done(*number)
    };
    for round in 0..3 {
        let events = (0..100).map(event).collect();
        let consumed = consumer(&node, round).consume(events, soon(), apply).await.unwrap();
        assert_eq!(acknowledged(&consumed), 100);
        let order: Vec<u32> = consumed.iter().map(|event| event.payload).collect();
        assert!(order.is_sorted());
        assert!(consumed.iter().all(|event| matches!(
            (round, event.outcome.as_ref().unwrap()),
            (0, Outcome::Ran { .. }) | (1.., Outcome::Replayed(_))
        )));
    }
    let effects = effects.lock().unwrap();
    assert_eq!(effects.len(), 100);
    assert!(effects.values().all(|count| *count == 1));
    let claims = node.calls().iter().filter(|call| **call == "claim_keys").count();
    assert_eq!(claims, 3);
    let completions = node.calls().iter().filter(|call| **call == "complete_keys").count();
    assert!(completions <= 10, "they go out in batches: {completions}");
}

#[tokio::test(start_paused = true)]
async fn the_leases_of_those_that_wait_their_turn_are_kept() {
    let node = Semel::default_node(&[]);
    let consumer = consumer(&node, 1).concurrency(2);
    let (running, most) = (AtomicU32::new(0), AtomicU32::new(0));
    let consumed = consumer.consume((0..8).map(event).collect(), soon(), async |claim, number| {
        assert!(!claim.is_lease_lost());
        most.fetch_max(running.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        sleep(Duration::from_secs(5)).await;
        running.fetch_sub(1, Ordering::Relaxed);
        done(*number)
    });
    assert_eq!(acknowledged(&consumed.await.unwrap()), 8, "four times 5 s under leases of 3 s");
    assert_eq!(most.into_inner(), 2);
}

#[tokio::test(start_paused = true)]
async fn no_batch_of_completions_is_larger_than_a_node_takes() {
    let node = Semel::default_node(&[]);
    let body = vec![7; 600 * 1024];
    let consumer = consumer(&node, 1);
    let consumed = consumer.consume((0..8).map(event).collect(), soon(), async |_, _| {
        Work::Succeeded(Response::new(200, body.clone()))
    });
    assert_eq!(acknowledged(&consumed.await.unwrap()), 8);
    let completions = node.calls().iter().filter(|call| **call == "complete_keys").count();
    assert_eq!(completions, 4, "two of them are more than 1 MiB");
}

#[tokio::test(start_paused = true)]
async fn every_event_comes_back_with_what_became_of_it() {
    let node = Semel::default_node(&[]);
    let handled = async |_: crate::once::Held, number: &u32| match number {
        0 => done(0),
        1 => Work::FailedFinal(Response::new(422, "no such order")),
        2 => Work::NotDone,
        3 => Work::Unknown,
        _ => std::future::pending().await,
    };
    let mut events: Vec<_> = (0..5).map(event).collect();
    events.push(event(0));
    let foreign = Event { fingerprint: Intent::new("apply", "").bytes(b"other"), ..event(1) };
    events.push(foreign);
    let deadline = Deadline::within(Duration::from_secs(2));
    let consumed = consumer(&node, 1).consume(events, deadline, handled).await.unwrap();
    let outcome = |place: usize| consumed[place].outcome.as_ref().unwrap();
    assert!(matches!(outcome(0), Outcome::Ran { work: Work::Succeeded(_), .. }));
    assert!(matches!(outcome(1), Outcome::Ran { work: Work::FailedFinal(_), .. }));
    assert!(matches!(outcome(2), Outcome::Ran { work: Work::NotDone, .. }));
    assert_eq!(*outcome(3), Outcome::Unknown(Unknown::WorkSaidSo));
    assert_eq!(*outcome(4), Outcome::Unknown(Unknown::DeadlinePassed));
    assert!(matches!(outcome(5), Outcome::InProgress { .. }), "twice in one delivery");
    let refused = consumed[6].outcome.as_ref().unwrap_err();
    assert_eq!(refused.reason(), Some(&Reason::KeyPayloadMismatch));
    let settled: Vec<bool> = consumed.iter().map(Consumed::may_acknowledge).collect();
    assert_eq!(settled, [true, true, false, false, false, false, false]);
}

#[tokio::test(start_paused = true)]
async fn what_a_lost_consumer_had_is_looked_at_by_the_next_and_nothing_is_done_twice() {
    let node = Semel::default_node(&[]);
    let effects = Effects::default();
    let apply = |effects: &Effects, key: &str| {
        *effects.lock().unwrap().entry(key.to_owned()).or_default() += 1;
    };
    let first = consumer(&node, 1);
    // It is lost after the effects of the first two, and before their completion.
    let lost = first.consume((0..4).map(event).collect(), soon(), async |_, number| {
        if *number < 2 {
            apply(&effects, &format!("e{number}"));
        }
        std::future::pending().await
    });
    assert!(timeout(Duration::from_secs(1), lost).await.is_err());
    sleep(LEASE).await;
    let next = consumer(&node, 2);
    let consumed = next.consume((0..4).map(event).collect(), soon(), async |claim, number| {
        assert_eq!(claim.disposition(), Disposition::ReconcileRequired);
        let key = format!("e{number}");
        if !effects.lock().unwrap().contains_key(&key) {
            apply(&effects, &key);
        }
        done(*number)
    });
    assert_eq!(acknowledged(&consumed.await.unwrap()), 4);
    assert!(effects.lock().unwrap().values().all(|count| *count == 1));
    assert_eq!(effects.lock().unwrap().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_to_a_batch_of_completions_changes_nothing() {
    let node = Semel::default_node(&[Mood::Answer, Mood::LoseReply, Mood::Answer]);
    let consumer = consumer(&node, 1);
    let events = (0..3).map(event).collect();
    let consumed = consumer.consume(events, soon(), async |_, number| done(*number));
    assert_eq!(acknowledged(&consumed.await.unwrap()), 3);
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_completed_is_not_acknowledged_and_comes_again() {
    let node = Semel::default_node(&[Mood::Answer, Mood::Refuse(Status::unavailable("away"))]);
    let deadline = Deadline::within(Duration::from_secs(1));
    let consumer = consumer(&node, 1);
    let consumed = consumer.consume(vec![event(0)], deadline, async |_, _| done(0));
    let consumed = timeout(Duration::from_secs(10), consumed).await.expect("bounded").unwrap();
    let outcome = consumed[0].outcome.as_ref().unwrap();
    assert!(matches!(outcome, Outcome::Ran { record: Record::Unconfirmed(_), .. }), "{outcome:?}");
    assert!(!consumed[0].may_acknowledge());
}

#[tokio::test(start_paused = true)]
async fn items_that_the_store_gave_no_answer_to_are_sent_again_with_the_same_ids() {
    let node = Semel::default_node(&[]);
    *node.undecided.lock().unwrap() = 2;
    let consumer = consumer(&node, 1);
    let consumed = consumer.consume((0..3).map(event).collect(), soon(), async |_, number| {
        *node.undecided.lock().unwrap() = 2;
        done(*number)
    });
    assert_eq!(acknowledged(&consumed.await.unwrap()), 3);
    let count = |name| node.calls().iter().filter(|call| **call == name).count();
    assert_eq!((count("claim_keys"), count("complete_keys")), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn what_could_not_begin_before_the_deadline_is_given_back() {
    let node = Semel::default_node(&[]);
    let first = consumer(&node, 1).concurrency(1);
    let deadline = Deadline::within(Duration::from_secs(5));
    let hang = async |_: crate::once::Held, _: &u32| std::future::pending().await;
    let consumed = first.consume((0..3).map(event).collect(), deadline, hang).await.unwrap();
    let outcomes: Vec<_> = consumed.iter().map(|one| one.outcome.as_ref().unwrap()).collect();
    let unknown = |outcome: &&&Outcome| ***outcome == Outcome::Unknown(Unknown::DeadlinePassed);
    assert_eq!(outcomes.iter().filter(unknown).count(), 1, "one had begun: {outcomes:?}");
    let given_back = (0..3).filter(|number| node.semel().key(&format!("e{number}")).is_released);
    assert_eq!(given_back.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn no_handler_begins_on_a_lease_that_ran_out_before_the_claim_came() {
    let node = Semel::default_node(&[Mood::Slow(LEASE + Duration::from_secs(1)), Mood::Answer]);
    let builder = Client::builder("acme", [""; 0]).patience(Duration::from_secs(10));
    let consumer = over(builder, [&node]).consumer("apply").lease(LEASE);
    let consumed = consumer.consume(vec![event(0)], soon(), async |claim, number| {
        assert!(!claim.is_lease_lost());
        sleep(LEASE).await;
        done(*number)
    });
    assert_eq!(acknowledged(&consumed.await.unwrap()), 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_calls_sees_its_deadline_and_its_root() {
    let node = Semel::default_node(&[]);
    let (consumer, two) = (consumer(&node, 1), Duration::from_secs(2));
    let consumed = consumer.consume(vec![event(0)], soon(), async |_, number| {
        assert_eq!(Deadline::current().map(Deadline::left), Some(two));
        assert_eq!(Root::current().unwrap().left(), 3);
        sleep(Duration::from_secs(5)).await;
        done(*number)
    });
    let around = Deadline::within(two).scope(Root::new("root-1", 3).scope(consumed));
    let outcome = around.await.unwrap().remove(0).outcome.unwrap();
    assert_eq!(outcome, Outcome::Unknown(Unknown::DeadlinePassed), "no later than all around it");
    let consumed = consumer.consume(vec![event(1)], soon(), async |_, number| {
        assert_eq!(Deadline::current().map(Deadline::left), Some(Duration::from_secs(60)));
        done(*number)
    });
    assert_eq!(acknowledged(&consumed.await.unwrap()), 1);
}

#[tokio::test(start_paused = true)]
async fn the_events_of_a_delivery_that_was_refused_as_a_whole_come_back() {
    let node = Semel::default_node(&[Mood::Refuse(Status::permission_denied("no"))]);
    let events = (0..3).map(event).collect();
    let handled = async |_, number: &u32| done(*number);
    let unhandled = consumer(&node, 1).consume(events, soon(), handled).await.unwrap_err();
    let payloads: Vec<u32> = unhandled.events.iter().map(|event| event.payload).collect();
    assert_eq!(payloads, [0, 1, 2]);
    let reason = Reason::Unknown("PERMISSION_DENIED".to_owned());
    assert_eq!(unhandled.error.reason(), Some(&reason));
    assert!(unhandled.to_string().starts_with("none of 3 events was handled: "), "{unhandled}");
    assert!(!format!("{unhandled:?}").contains("payload"));
}

#[tokio::test]
async fn consuming_can_be_a_task_of_its_own() {
    let node = Semel::default_node(&[]);
    let consumer = client([&node]).consumer("apply");
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move {
        let events = vec![event(0)];
        consumer.consume(events, soon(), async |_, number: &u32| done(*number)).await
    });
    assert_eq!(acknowledged(&tasks.join_next().await.unwrap().unwrap().unwrap()), 1);
}
