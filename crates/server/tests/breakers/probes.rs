//! Probes: one permit in the whole fleet, for one call, for a while.

use std::time::Duration;

use tokio::task::JoinSet;

use crate::support::*;
use crate::words::*;

#[tokio::test]
async fn two_hundred_askers_on_three_nodes_get_more_than_one_permit() {
    let fleet = Fleet::start(3).await;
    fleet.open_and_cool_down().await;
    let mut askers = JoinSet::new();
    for number in 0..200_u8 {
        let client = fleet.clients[usize::from(number) % 3].clone();
        askers.spawn(async move { client.probe(number).await });
    }
    let permits: Vec<_> = within(askers.join_all()).await.into_iter().flatten().collect();
    assert_eq!(permits.len(), 1, "{permits:?}");
    assert_eq!((permits[0].id.len(), permits[0].generation), (16, 2));
    let state = fleet.clients[0].until(|breaker| breaker.generation == 2).await;
    assert_eq!((state.condition(), state.probe_due), (Condition::HalfOpen, false));
}

#[tokio::test]
async fn a_lost_reply_costs_a_probe() {
    let fleet = Fleet::start(2).await;
    fleet.open_and_cool_down().await;
    let first = fleet.clients[0].probe(1).await.expect("a permit");
    for client in &fleet.clients {
        let again = client.probe(1).await.expect("the same");
        assert_eq!((&again.id, again.generation), (&first.id, first.generation));
        assert!(left(again.expires_in) <= left(first.expires_in));
        assert_eq!(client.probe(2).await, None, "another question");
    }
}

#[tokio::test]
async fn a_probe_that_never_settles_blocks_the_breaker() {
    let short = |policy: &mut semel_proto::v1::BreakerPolicy| {
        policy.probe_lease = Some(milliseconds(150));
    };
    let fleet = Fleet::with(2, |_| {}, short).await;
    fleet.open_and_cool_down().await;
    let mut changes = fleet.clients[1].watch(&[STRIPE]).await.expect("watches");
    let lost = fleet.clients[0].probe(1).await.expect("a permit");
    changes.until(|breaker| breaker.generation == 2 && !breaker.probe_due).await;
    // The other node is told when it runs out.
    changes.until(|breaker| breaker.probe_due).await;
    let next = fleet.clients[1].probe(2).await.expect("the next caller probes");
    assert_ne!(next.id, lost.id);
    assert_eq!(next.generation, lost.generation);
    // Whoever was late says nothing any more.
    fleet.clients[0].probed(1, &lost, Probed::Failed).await;
    assert_eq!(fleet.clients[0].now().await.generation, 2);
}

#[tokio::test]
async fn probes_that_succeed_do_not_close_it_for_all() {
    let fleet = Fleet::start(2).await;
    fleet.open_and_cool_down().await;
    let mut changes = fleet.clients[1].watch(&[STRIPE]).await.expect("watches");
    let first = fleet.clients[0].probe(1).await.expect("a permit");
    fleet.clients[0].probed(1, &first, Probed::Succeeded).await;
    assert_eq!(fleet.clients[0].now().await.condition(), Condition::HalfOpen, "one of two");
    let second = fleet.clients[0].probe(2).await.expect("a permit");
    // A repeated result counts once, wherever it is reported.
    fleet.clients[1].probed(1, &first, Probed::Succeeded).await;
    assert_eq!(fleet.clients[1].now().await.condition(), Condition::HalfOpen);
    fleet.clients[1].probed(2, &second, Probed::Succeeded).await;
    let closed = changes.until(|breaker| breaker.condition() == Condition::Closed).await;
    assert_eq!((closed.generation, closed.admitted_per_mille, calls(&closed)), (3, 1_000, 0));
    fleet.clients[0].until(|breaker| breaker.generation == 3).await;
}

#[tokio::test]
async fn a_probe_that_fails_leaves_it_half_open_or_waits_no_longer() {
    let slow = |policy: &mut semel_proto::v1::BreakerPolicy| {
        policy.cool_down_max = Some(milliseconds(60_000));
    };
    let fleet = Fleet::with(1, |_| {}, slow).await;
    fleet.open_and_cool_down().await;
    let client = &fleet.clients[0];
    let permit = client.probe(1).await.expect("a permit");
    client.probed(1, &permit, Probed::Inconclusive).await;
    assert!(client.now().await.probe_due, "inconclusive: the next caller");
    let permit = client.probe(2).await.expect("a permit");
    client.probed(2, &permit, Probed::Failed).await;
    let open = client.now().await;
    assert_eq!((open.condition(), open.generation), (Condition::Open, 3));
    let wait = left(open.look_again);
    assert!(wait > Duration::from_millis(240), "doubled, less a fifth at the most: {wait:?}");
    assert_eq!(client.probe(3).await, None, "not before it cooled down");
}

#[tokio::test]
async fn traffic_returns_all_at_once() {
    let ramp = |policy: &mut semel_proto::v1::BreakerPolicy| {
        policy.ramp_step = Some(milliseconds(150));
        policy.successes_to_close = 1;
    };
    let fleet = Fleet::with(2, |_| {}, ramp).await;
    fleet.open_and_cool_down().await;
    let mut changes = fleet.clients[1].watch(&[STRIPE]).await.expect("watches");
    let permit = fleet.clients[0].probe(1).await.expect("a permit");
    fleet.clients[0].probed(1, &permit, Probed::Succeeded).await;
    let mut shares = Vec::new();
    while shares.last() != Some(&1_000) {
        let breaker = changes.next().await.breaker.expect("a breaker");
        if breaker.condition() == Condition::Closed {
            assert_eq!(breaker.generation, 3, "steps keep the generation");
            shares.push(breaker.admitted_per_mille);
        }
    }
    assert_eq!(shares, [50, 250, 500, 1_000]);
}
