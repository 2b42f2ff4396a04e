//! Work that is to happen once, against everything that can come between.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::FutureExt;
use semel_proto::v1::Outcome as Stored;
use tokio::time::{sleep, timeout};
use tonic::{Code, Status};

use super::semel::{Mood, Node, Semel, client, process, refusal};
use crate::connection::Reason;
use crate::deadline::Deadline;
use crate::fingerprint::Intent;
use crate::keys::{Disposition, OnOwnerLost, Response, Work};
use crate::metrics::measured::Measured;
use crate::once::{CheckpointError, LeaseLoss, Once, Outcome, Record, Unknown};
use crate::root::Root;

const LEASE: Duration = Duration::from_secs(3);

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn once(node: &Node) -> Once {
    let print = Intent::new("charge", "a").bytes(b"1");
    let once = client([node]).once("charge", "k").fingerprint(print);
    once.lease(LEASE).deadline(Deadline::within(secs(60)))
}

/// Another process: its owner ids are others.
fn another(node: &Node) -> Once {
    let client = process([node], 2);
    let print = Intent::new("charge", "a").bytes(b"1");
    client.once("charge", "k").fingerprint(print).lease(LEASE)
}

fn done() -> Work {
    Work::Succeeded(Response::new(200, "charged"))
}

fn is_stored(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Ran { record: Record::Stored(_), .. })
}

#[tokio::test(start_paused = true)]
async fn work_runs_once_and_is_replayed_to_whoever_asks_again() {
    let node = Semel::default_node(&[]);
    let runs = AtomicU32::new(0);
    let charge = async || {
        runs.fetch_add(1, Ordering::Relaxed);
        done()
    };
    let first = once(&node).run(async |_| charge().await).await.unwrap();
    assert!(is_stored(&first), "{first:?}");
    for _ in 0..3 {
        let again = another(&node).run(async |_| charge().await).await.unwrap();
        assert!(matches!(again, Outcome::Replayed(_)), "{again:?}");
        assert_eq!(again.response(), first.response());
    }
    assert_eq!(runs.into_inner(), 1);
}

#[tokio::test(start_paused = true)]
async fn failing_for_good_is_an_answer_too() {
    let node = Semel::default_node(&[]);
    let declined = Work::FailedFinal(Response::new(402, "declined"));
    let first = once(&node).run(async |_| declined.clone()).await.unwrap();
    assert_eq!(first.response(), Some(&Response::new(402, "declined")));
    match another(&node).run(async |_| panic!("it is settled")).await.unwrap() {
        Outcome::Replayed(answer) => assert!(answer.failed),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_to_the_claim_or_the_completion_changes_nothing() {
    for lost in [Mood::LoseReply, Mood::FallSilent] {
        let node = Semel::default_node(&[lost.clone(), Mood::Answer, lost, Mood::Answer]);
        let runs = AtomicU32::new(0);
        let outcome = once(&node).run(async |held| {
            assert!(held.claim().resumed);
            runs.fetch_add(1, Ordering::Relaxed);
            done()
        });
        assert!(is_stored(&outcome.await.unwrap()));
        assert_eq!(runs.into_inner(), 1);
        assert_eq!(node.calls(), ["claim", "claim", "complete", "complete"]);
    }
}

#[tokio::test(start_paused = true)]
async fn renewing_keeps_the_lease_while_work_takes_many_of_them() {
    let node = Semel::default_node(&[]);
    let watched = async {
        for _ in 0..199 {
            sleep(Duration::from_millis(100)).await;
            assert!(node.semel().key("k").is_live);
        }
    };
    let work = once(&node).run(async |held| {
        sleep(secs(20)).await;
        assert!(held.lease_left() >= LEASE / 2);
        done()
    });
    let (outcome, ()) = tokio::join!(work, watched);
    assert!(is_stored(&outcome.unwrap()));
    // One a second, at each third of the lease.
    let renewals = node.semel().key("k").renewals;
    assert!((18..=20).contains(&renewals.len()), "{renewals:?}");
    assert!(renewals.is_sorted());
}

#[tokio::test(start_paused = true)]
async fn an_outage_shorter_than_the_lease_costs_nothing() {
    let node = Semel::default_node(&[]);
    let outage = async {
        sleep(Duration::from_millis(900)).await;
        node.set(Mood::Refuse(Status::unavailable("connection refused")));
        sleep(Duration::from_millis(1_500)).await;
        node.set(Mood::Answer);
    };
    let work = once(&node).run(async |held| {
        sleep(secs(10)).await;
        assert!(!held.is_lease_lost());
        done()
    });
    let (outcome, ()) = tokio::join!(work, outage);
    assert!(is_stored(&outcome.unwrap()));
}

#[tokio::test(start_paused = true)]
async fn work_whose_lease_was_taken_over_is_dropped() {
    let node = Semel::default_node(&[]);
    let ended = AtomicU32::new(0);
    let work = once(&node).run(async |_| {
        node.semel().take_over("k");
        sleep(secs(30)).await;
        ended.fetch_add(1, Ordering::Relaxed);
        done()
    });
    let outcome = timeout(secs(2), work).await.expect("the next renewal shows it").unwrap();
    assert_eq!(outcome, Outcome::Unknown(Unknown::LeaseLost));
    assert_eq!(ended.into_inner(), 0);
    assert_eq!(node.semel().key("k").outcome, None);
}

#[tokio::test(start_paused = true)]
async fn work_that_may_end_sees_the_loss_and_its_completion_is_fenced() {
    let node = Semel::default_node(&[]);
    let work = once(&node).on_lease_lost(LeaseLoss::LetEnd).run(async |held| {
        node.semel().take_over("k");
        held.lease_lost().await;
        sleep(secs(10)).await;
        assert_eq!(held.save_checkpoint("late").await, Err(CheckpointError::LeaseLost));
        done()
    });
    match work.await.unwrap() {
        Outcome::Ran { work, record: Record::Refused(error) } => {
            assert_eq!(work, done());
            assert_eq!(error.reason(), Some(&Reason::Fenced));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(node.semel().key("k").outcome, None);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_not_confirmed_is_lost_by_the_local_clock() {
    for silence in [Mood::Silent, Mood::Refuse(Status::unavailable("connection refused"))] {
        let node = Semel::default_node(&[Mood::Answer, silence]);
        let work = once(&node).run(async |held| {
            held.lease_lost().await;
            panic!("the work was to be dropped");
        });
        let outcome = timeout(LEASE, work).await.expect("not later than the node has it");
        assert_eq!(outcome.unwrap(), Outcome::Unknown(Unknown::LeaseLost));
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_goes_on_after_a_lapse_is_stored_if_nobody_took_over() {
    let node = Semel::default_node(&[Mood::Answer, Mood::Silent]);
    let work = once(&node).on_lease_lost(LeaseLoss::LetEnd).run(async |held| {
        held.lease_lost().await;
        node.set(Mood::Answer);
        done()
    });
    assert!(is_stored(&work.await.unwrap()));
}

#[tokio::test(start_paused = true)]
async fn work_that_is_not_over_at_the_deadline_is_unknown_and_never_released() {
    let node = Semel::default_node(&[]);
    let work = once(&node).deadline(Deadline::within(secs(1))).run(async |_| {
        sleep(secs(30)).await;
        done()
    });
    assert_eq!(work.await.unwrap(), Outcome::Unknown(Unknown::DeadlinePassed));
    let key = node.semel().key("k");
    assert_eq!(key.outcome, Some(Stored::Indeterminate));
    assert!(!key.is_released);
    let reconciled = another(&node).run(async |held| {
        assert_eq!(held.disposition(), Disposition::ReconcileRequired);
        done()
    });
    assert!(is_stored(&reconciled.await.unwrap()));
}

#[tokio::test(start_paused = true)]
async fn work_may_say_that_it_does_not_know_or_that_nothing_was_done() {
    let node = Semel::default_node(&[]);
    let not_done = once(&node).run(async |_| Work::NotDone).await.unwrap();
    assert!(is_stored(&not_done));
    assert!(node.semel().key("k").is_released);
    let unknown = another(&node).run(async |held| {
        assert_eq!(held.disposition(), Disposition::Claimed);
        Work::Unknown
    });
    assert_eq!(unknown.await.unwrap(), Outcome::Unknown(Unknown::WorkSaidSo));
    assert_eq!(node.semel().key("k").outcome, Some(Stored::Indeterminate));
}

#[tokio::test(start_paused = true)]
async fn after_a_panic_or_a_dropped_future_the_lease_lapses() {
    for dropped in [false, true] {
        let node = Semel::default_node(&[]);
        let work = once(&node).run(async |_| -> Work {
            sleep(secs(1)).await;
            panic!("a bug in the work");
        });
        if dropped {
            assert!(timeout(Duration::from_millis(500), work).await.is_err());
        } else {
            assert!(AssertUnwindSafe(work).catch_unwind().await.is_err());
        }
        assert!(!node.calls().iter().any(|call| *call == "complete" || *call == "release"));
        let waiting = another(&node).wait(secs(10)).run(async |held| {
            assert_eq!(held.disposition(), Disposition::ReconcileRequired);
            done()
        });
        let in_progress = another(&node).run(async |_| panic!("its lease still runs"));
        assert!(matches!(in_progress.await.unwrap(), Outcome::InProgress { .. }));
        sleep(LEASE).await;
        assert!(is_stored(&waiting.await.unwrap()));
    }
}

#[tokio::test(start_paused = true)]
async fn somebody_at_it_is_an_answer_and_with_wait_the_result_comes_as_soon_as_it_is_there() {
    let node = Semel::default_node(&[]);
    let first = once(&node).run(async |_| {
        sleep(secs(5)).await;
        done()
    });
    let others = async {
        sleep(secs(1)).await;
        let busy = another(&node).run(async |_| panic!("somebody is at it")).await.unwrap();
        assert_eq!(busy, Outcome::InProgress { retry_after: secs(1) });
        let replayed = another(&node).wait(secs(10)).run(async |_| panic!("somebody is at it"));
        let soon = Duration::from_millis(4_050);
        assert!(matches!(timeout(soon, replayed).await.unwrap().unwrap(), Outcome::Replayed(_)));
    };
    let (first, ()) = tokio::join!(first, others);
    assert!(is_stored(&first.unwrap()));
}

#[tokio::test(start_paused = true)]
async fn another_intent_under_the_same_key_is_an_error_and_runs_nothing() {
    let node = Semel::default_node(&[]);
    assert!(is_stored(&once(&node).run(async |_| done()).await.unwrap()));
    let print = Intent::new("charge", "another account").bytes(b"1");
    let other = client([&node]).once("charge", "k").fingerprint(print);
    let error = other.run(async |_| panic!("it is another intent")).await.unwrap_err();
    assert_eq!(error.reason(), Some(&Reason::KeyPayloadMismatch));
}

#[tokio::test(start_paused = true)]
async fn that_the_work_ran_is_told_also_when_nobody_can_be_told() {
    let node = Semel::default_node(&[Mood::Answer, Mood::Silent]);
    let once = once(&node).deadline(Deadline::within(Duration::from_millis(500)));
    let outcome = once.completion_grace(secs(2)).run(async |_| done());
    match timeout(secs(3), outcome).await.expect("the grace is bounded").unwrap() {
        Outcome::Ran { work, record: Record::Unconfirmed(error) } => {
            assert_eq!(work, done());
            assert!(error.is_repeatable());
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn completing_outlasts_an_outage() {
    let node = Semel::default_node(&[]);
    let store_away = refusal(Code::Unavailable, "STORE_UNAVAILABLE", Some(secs(1)));
    let outage = async {
        sleep(Duration::from_millis(500)).await;
        node.set(Mood::Refuse(store_away));
        sleep(secs(20)).await;
        node.set(Mood::Answer);
    };
    let work = once(&node).lease(secs(60)).run(async |_| {
        sleep(secs(1)).await;
        done()
    });
    let (outcome, ()) = tokio::join!(work, outage);
    assert!(is_stored(&outcome.unwrap()));
}

#[tokio::test(start_paused = true)]
async fn checkpoints_are_saved_at_once_or_with_the_next_renewal() {
    let node = Semel::default_node(&[]);
    let saved = |node: &Node| node.semel().key("k").checkpoint;
    let work = once(&node).on_owner_lost(OnOwnerLost::TakeOver).run(async |held| {
        held.save_checkpoint("provider answered").await.unwrap();
        assert_eq!(saved(&node), "provider answered");
        held.note_checkpoint("row 10").unwrap();
        held.note_checkpoint("row 20").unwrap();
        assert_eq!(saved(&node), "provider answered");
        sleep(LEASE / 2).await;
        assert_eq!(saved(&node), "row 20");
        let long = vec![0; 64 * 1024 + 1];
        assert_eq!(held.note_checkpoint(long), Err(CheckpointError::TooLarge));
        sleep(LEASE).await;
        assert_eq!(saved(&node), "row 20");
        assert_eq!(node.semel().key("k").checkpoints, 2, "what is saved is not sent again");
        Work::Unknown
    });
    assert_eq!(work.await.unwrap(), Outcome::Unknown(Unknown::WorkSaidSo));
    let next = another(&node).run(async |held| {
        assert_eq!(held.claim().checkpoint.as_deref(), Some(&b"row 20"[..]));
        done()
    });
    assert!(is_stored(&next.await.unwrap()));
}

#[tokio::test(start_paused = true)]
async fn after_a_wait_longer_than_the_lease_work_begins_on_a_confirmed_one() {
    let node = Semel::default_node(&[]);
    let first = once(&node).run(async |_| {
        sleep(secs(8)).await;
        Work::NotDone
    });
    let second = async {
        sleep(Duration::from_millis(100)).await;
        let waiting = another(&node).wait(secs(20)).run(async |held| {
            assert!(held.lease_left() > LEASE / 2, "{:?}", held.lease_left());
            done()
        });
        waiting.await.unwrap()
    };
    let (first, second) = tokio::join!(first, second);
    assert!(is_stored(&first.unwrap()));
    assert!(is_stored(&second));
}

#[tokio::test]
async fn the_whole_can_be_a_task_of_its_own() {
    let node = Semel::default_node(&[]);
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(once(&node).run(move |_| async move {
        counted.fetch_add(1, Ordering::Relaxed);
        done()
    }));
    assert!(is_stored(&tasks.join_next().await.unwrap().unwrap().unwrap()));
    assert_eq!(runs.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn what_the_work_calls_sees_its_deadline_and_its_root() {
    let node = Semel::default_node(&[]);
    let root = Root::new("root-1", 3);
    let left = || Deadline::current().map(Deadline::left);
    // Told to the write, or to all around it: the earlier one is in force.
    for (own, around) in [(secs(7), secs(9)), (secs(9), secs(7))] {
        let work = once(&node).deadline(Deadline::within(own)).run(|_| {
            assert_eq!(left(), Some(secs(7)), "before the work is waited for");
            async {
                assert_eq!((left(), Root::current().unwrap().left()), (Some(secs(7)), 3));
                Work::NotDone
            }
        });
        let scoped = Deadline::within(around).scope(root.clone().scope(work));
        assert!(is_stored(&scoped.await.unwrap()));
    }
}

#[tokio::test(start_paused = true)]
async fn an_earlier_deadline_around_the_write_ends_it_too() {
    let node = Semel::default_node(&[]);
    let work = once(&node).run(async |_| std::future::pending().await);
    let outcome = timeout(secs(2), Deadline::within(secs(1)).scope(work)).await.expect("in time");
    assert_eq!(outcome.unwrap(), Outcome::Unknown(Unknown::DeadlinePassed));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_comes_when_no_time_is_left_is_given_back_if_nobody_began() {
    for began in [false, true] {
        let node = Semel::default_node(&[]);
        if began {
            let lost = another(&node).lease(secs(1)).run(async |_| std::future::pending().await);
            assert!(timeout(Duration::from_millis(100), lost).await.is_err());
            sleep(secs(2)).await;
        }
        node.moods(&[Mood::Slow(secs(1)), Mood::Answer]);
        let late = once(&node).wait(secs(1)).deadline(Deadline::within(secs(1)));
        let outcome = late.run(async |_| panic!("there is no time for it")).await.unwrap();
        let key = node.semel().key("k");
        if began {
            assert_eq!(outcome, Outcome::Unknown(Unknown::DeadlinePassed));
            assert_eq!((key.outcome, key.is_released), (Some(Stored::Indeterminate), false));
        } else {
            assert_eq!(outcome, Outcome::InProgress { retry_after: Duration::ZERO });
            assert!(key.is_released);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_counts_once_and_a_claim_whose_answer_was_lost_has_not_run() {
    let measured = Measured::new();
    let once = |node: &Node| once(node).measured(&measured.metrics());
    let node = Semel::default_node(&[Mood::LoseReply, Mood::Answer]);
    assert!(is_stored(&once(&node).run(async |_| done()).await.unwrap()));
    let lost = Semel::default_node(&[Mood::FallSilent]);
    let unanswered = once(&lost).claim_within(secs(2)).run(async |_| panic!("it is not known"));
    assert!(unanswered.await.unwrap_err().is_repeatable());
    assert!(lost.semel().key("k").is_live, "it was granted");
    let dropped = once(&Semel::default_node(&[])).run(async |_| std::future::pending().await);
    assert!(timeout(secs(1), dropped).await.is_err());
    measured.assert_keys(&[
        ("claim.duration charge claimed", 1),
        ("claim.duration charge resumed", 1),
        ("claim.duration charge unanswered", 1),
        ("completion.duration charge stored", 1),
        ("requests charge dropped", 1),
        ("requests charge ran", 1),
        ("requests charge unavailable", 1),
    ]);
}

#[tokio::test(start_paused = true)]
async fn whoever_still_has_the_claim_of_work_that_is_over_or_was_dropped_is_told_that_it_is_lost() {
    let node = Semel::default_node(&[]);
    let kept = std::sync::Mutex::new(None);
    let keep = |held: crate::once::Held| *kept.lock().unwrap() = Some(held);
    let hangs = once(&node).run(async |held| {
        keep(held);
        std::future::pending().await
    });
    assert!(timeout(secs(1), hangs).await.is_err(), "it is dropped");
    let held = kept.lock().unwrap().take().unwrap();
    assert!(held.is_lease_lost());
    timeout(LEASE, held.lease_lost()).await.expect("it is told");
    assert_eq!(held.save_checkpoint("later").await, Err(CheckpointError::LeaseLost));
}
