//! Streams of changes.

use semel_proto::v1;
use tokio::task::JoinSet;
use tokio_stream::StreamExt;

use crate::support::*;
use crate::words::*;

#[tokio::test]
async fn a_thousand_watchers_wait_long_for_a_change() {
    let fleet = Fleet::start(1).await;
    let mut connections = Vec::new();
    for _ in 0..8 {
        connections.push(Breakers::connect(&fleet.nodes[0]).await);
    }
    let mut watching = Vec::new();
    for number in 0..1_000_usize {
        let mut changes = connections[number % 8].watch(&[STRIPE]).await.expect("watches");
        changes.next().await;
        watching.push(changes);
    }
    let mut waiting = JoinSet::new();
    for mut changes in watching {
        waiting.spawn(async move {
            changes.until(|breaker| breaker.condition() == Condition::Open).await;
            machine_us()
        });
    }
    fleet.clients[0].force(force(Force::ForcedOpen, None)).await.expect("forced");
    let forced_us = machine_us();
    let told = within(waiting.join_all()).await;
    let last_us = told.iter().max().expect("some").saturating_sub(forced_us);
    println!("the last of {} watchers was told {last_us} µs after the reply", told.len());
    // The watchers run on the same two cores, without optimisation.
    assert!(last_us < 1_000_000, "{last_us} µs");
}

#[tokio::test]
async fn watchers_are_told_of_counts_or_of_the_same_twice() {
    let fleet = Fleet::start(1).await;
    let mut changes = fleet.clients[0].watch(&["other", STRIPE, STRIPE]).await.expect("watches");
    let mut first = [changes.next().await, changes.next().await];
    first.sort_by_key(|change| change.breaker.as_ref().map(|breaker| breaker.dependency.clone()));
    let name = |change: &v1::WatchBreakersResponse| change.breaker.clone().expect("one").dependency;
    assert_eq!(first.iter().map(name).collect::<Vec<_>>(), ["other", STRIPE]);
    assert!(first.iter().all(|change| !change.degraded));
    for seq in 1..4 {
        fleet.clients[0].report(report(1, seq, 0, counts(1, 0))).await.expect("reported");
        fleet.until_counts(|breaker| calls(breaker) == seq).await;
    }
    fleet.clients[0].force(force(Force::MetricsOnly, None)).await.expect("forced");
    let next = changes.next().await.breaker.expect("a breaker");
    assert_eq!((&*next.dependency, next.generation), (STRIPE, 1), "nothing in between");
}

#[tokio::test]
async fn watchers_without_number_or_end_hold_the_node_up() {
    let options = |options: &mut semel_server::NodeOptions| options.breakers.watchers_max = 2;
    let mut fleet = Fleet::with(1, options, |_| {}).await;
    let client = fleet.clients[0].clone();
    let mut first = client.watch(&[STRIPE]).await.expect("watches");
    let second = client.watch(&[STRIPE]).await.expect("watches");
    let refused = client.watch(&[STRIPE]).await.err().expect("no more");
    assert_eq!(refused.reason, "WATCHERS_FULL");
    drop(second);
    // The place is free as soon as the node learns that its watcher is gone.
    let mut third = client.watch(&[STRIPE]).await;
    while third.is_err() {
        tokio::task::yield_now().await;
        third = client.watch(&[STRIPE]).await;
    }
    first.next().await;
    let began_us = machine_us();
    fleet.nodes.pop().expect("a node").shutdown().await;
    assert!(machine_us() - began_us < 5_000_000, "well within the grace");
    let end = within(first.0.next()).await.expect("an end").expect_err("told why");
    assert_eq!(Refused::of(&end).reason, "SHUTTING_DOWN");
    assert!(within(first.0.next()).await.is_none());
}
