//! The store is lost, and comes back; a node is lost, and does not.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use semel_proto::v1::{
    AcquireRetryTokenRequest, AcquireRetryTokenResponse, Deposits, Failure, FailureKind, Mode,
    RetryVerdict,
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::call::{Client, is_unknown, micros, now_us, timed, within};
use crate::cluster::{Cluster, NODES};
use crate::databases::Database;
use crate::gate;
use crate::load::steady::{Met, Steady};
use crate::support::ask::{TENANT, claim, owner, reason};

const DEADLINE: Duration = Duration::from_millis(1_500);
/// How soon all must be well again, and how long a lost node may hold a client up.
const DELAY_MAX_US: u64 = 2_000_000;
const CLIENTS: usize = 24;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lost_store_is_told_in_time_and_forgotten_when_it_is_back() {
    let Some(mut cluster) = Cluster::over_postgres("a lost store").await else { return };
    let lost = Lost { says_so: true, noticed_max_us: 4_000_000 };
    lose_store(&mut cluster, &lost).await;
}

/// Stops the store as in a crash, and starts it again.
pub(crate) async fn lose_store<D: Database>(cluster: &mut Cluster<D>, lost: &Lost) {
    let clients = cluster.clients();
    for (node, client) in clients.iter().enumerate() {
        let told = acquire(client, node, 200).await;
        assert_eq!((told.mode(), told.deposits_counted), (Mode::Normal, true), "{told:?}");
    }
    println!("the store stops, as in a crash:");
    D::stop(cluster);
    join_all(clients.iter().enumerate().map(|(node, it)| lost.ask(node, it))).await;
    D::start_again(cluster);
    store_is_back(&clients).await;
    cluster.assert_calm();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_store_that_says_nothing_is_told_in_time_too() {
    let Some(cluster) = Cluster::over_postgres("a silent store").await else { return };
    let clients = cluster.clients();
    for (node, client) in clients.iter().enumerate() {
        let told = acquire(client, node, 200).await;
        assert_eq!((told.mode(), told.deposits_counted), (Mode::Normal, true), "{told:?}");
    }
    cluster.set_store_gates(gate::Mode::Hold);
    // A statement is given up after 11 s, and nobody knows before.
    let lost = Lost { says_so: false, noticed_max_us: 14_000_000 };
    join_all(clients.iter().enumerate().map(|(node, it)| lost.ask(node, it))).await;
    cluster.set_store_gates(gate::Mode::Pass);
    store_is_back(&clients).await;
    cluster.assert_calm();
}

/// A store that is away.
pub(crate) struct Lost {
    /// Its connections are refused; otherwise they are silent.
    pub(crate) says_so: bool,
    /// How soon a node that goes on granting retries must know, and say, that it is away.
    pub(crate) noticed_max_us: u64,
}

impl Lost {
    /// Asks for some seconds: keys get no answer but that there is none, in time, and retries are paid from
    /// what is here.
    async fn ask(&self, node: usize, client: &Client) {
        let (mut claims, mut said, mut slowest_us, mut granted) = (0, 0, 0, 0);
        let (began_us, mut noticed_us) = (now_us(), None);
        let until_us = began_us + self.noticed_max_us + 1_000_000;
        while now_us() < until_us {
            let mut keys = client.keys.clone();
            let request = claim(&format!("lost-{node}-{claims}"), owner(1));
            let asked = timed(DEADLINE, keys.claim_key(within(DEADLINE, request))).await;
            let status = asked.result.expect_err("there is no store to claim in");
            let took_us = asked.ended_us - asked.began_us;
            let unavailable = reason(&status) == "STORE_UNAVAILABLE";
            assert!(unavailable || !self.says_so, "after {took_us} us: {status:?}");
            // By a silent store, a deadline may end the call just before the answer is there.
            assert!(unavailable || is_unknown(&status), "after {took_us} us: {status:?}");
            slowest_us = slowest_us.max(took_us);
            claims += 1;
            said += u64::from(unavailable);
            let told = acquire(client, node, 0).await;
            let noticed = told.mode() == Mode::LocalBounded;
            if noticed && noticed_us.is_none() {
                noticed_us = Some(now_us() - began_us);
            }
            assert!(noticed || noticed_us.is_none(), "the store is not back: {told:?}");
            granted += u64::from(told.verdict() == RetryVerdict::Granted);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        println!(
            "node {node}: {claims} claims, {said} of them answered STORE_UNAVAILABLE, the slowest \
             after {} ms; LOCAL_BOUNDED after {noticed_us:?} us, {granted} retries granted",
            slowest_us / 1_000
        );
        // On a slow machine a client may give up before the answer is there, but not as a rule.
        assert!(2 * said > claims, "{said} of {claims}");
        assert!(slowest_us < micros(DEADLINE) + 200_000, "{slowest_us} us");
        assert!(noticed_us.is_some_and(|it| it < self.noticed_max_us), "{noticed_us:?}");
        // A tenth of 200 first attempts, and what a slice of the floor held.
        assert!(granted <= 20 + 100, "{granted}");
    }
}

async fn store_is_back(clients: &[Client]) {
    let back_us = now_us();
    let well = clients.iter().enumerate().map(|(node, client)| async move {
        loop {
            let mut keys = client.keys.clone();
            let request = claim(&format!("back-{node}-{back_us}"), owner(1));
            let asked = timed(DEADLINE, keys.claim_key(within(DEADLINE, request))).await;
            let normal = acquire(client, node, 0).await.mode() == Mode::Normal;
            let after_us = now_us() - back_us;
            if asked.result.is_ok() && normal {
                return after_us;
            }
            assert!(after_us < 10_000_000, "it stays lost: {:?}, {normal}", asked.result);
        }
    });
    let well: Vec<u64> = join_all(well).await;
    println!("all was well on nodes 0 to 2 after {well:?} us");
    assert!(well.iter().all(|after_us| *after_us < DELAY_MAX_US), "{well:?}");
}

async fn acquire(client: &Client, node: usize, requests: u64) -> AcquireRetryTokenResponse {
    let random: [u8; 16] =
        Bytes::from(format!("{:>16}", now_us() * 10 + node as u64))[..].try_into().unwrap();
    let deposits = (requests > 0).then(|| Deposits {
        reporter: Bytes::copy_from_slice(&random),
        seq: 1,
        requests,
        ..Deposits::default()
    });
    let request = AcquireRetryTokenRequest {
        tenant: TENANT.to_owned(),
        dependency: "stripe".to_owned(),
        request_id: Bytes::copy_from_slice(&random),
        failure: Some(Failure { kind: FailureKind::NotSent.into(), server_delay: None }),
        attempt: 1,
        deposits,
        ..AcquireRetryTokenRequest::default()
    };
    let mut retries = client.retries.clone();
    let asked = timed(DEADLINE, retries.acquire_retry_token(within(DEADLINE, request))).await;
    asked.result.expect("retries are answered without a store, too")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lost_node_costs_its_clients_a_delay_and_nothing_else() {
    let Some(mut cluster) = Cluster::over_postgres("a lost node").await else { return };
    lose_nodes(&mut cluster).await;
}

/// Has a node die, and another stand still, under clients that go on.
pub(crate) async fn lose_nodes<D: Database>(cluster: &mut Cluster<D>) {
    for (how, patience) in [("killed", DEADLINE), ("standing still", Duration::from_millis(500))] {
        let all = working(cluster, how, patience, async |cluster| {
            if how == "killed" {
                cluster.members[0].kill();
            } else {
                cluster.members[1].node().signal("STOP");
            }
            tokio::time::sleep(Duration::from_secs(4)).await;
        })
        .await;
        println!("a node of {NODES} is {how}, under {CLIENTS} clients: {all}");
        assert!(all.failed.is_empty(), "{:?}", all.failed);
        assert!(all.slowest_us < DELAY_MAX_US && all.answered > 100, "{all}");
        assert!(!all.repeated.is_empty(), "nobody noticed that the node is lost");
        if how == "killed" {
            cluster.members[0].start();
        } else {
            cluster.members[1].node().signal("CONT");
        }
    }
    cluster.assert_calm();
}

/// What clients meet that work while something is lost.
pub(crate) async fn working<D: Database>(
    cluster: &mut Cluster<D>,
    name: &str,
    patience: Duration,
    lose: impl AsyncFnOnce(&mut Cluster<D>),
) -> Met {
    let stop = CancellationToken::new();
    let begun = Arc::new(tokio::sync::Barrier::new(CLIENTS + 1));
    let mut working = JoinSet::new();
    for number in 0..CLIENTS {
        let client = Steady::new(cluster.clients(), number % NODES, patience);
        let (stop, begun) = (stop.clone(), Arc::clone(&begun));
        working.spawn(work(client, format!("{name}-{number}"), begun, stop));
    }
    begun.wait().await;
    lose(cluster).await;
    stop.cancel();
    let mut all = Met::default();
    while let Some(met) = working.join_next().await {
        all.add(met.unwrap());
    }
    all
}

/// Does work once each, and goes on until it is told to stop.
async fn work(
    mut client: Steady,
    name: String,
    begun: Arc<tokio::sync::Barrier>,
    stop: CancellationToken,
) -> Met {
    for number in 0_u128.. {
        client.do_once(&format!("{name}-{number}"), owner(number)).await;
        if number == 5 {
            begun.wait().await;
        }
        if stop.is_cancelled() {
            break;
        }
    }
    client.met
}
