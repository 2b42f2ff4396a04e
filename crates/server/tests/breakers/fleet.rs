//! Several nodes over one store: one state for all.

use std::time::Duration;

use semel_proto::v1;

use crate::support::*;
use crate::words::*;

#[tokio::test]
async fn failures_that_are_spread_over_nodes_are_seen_by_none() {
    let fleet = Fleet::start(3).await;
    let mut watching = Vec::new();
    for client in &fleet.clients {
        let mut changes = client.watch(&[STRIPE]).await.expect("watches");
        let first = changes.next().await.breaker.expect("a breaker");
        assert_eq!((first.condition(), first.generation), (Condition::Closed, 0));
        watching.push(changes);
    }
    // Two calls at each node, of which four are enough.
    for (reporter, client) in (1..).zip(&fleet.clients) {
        client.report(report(reporter, 1, 0, counts(0, 2))).await.expect("reported");
    }
    let reported_us = machine_us();
    for changes in &mut watching {
        let open = changes.until(|breaker| breaker.condition() == Condition::Open).await;
        assert_eq!((open.generation, open.admitted_per_mille), (1, 0));
        assert!(calls(&open) >= 4);
    }
    let took_us = machine_us() - reported_us;
    println!("open on 3 nodes {took_us} µs after the last report");
    assert!(took_us < 3_000_000, "{took_us} µs");
}

#[tokio::test]
async fn a_node_that_joins_changes_the_state() {
    let mut fleet = Fleet::with(1, |_| {}, |policy| policy.cool_down_max = None).await;
    fleet.clients[0].force(force(Force::ForcedOpen, None)).await.expect("forced");
    let forced = fleet.clients[0].now().await;
    fleet.join(|_| {}).await;
    // It has never seen the breaker, and believes in its first state.
    let late = report(1, 1, 0, counts(500, 0));
    let reply = fleet.clients[1].report(late).await.expect("reported");
    assert!(reply.counted);
    let seen = fleet.clients[1].now().await;
    let plain =
        |breaker: &v1::BreakerSnapshot| (breaker.condition(), breaker.generation, breaker.since);
    assert_eq!(plain(&seen), plain(&forced));
    fleet.nodes.pop().expect("a node").shutdown().await;
    let after = fleet.clients[0].now().await;
    assert_eq!((plain(&after), calls(&after)), (plain(&forced), 0));
}

#[tokio::test]
async fn what_a_node_gathered_is_lost_when_it_ends() {
    let mut fleet = Fleet::start(2).await;
    let ending = fleet.nodes.pop().expect("a node");
    fleet.clients[1].report(report(1, 1, 0, counts(3, 0))).await.expect("reported");
    ending.shutdown().await;
    fleet.until_counts(|breaker| calls(breaker) == 3).await;
}

#[tokio::test]
async fn a_change_on_one_node_takes_long_to_another() {
    let fleet = Fleet::start(2).await;
    let mut changes = fleet.clients[1].watch(&[STRIPE]).await.expect("watches");
    changes.next().await;
    let mut worst = Duration::ZERO;
    for _ in 0..20 {
        for (kind, condition) in
            [(Force::ForcedOpen, Condition::Open), (Force::Reset, Condition::Closed)]
        {
            let began_us = machine_us();
            fleet.clients[0].force(force(kind, None)).await.expect("forced");
            changes.until(|breaker| breaker.condition() == condition).await;
            worst = worst.max(Duration::from_micros(machine_us() - began_us));
        }
    }
    println!("a change reached the other node within {worst:?}");
    assert!(worst < Duration::from_millis(500), "{worst:?}");
}
