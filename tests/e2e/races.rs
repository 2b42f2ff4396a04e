//! Many callers at the same instant.

use std::sync::Arc;
use std::time::Duration;

use semel_proto::v1::claim_key_response::Disposition;
use semel_proto::v1::keys_client::KeysClient;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tonic::transport::Channel;

use crate::support::ask::{claim, owner};
use crate::support::node::Node;
use crate::support::settings::number;

const CALLERS: u64 = 200;
const CONNECTIONS: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_hundred_callers_at_the_same_instant_one_gets_the_claim() {
    let races = number("SEMEL_RACES", 1_000);
    let node = Node::start(&[]);
    let start = Arc::new(Barrier::new(usize::try_from(CALLERS).unwrap()));
    let clients = node.clients(CONNECTIONS).await;
    let mut callers = JoinSet::new();
    for (keys, number) in clients.into_iter().cycle().zip(0..CALLERS) {
        let start = Arc::clone(&start);
        callers.spawn(async move { race(keys, number, races, &start).await });
    }
    let mut winners = vec![Vec::new(); usize::try_from(races).unwrap()];
    while let Some(won) = callers.join_next().await {
        for (race, fence) in won.unwrap() {
            winners[usize::try_from(race).unwrap()].push(fence);
        }
    }
    for (race, fences) in winners.iter().enumerate() {
        assert_eq!(fences.len(), 1, "race {race} was won with the fences {fences:?}");
    }
    println!("{CALLERS} callers raced for {races} keys: one CLAIMED each time");
    node.assert_calm();
}

/// Claims the same keys as all others, each at the same instant, and tells which it got.
async fn race(
    mut keys: KeysClient<Channel>,
    caller: u64,
    races: u64,
    start: &Barrier,
) -> Vec<(u64, u64)> {
    let mut won = Vec::new();
    for race in 0..races {
        let request = claim(&format!("race-{race}"), owner(caller.into()));
        start.wait().await;
        let reply = keys.claim_key(request).await.unwrap().into_inner();
        match reply.disposition() {
            Disposition::Claimed => won.push((race, reply.fence)),
            Disposition::InProgress => {
                let hint: Duration = reply.retry_after.unwrap().try_into().unwrap();
                assert!(hint > Duration::ZERO && hint <= Duration::from_secs(30), "{hint:?}");
            }
            other => panic!("race {race}: {other:?}"),
        }
    }
    won
}
