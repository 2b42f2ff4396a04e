//! The lessee against answers that the tests make up, at moments that they name.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use semel_proto::v1::RetryPolicy;

use super::*;
use crate::clock::Clock;
use crate::tokens::budget::{Budget, Denied, Shared};

struct Still(std::sync::atomic::AtomicU64);

impl Clock for Still {
    fn monotonic_us(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

struct Scene {
    clock: Arc<Still>,
    budget: Budget,
    lessee: Lessee,
    node: Bytes,
    leases: u64,
}

impl Scene {
    fn new() -> Self {
        let clock = Arc::new(Still(0.into()));
        let handed: Arc<dyn Clock> = Arc::<Still>::clone(&clock);
        let shared = Arc::new(Shared { clock: handed, closed: AtomicBool::new(false) });
        let ledger = Arc::new(Ledger::new("acme".into(), "stripe".into(), shared));
        let lessee = Lessee::new(Arc::clone(&ledger), [0; 16], 2);
        Self { clock, budget: Budget(ledger), lessee, node: Bytes::from_static(b"x"), leases: 0 }
    }

    fn at(&mut self, now_ms: u64) -> Step {
        self.clock.0.store(now_ms * 1_000, Ordering::Relaxed);
        self.lessee.next(now_ms)
    }

    fn asked(&mut self, now_ms: u64) -> LeaseRetryTokensRequest {
        match self.at(now_ms) {
            Step::Ask(request) => request,
            other => panic!("{other:?} at {now_ms}"),
        }
    }

    fn grant(&mut self, granted: u32, now_ms: u64) {
        self.leases += 1;
        let reply = LeaseRetryTokensResponse {
            lease: self.leases,
            granted,
            expires_in: Some(prost_types::Duration { seconds: 1, nanos: 0 }),
            node: self.node.clone(),
            ..LeaseRetryTokensResponse::default()
        };
        self.clock.0.store(now_ms * 1_000, Ordering::Relaxed);
        self.lessee.answered(reply, now_ms);
    }

    fn spend(&self, count: u32) -> u32 {
        u32::try_from((0..count).filter(|_| self.budget.try_spend().is_ok()).count()).unwrap()
    }

    fn lose(&mut self, now_ms: u64) {
        self.lessee.failed(&Status::unavailable("gone"), now_ms);
    }
}

#[test]
fn nothing_is_asked_for_until_something_is_counted() {
    let mut scene = Scene::new();
    assert_eq!(scene.at(0), Step::Wait);
    scene.budget.first_attempt();
    scene.budget.first_success();
    let request = scene.asked(5);
    assert_eq!((request.seq, request.want, request.returned_lease), (1, 2, None));
    let deposits = request.deposits.unwrap();
    assert_eq!((deposits.seq, deposits.requests, deposits.successes), (1, 1, 1));
    assert!(deposits.node.is_empty(), "it goes to whichever node this is");
}

#[test]
fn a_lease_is_counted_from_before_its_request_was_first_sent() {
    let mut scene = Scene::new();
    assert_eq!(scene.budget.try_spend(), Err(Denied::NotLeased));
    let first = scene.asked(100);
    scene.lose(400);
    let again = scene.asked(700);
    assert_eq!(again, first);
    scene.grant(2, 900);
    scene.at(1_099);
    assert_eq!(scene.spend(1), 1);
    scene.at(1_100);
    assert_eq!(scene.budget.try_spend(), Err(Denied::NotLeased));
}

#[test]
fn the_rest_of_the_older_lease_goes_back_while_the_newer_is_spent() {
    let mut scene = Scene::new();
    scene.budget.first_attempt();
    scene.asked(0);
    scene.grant(2, 1);
    assert_eq!(scene.spend(1), 1);
    let second = scene.asked(450);
    assert_eq!((second.want, second.returned_lease), (2, None));
    assert_eq!(scene.spend(1), 1, "while the answer is on its way");
    scene.grant(10, 451);
    assert_eq!(scene.at(452), Step::WaitUntil(900));
    let third = scene.asked(900);
    assert_eq!(third.returned_lease, None, "nothing is left of the first");
    scene.grant(10, 901);
    assert_eq!(scene.budget.in_hand(), 20);
    let fourth = scene.asked(1_350);
    assert_eq!((fourth.returned_lease, fourth.returned), (Some(2), 10));
    assert_eq!(scene.spend(20), 10, "what goes back can't be spent");
}

#[test]
fn more_is_asked_for_as_soon_as_tokens_are_few() {
    let mut scene = Scene::new();
    scene.budget.first_attempt();
    scene.asked(0);
    scene.grant(8, 0);
    assert_eq!(scene.spend(5), 5);
    assert_eq!(scene.at(20), Step::WaitUntil(450));
    assert_eq!(scene.spend(1), 1);
    assert_eq!(scene.asked(20).want, 9, "half as many again as were spent");
}

#[test]
fn a_spent_budget_is_left_alone_for_as_long_as_the_node_says() {
    let mut scene = Scene::new();
    assert!(scene.budget.try_spend().is_err());
    scene.asked(0);
    let retry_after = Some(prost_types::Duration { seconds: 0, nanos: 300_000_000 });
    let node = scene.node.clone();
    let reply = LeaseRetryTokensResponse { node, retry_after, ..Default::default() };
    scene.lessee.answered(reply, 10);
    assert_eq!(scene.budget.try_spend(), Err(Denied::Exhausted));
    assert_eq!(scene.at(11), Step::WaitUntil(310));
    scene.asked(310);
}

#[test]
fn a_lost_answer_is_asked_for_again_with_the_same_words() {
    let mut scene = Scene::new();
    scene.budget.first_attempt();
    scene.asked(0);
    scene.grant(4, 0);
    scene.budget.first_attempt();
    let lost = scene.asked(450);
    assert_eq!(lost.deposits.as_ref().map(|deposits| deposits.node.clone()), Some("x".into()));
    scene.lose(460);
    scene.budget.first_attempt();
    assert_eq!(scene.at(470), Step::WaitUntil(510));
    assert_eq!(scene.asked(510), lost, "later attempts wait for the next number");
    scene.lose(520);
    assert_eq!(scene.at(520), Step::WaitUntil(620), "the pause doubles");
    assert_eq!(scene.asked(620), lost);
    scene.grant(4, 630);
    let next = scene.asked(1_000);
    assert_eq!((next.seq, next.deposits.unwrap().requests), (3, 1));
}

#[test]
fn attempts_reported_to_an_unknown_node_are_not_reported_twice() {
    let mut scene = Scene::new();
    scene.budget.first_attempt();
    assert!(scene.asked(0).deposits.is_some());
    scene.lose(1);
    let again = scene.asked(200);
    assert_eq!((again.seq, again.deposits), (1, None));
}

#[test]
fn a_rest_goes_to_its_own_node_only() {
    let mut scene = Scene::new();
    scene.budget.first_attempt();
    scene.asked(0);
    scene.grant(4, 0);
    scene.budget.first_attempt();
    scene.asked(450);
    scene.node = Bytes::from_static(b"y");
    scene.grant(4, 450);
    scene.budget.first_attempt();
    let next = scene.asked(900);
    assert_eq!(next.returned_lease, None);
    assert_eq!(next.deposits.unwrap().node, "y");
}

#[test]
fn an_idle_budget_gives_back_what_it_holds_and_falls_silent() {
    let mut scene = Scene::new();
    scene.budget.first_attempt();
    scene.asked(0);
    scene.grant(2, 0);
    let (mut now_ms, mut granted, mut returned, mut calls) = (0, 2, 0, 0);
    let silent = loop {
        match scene.at(now_ms) {
            Step::Wait => break now_ms,
            Step::WaitUntil(at_ms) => now_ms = at_ms,
            Step::Ask(request) => {
                calls += 1;
                granted += request.want;
                returned += request.returned;
                scene.grant(request.want, now_ms);
            }
        }
    };
    assert!(silent < 3_000, "{silent}");
    assert!(calls <= 4, "{calls}");
    assert_eq!(returned, granted);
    assert_eq!(scene.budget.in_hand(), 0);
}

#[test]
fn a_refusal_for_good_is_not_repeated_at_once_and_hands_over_nothing_twice() {
    let mut scene = Scene::new();
    scene.budget.first_attempt();
    scene.asked(0);
    scene.lessee.failed(&Status::permission_denied("not yours"), 1);
    assert_eq!(scene.at(2), Step::Wait, "its attempts are forfeited");
    scene.budget.first_attempt();
    assert_eq!(scene.at(2), Step::WaitUntil(1_001));
    let next = scene.asked(1_001);
    assert_eq!((next.seq, next.deposits.unwrap().requests), (2, 1));
}

#[test]
fn at_the_end_both_leases_go_back_one_after_the_other() {
    let mut scene = Scene::new();
    scene.budget.first_attempt();
    scene.asked(0);
    scene.grant(4, 0);
    scene.asked(450);
    scene.grant(6, 450);
    scene.budget.first_attempt();
    let first = scene.lessee.last_words(500).unwrap();
    assert_eq!((first.want, first.returned_lease, first.returned), (0, Some(1), 4));
    assert_eq!(first.deposits.unwrap().requests, 1);
    scene.grant(0, 501);
    let second = scene.lessee.last_words(502).unwrap();
    assert_eq!((second.returned_lease, second.returned), (Some(2), 6));
    scene.grant(0, 503);
    assert_eq!(scene.lessee.last_words(504), None);
}

#[test]
fn while_no_node_answers_a_tenth_of_the_attempts_since_the_last_report_is_paid_for() {
    let mut scene = Scene::new();
    scene.budget.first_attempt();
    scene.asked(0);
    scene.grant(0, 1);
    (0..100).for_each(|_| scene.budget.first_attempt());
    let reported = scene.asked(450);
    assert_eq!(reported.deposits.as_ref().unwrap().requests, 100);
    scene.lose(500);
    scene.at(1_500);
    assert_eq!(scene.spend(100), 0, "what was handed over is the node's, if it arrived");
    (0..45).for_each(|_| scene.budget.first_attempt());
    scene.at(1_700);
    assert_eq!(scene.spend(100), 4);
    assert_eq!(scene.asked(1_800), reported, "word for word");
    scene.grant(0, 1_850);
    assert_eq!(scene.spend(100), 0, "a node is in reach again");
    let deposits = scene.asked(2_900).deposits.unwrap();
    assert_eq!((deposits.requests, deposits.spent_milli), (45, 4_000));
}

#[test]
fn the_share_goes_by_the_policy_that_was_last_heard_of() {
    let mut scene = Scene::new();
    scene.budget.first_attempt();
    scene.asked(0);
    let policy = RetryPolicy { ratio_per_mille: Some(500), ..RetryPolicy::default() };
    let node = scene.node.clone();
    let reply = LeaseRetryTokensResponse { node, policy: Some(policy), ..Default::default() };
    scene.lessee.answered(reply, 1);
    scene.budget.first_attempt();
    scene.asked(1_000);
    scene.lose(1_010);
    (0..10).for_each(|_| scene.budget.first_attempt());
    scene.at(2_500);
    assert_eq!(scene.spend(100), 5);
    assert!(scene.budget.is_out_of_reach());
}
