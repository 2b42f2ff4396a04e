//! Many nodes over one store: one budget for all of them.

use tokio::task::JoinSet;

use semel_proto::v1;

use crate::support::*;
use crate::words::*;

/// A floor of one token a second and no ratio: ten in each window, for the whole fleet.
fn ten_in_a_window() -> v1::RetryPolicy {
    v1::RetryPolicy { floor_per_second: Some(1), ratio_per_mille: Some(0), ..bare() }
}

/// Grants of the fleet until `until_us`, each with the time at which it was asked for.
async fn storm(nodes: &[TestNode], until_us: u64) -> Vec<u64> {
    let mut callers = JoinSet::new();
    for (node, retries) in nodes.iter().map(|node| node.retries.clone()).enumerate() {
        for caller in 0..4 {
            let retries = retries.clone();
            callers.spawn(async move {
                let mut granted = Vec::new();
                for number in 0.. {
                    let now_us = machine_us();
                    if now_us >= until_us {
                        break;
                    }
                    let request = ask(&format!("{node}-{caller}-{number}"));
                    let reply = retries.acquire(request).await.expect("answered");
                    if reply.verdict() == Verdict::Granted {
                        granted.push(now_us);
                    } else {
                        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                    }
                }
                granted
            });
        }
    }
    let mut granted = within(callers.join_all()).await.concat();
    granted.sort_unstable();
    granted
}

async fn fleet(policy: v1::RetryPolicy) -> [TestNode; 3] {
    let a = TestNode::under(policy).await;
    let (b, c) = (a.beside().await, a.beside().await);
    [a, b, c]
}

#[tokio::test]
async fn each_node_grants_a_floor_of_its_own() {
    let nodes = fleet(ten_in_a_window()).await;
    let granted = storm(&nodes, machine_us() + 1_500_000).await;
    assert!((9..=10).contains(&granted.len()), "{} tokens of ten", granted.len());
}

#[tokio::test]
async fn a_fleet_under_load_grants_more_than_its_bound() {
    // A window of one second, so that it turns over in the time of a test.
    let window = Some(milliseconds(1_000));
    let policy = v1::RetryPolicy {
        floor_per_second: Some(20),
        ratio_per_mille: Some(100),
        window,
        lease: Some(milliseconds(200)),
        ..bare()
    };
    let nodes = fleet(policy).await;
    let began_us = machine_us();
    for (number, node) in nodes.iter().enumerate() {
        node.reports(deposits(u8::try_from(number).expect("few"), 1, 100)).await;
    }
    let granted = storm(&nodes, began_us + 2_000_000).await;
    let (deposited, slack_us) = (30, 1_200_000);
    for (first, from) in granted.iter().enumerate() {
        for (last, to) in granted.iter().enumerate().skip(first) {
            let count = u64::try_from(last - first + 1).expect("few");
            let floor = 20 * (to - from + slack_us) / 1_000_000 + 1;
            assert!(count <= deposited + floor, "{count} from {from} to {to}");
        }
    }
    // And nearly all of it is used: thirty, and a window's floor; the rest is left to slow machines.
    assert!(granted.len() >= 30 + 20, "{} is too little", granted.len());
}

#[tokio::test]
async fn a_rolling_restart_grants_anew() {
    let first = TestNode::under(ten_in_a_window()).await;
    let mut granted = first.spend_all("0").await;
    assert_eq!(granted, 10);
    let mut node = first;
    for round in 1..5 {
        let next = node.beside().await;
        node.shutdown().await;
        granted += next.spend_all(&round.to_string()).await;
        node = next;
    }
    assert!(granted <= 10, "{granted} tokens of ten");
}

#[tokio::test]
async fn what_a_node_did_not_spend_is_lost_when_it_closes() {
    let a = TestNode::under(ten_in_a_window()).await;
    let b = a.beside().await;
    let leased = within(a.retries.lease(lease(7, 1, 10))).await.expect("answered");
    assert_eq!(leased.granted, 10);
    let back = v1::LeaseRetryTokensRequest {
        returned_lease: Some(leased.lease),
        returned: 6,
        ..lease(7, 2, 0)
    };
    within(a.retries.lease(back)).await.expect("answered");
    assert_eq!(b.spend_all("r").await, 0, "the other node holds them");
    a.shutdown().await;
    // Who found the store dry asks again within a second.
    let began_us = machine_us();
    let mut granted = 0;
    while granted < 6 && machine_us() - began_us < 3_000_000 {
        granted += b.spend_all(&format!("s{}", machine_us())).await;
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(granted, 6);
    assert!(machine_us() - began_us < 1_500_000);
}

#[tokio::test]
async fn deposits_of_one_node_are_of_no_use_to_another() {
    let a = TestNode::under(bare()).await;
    let b = a.beside().await;
    assert!(a.reports(deposits(1, 1, 100)).await);
    assert_eq!(b.spend_all("r").await, 0);
    a.shutdown().await;
    let mut granted = 0;
    let began_us = machine_us();
    while granted < 10 && machine_us() - began_us < 3_000_000 {
        granted += b.spend_all(&format!("s{}", machine_us())).await;
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(granted, 10);
}
