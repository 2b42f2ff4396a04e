//! A store that fails in every way it may: the right answer all the same, and one live fence a key.

mod oracle;

use std::time::Duration;

use bytes::Bytes;
use semel_proto::v1;
use semel_store::memory::{Fault, Odds};
use semel_store::{Change, Durability, Space, Store, Transition, Update, ValueChange};
use tokio::task::JoinSet;

use crate::support::*;
use oracle::Oracle;

/// What may become of one commit, and whether it was carried out.
const UNCERTAIN: [Fault; 5] = [
    Fault::Unknown { committed: true },
    Fault::Unknown { committed: false },
    Fault::Crash { lose_relaxed: false },
    Fault::Crash { lose_relaxed: true },
    Fault::Conflict { times: 3 },
];

#[tokio::test]
async fn an_unknown_commit_gives_two_fences_or_none() {
    let node = TestNode::start().await;
    for (number, fault) in UNCERTAIN.into_iter().enumerate() {
        let request = claim(&format!("k{number}"));
        let injected = node.store.faults().injected();
        node.store.faults().script([fault]);
        let granted = node.keys.claim(request.clone()).await.expect("settled");
        assert_eq!(granted.disposition(), Disposition::Claimed, "{fault:?}");
        assert_eq!((granted.attempt, granted.history.len()), (1, 0), "{fault:?}");
        assert_eq!(node.store.faults().injected(), injected + 1);
        let other = node.keys.claim(request.clone().owner(2)).await.expect("answered");
        assert_eq!(other.disposition(), Disposition::InProgress, "{fault:?}");
        let view = node.keys.get(get(&request)).await.expect("there").key.expect("a key");
        assert_eq!((view.fence, view.attempts), (granted.fence, 1), "{fault:?}");
    }
}

#[tokio::test]
async fn an_unknown_takeover_is_made_twice() {
    let (node, clock) = TestNode::manual(|_| {}).await;
    for (number, fault) in UNCERTAIN.into_iter().enumerate() {
        let lost = claim(&format!("k{number}")).lease_ms(1_000);
        let fence = node.keys.claim(lost.clone()).await.expect("granted").fence;
        clock.advance_us(1_000_000);
        node.store.faults().script([fault]);
        let next = node.keys.claim(lost.owner(2)).await.expect("settled");
        assert_eq!(next.disposition(), Disposition::ReconcileRequired, "{fault:?}");
        assert_eq!((next.fence, next.attempt, next.history.len()), (fence + 1, 2, 1), "{fault:?}");
    }
}

#[tokio::test]
async fn an_unknown_completion_renewal_or_release_is_lost_or_refused() {
    let (node, _clock) = TestNode::manual(|_| {}).await;
    for (number, fault) in UNCERTAIN.into_iter().enumerate() {
        let request = claim(&format!("k{number}")).lease_ms(60_000);
        let fence = node.keys.claim(request.clone()).await.expect("granted").fence;
        node.store.faults().script([fault]);
        let renewal =
            v1::RenewKeyRequest { lease: Some(milliseconds(120_000)), ..renew(&request, fence, 1) };
        let renewed = node.keys.renew(renewal).await.expect("settled");
        assert_eq!(time_us(renewed.lease_expires_at), NOON_US + 120_000_000, "{fault:?}");
        assert!(!renewed.stale, "{fault:?}");

        node.store.faults().script([fault]);
        let done = succeed(&request, fence, "x");
        let completed = node.keys.complete(done.clone()).await.expect("settled");
        assert_eq!(completed.state(), v1::KeyState::Succeeded, "{fault:?}");
        assert!(node.keys.complete(done).await.expect("the same").already_completed);

        let other = claim(&format!("r{number}"));
        let fence = node.keys.claim(other.clone()).await.expect("granted").fence;
        node.store.faults().script([fault]);
        node.keys.release(release(&other, fence)).await.expect("settled");
        let next = node.keys.claim(other.owner(2)).await.expect("granted");
        assert_eq!((next.fence, next.attempt), (fence + 1, 2), "{fault:?}");
    }
}

#[tokio::test]
async fn an_unknown_act_of_an_operator_is_lost_or_made_twice() {
    let (node, _clock) = TestNode::manual(|_| {}).await;
    for (number, fault) in UNCERTAIN.into_iter().enumerate() {
        let request = claim(&format!("k{number}"));
        let fence = node.keys.claim(request.clone()).await.expect("granted").fence;
        let unknown = complete(&request, fence, v1::Outcome::Indeterminate);
        node.keys.complete(unknown).await.expect("declared");
        let resolution = v1::reconcile_key_request::Resolution::Succeeded;
        node.store.faults().script([fault]);
        let settled = node.keys.reconcile(reconcile(&request, fence, resolution)).await;
        assert_eq!(settled.expect("settled").state(), v1::KeyState::Succeeded, "{fault:?}");
        node.store.faults().script([fault]);
        node.keys.forget(forget(&request)).await.expect("settled");
        let view = node.keys.get(get(&request)).await.expect("there").key.expect("a key");
        let acts: Vec<&str> = view.audit.iter().map(|act| act.action.as_str()).collect();
        assert_eq!(acts, ["reconcile", "forget"], "{fault:?}");
    }
}

#[tokio::test]
async fn one_crash_answers_a_batch_wrongly() {
    let node = TestNode::start().await;
    let claims: Vec<_> = (0..20).map(|number| claim(&format!("k{number}"))).collect();
    // The first ten are committed, the others not, and of none is it known.
    let mut script = vec![Fault::Pass; 9];
    script.push(Fault::Crash { lose_relaxed: true });
    node.store.faults().script(script);
    // What the crash cut off meets no faults of the script when it is run again.
    node.store.faults().script(vec![Fault::Pass; 10]);
    let reply = node.keys.claim_all(v1::ClaimKeysRequest { claims: claims.clone() }).await;
    let mut completions = Vec::new();
    for (request, result) in claims.iter().zip(reply.expect("answered").results) {
        let Some(v1::claim_key_result::Result::Response(granted)) = result.result else {
            panic!("{result:?}");
        };
        assert_eq!((granted.disposition(), granted.attempt), (Disposition::Claimed, 1));
        completions.push(succeed(request, granted.fence, "x"));
    }
    node.store.faults().script(vec![Fault::Unknown { committed: true }; 20]);
    let reply = node.keys.complete_all(v1::CompleteKeysRequest { completions }).await;
    for result in reply.expect("answered").results {
        let Some(v1::complete_key_result::Result::Response(completed)) = result.result else {
            panic!("{result:?}");
        };
        assert_eq!(completed.state(), v1::KeyState::Succeeded);
    }
}

/// A commit between which and its reply the node's store crashed, while others asked for the key.
#[tokio::test]
async fn a_crash_between_commit_and_reply_loses_the_claim() {
    let node = TestNode::start().await;
    node.store.faults().script([Fault::Hold]);
    let mut held = JoinSet::new();
    let keys = node.keys.clone();
    held.spawn(async move { keys.claim(claim("k").owner(1)).await });
    within(node.store.faults().until_held(1)).await;
    node.store.crash();
    node.store.faults().release();
    let granted = within(held.join_next()).await.expect("one").expect("no panic");
    let granted = granted.expect("settled");
    assert_eq!((granted.disposition(), granted.attempt), (Disposition::Claimed, 1));
    let other = node.keys.claim(claim("k").owner(2)).await.expect("answered");
    assert_eq!(other.disposition(), Disposition::InProgress);
}

/// Fault 7: an id counts as seen before it is durable, and after a crash the honest retry is dropped.
#[tokio::test]
async fn a_claim_that_never_committed_counts() {
    let node = TestNode::start().await;
    node.store.faults().script([Fault::Unknown { committed: false }, Fault::Unavailable]);
    let refused = node.keys.claim(claim("k").owner(1)).await.expect_err("not settled");
    assert_eq!(refused.reason, "STORE_UNAVAILABLE");
    let other = node.keys.claim(claim("k").owner(2)).await.expect("granted");
    assert_eq!((other.disposition(), other.attempt), (Disposition::Claimed, 1));
}

#[tokio::test]
async fn a_store_that_is_down_is_waited_for_or_answered_for() {
    let node = TestNode::start().await;
    let (held, done) = (claim("held"), claim("done"));
    let fence = node.keys.claim(held.clone()).await.expect("granted").fence;
    let done_fence = node.keys.claim(done.clone()).await.expect("granted").fence;
    node.keys.complete(succeed(&done, done_fence, "x")).await.expect("completed");

    node.store.faults().set_down(true);
    let began_us = machine_us();
    let down = |refused: Refused| assert_eq!(refused.named(), ("STORE_UNAVAILABLE", None));
    down(node.keys.claim(claim("new")).await.expect_err("down"));
    down(node.keys.claim(claim("new").wait_ms(60_000)).await.expect_err("down"));
    down(node.keys.claim(held.clone().owner(2)).await.expect_err("down"));
    down(node.keys.replay(replay(&done)).await.expect_err("down"));
    down(node.keys.renew(renew(&held, fence, 1)).await.expect_err("down"));
    down(node.keys.complete(succeed(&held, fence, "x")).await.expect_err("down"));
    down(node.keys.release(release(&held, fence)).await.expect_err("down"));
    down(node.keys.get(get(&held)).await.expect_err("down"));
    down(node.keys.list(list()).await.expect_err("down"));
    down(node.keys.list_stuck(list_stuck()).await.expect_err("down"));
    down(node.keys.forget(forget(&done)).await.expect_err("down"));
    let batch = v1::ClaimKeysRequest { claims: vec![claim("new"), claim("other")] };
    for result in node.keys.claim_all(batch).await.expect("answered").results {
        let Some(v1::claim_key_result::Result::Error(error)) = result.result else {
            panic!("{result:?}");
        };
        down(Refused::of_item(&error));
    }
    assert!(machine_us() - began_us < 5_000_000, "nobody is kept waiting");

    node.store.faults().set_down(false);
    let done = node.keys.complete(succeed(&held, fence, "x")).await.expect("recovered");
    assert!(!done.already_completed);
    assert_eq!(node.keys.claim(claim("new")).await.expect("granted").attempt, 1);
}

#[tokio::test]
async fn a_waiter_sleeps_through_an_outage_of_the_store() {
    let node = TestNode::start().await;
    let owner = claim("k").owner(1);
    let fence = node.keys.claim(owner.clone()).await.expect("granted").fence;
    let mut waiter = JoinSet::new();
    let keys = node.keys.clone();
    waiter.spawn(async move { keys.claim(claim("k").owner(2).wait_ms(60_000)).await });
    node.store.until(|seen| seen.watches >= 1).await;
    node.store.faults().set_down(true);
    // Coming back from a crash wakes whoever waits.
    node.store.crash();
    let refused = within(waiter.join_next()).await.expect("one").expect("no panic");
    assert_eq!(refused.expect_err("down").reason, "STORE_UNAVAILABLE");
    node.store.faults().set_down(false);
    node.keys.complete(succeed(&owner, fence, "x")).await.expect("recovered");
}

/// Puts these bytes in the place of a record.
#[derive(Clone)]
struct Damage(Bytes);

impl Transition for Damage {
    type Outcome = ();

    fn apply(&self, _: Option<&[u8]>, _: u64) -> (Change, ()) {
        (Change { value: ValueChange::Put(self.0.clone()), index: Vec::new() }, ())
    }
}

#[tokio::test]
async fn a_record_that_can_not_be_read_is_taken_for_none() {
    let node = TestNode::start().await;
    let request = claim("k");
    let fence = node.keys.claim(request.clone()).await.expect("granted").fence;
    let sound = node.store.rows(Space::Records).await.remove(0);
    let cut = sound.value.slice(..sound.value.len() - 1);
    let newer = Bytes::from([&[200][..], &sound.value[1..]].concat());
    for bytes in [cut, newer, Bytes::new(), sound.value.slice(..1)] {
        let transition = Damage(bytes.clone());
        let damage = Update {
            key: sound.key.clone(),
            durability: Durability::Synced,
            patience: None,
            transition,
        };
        node.store.update(vec![damage]).await.remove(0).expect("written");
        let unreadable = |refused: Refused| {
            assert_eq!(refused.named(), ("RECORD_UNREADABLE", None));
        };
        unreadable(node.keys.claim(request.clone()).await.expect_err("unreadable"));
        unreadable(node.keys.claim(request.clone().owner(2)).await.expect_err("unreadable"));
        unreadable(
            node.keys.complete(succeed(&request, fence, "x")).await.expect_err("unreadable"),
        );
        unreadable(node.keys.replay(replay(&request)).await.expect_err("unreadable"));
        unreadable(node.keys.get(get(&request)).await.expect_err("unreadable"));
        unreadable(node.keys.forget(forget(&request)).await.expect_err("unreadable"));
        assert_eq!(node.store.rows(Space::Records).await[0].value, bytes, "nothing is written");
    }
    node.keys.claim(claim("other")).await.expect("other keys are not touched by it");
}

#[tokio::test]
async fn a_record_that_can_not_be_read_hides_the_stuck_keys_behind_it() {
    let (node, clock) = TestNode::manual(|_| {}).await;
    node.keys.claim(claim("first").lease_ms(1_000)).await.expect("granted");
    let first = node.store.rows(Space::Records).await.remove(0);
    node.keys.claim(claim("second").lease_ms(2_000)).await.expect("granted");
    let transition = Damage(Bytes::from_static(&[200]));
    let damage =
        Update { key: first.key, durability: Durability::Synced, patience: None, transition };
    node.store.update(vec![damage]).await.remove(0).expect("written");
    clock.advance_us(10_000_000);
    let page = node.keys.list_stuck(list_stuck()).await.expect("listed");
    let stuck: Vec<_> = page.keys.iter().map(|view| (view.key.as_str(), view.state())).collect();
    let unreadable = v1::KeyState::Unspecified;
    assert_eq!(stuck, [("first", unreadable), ("second", v1::KeyState::Lapsed)]);
}

#[tokio::test]
async fn random_faults_give_a_key_two_owners_or_lose_or_change_an_answer() {
    for seed in [1, 2, 3] {
        let node = TestNode::start().await;
        let oracle = Oracle::new(seed);
        node.store.faults().set_odds(Odds {
            conflict_per_mille: 50,
            unknown_per_mille: 100,
            unavailable_per_mille: 50,
            crash_per_mille: 20,
            delay_per_mille: 100,
            delay_max: Duration::from_millis(3),
        });
        let mut callers = JoinSet::new();
        for caller in 0..64 {
            callers.spawn(oracle.caller(node.keys.clone(), caller));
        }
        within(callers.join_all()).await;
        assert!(node.store.faults().injected() > 100, "there were faults");
        node.store.faults().set_odds(Odds::default());
        oracle.check(&node.keys).await;
    }
}
