//! All nodes are replaced, one after the other, and no call fails.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_proto::v1::{AcquireRetryTokenRequest, Deposits, Failure, FailureKind, RetryVerdict};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::call::{micros, now_us, proto_us, within};
use crate::checker::budgets::{Deposit, Grant, History, Terms};
use crate::cluster::{Cluster, NODES};
use crate::databases::Database;
use crate::load::steady::{Met, Steady};
use crate::support::ask::{TENANT, owner};

const CLIENTS: usize = 18;
const PATIENCE: Duration = Duration::from_millis(1_500);
const DELAY_MAX_US: u64 = 2_000_000;
/// The default policy's: 10 %, 10 a second, 10 s and 1 s.
const TERMS: Terms = Terms { ratio_per_mille: 100, floor_per_second: 10, lookback_us: 11_000_000 };

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_rolling_restart_fails_no_call_and_grants_no_token_twice() {
    let Some(mut cluster) = Cluster::over_postgres("a rolling restart").await else { return };
    roll(&mut cluster).await;
}

/// Replaces all nodes twice, under load.
pub(crate) async fn roll<D: Database>(cluster: &mut Cluster<D>) {
    cluster.settle_on_ports();
    let stop = CancellationToken::new();
    let history = Arc::new(Mutex::new(History::default()));
    let mut working = JoinSet::new();
    for number in 0..CLIENTS {
        let client = Steady::new(cluster.clients_without_gates(), number % NODES, PATIENCE);
        let (history, stop) = (Arc::clone(&history), stop.clone());
        working.spawn(work(client, number, history, stop));
    }
    let began_us = now_us();
    for round in 0..2 {
        for node in 0..NODES {
            tokio::time::sleep(Duration::from_millis(700)).await;
            cluster.members[node].terminate();
            println!("round {round}: node {node} has ended in order");
            cluster.members[node].start();
        }
    }
    tokio::time::sleep(Duration::from_millis(700)).await;
    stop.cancel();
    let mut all = Met::default();
    while let Some(met) = working.join_next().await {
        all.add(met.unwrap());
    }
    let history = history.lock().await;
    let (broken, tightest) = history.judge(TERMS);
    println!("two rounds within {} ms, {CLIENTS} clients: {all}", (now_us() - began_us) / 1_000);
    println!(
        "{} answers granted a token; at the tightest {} ‰ of the bound: {}",
        history.grants.len(),
        tightest.used_per_mille,
        tightest.seen
    );
    cluster.assert_calm();
    assert!(broken.is_empty(), "{broken:?}");
    assert!(all.failed.is_empty(), "{:?}", all.failed);
    assert!(all.slowest_us < DELAY_MAX_US, "{all}");
    assert!(!all.repeated.is_empty(), "nobody noticed");
    assert!(all.repeated.keys().all(|why| is_harmless(why)), "{all}");
    assert_eq!(all.replies_lost, 0, "{all}");
    assert!(!history.grants.is_empty());
}

/// A node that stops in order cuts no call off: it says so, or has closed its door, or the client's own library
/// takes back what the node never saw, since the connection was closed (`operation was canceled`, in several ways)
/// or the node had said that it takes no more (GOAWAY, which is `not a result of an error`). A connection that was made just as
/// the door closed is reset; that this met no call is seen by the replies, of which none is lost.
fn is_harmless(why: &str) -> bool {
    why == "SHUTTING_DOWN"
        || why.starts_with("Unavailable: tcp connect error")
        || why.starts_with("Cancelled: operation was canceled")
        || why.starts_with("Unknown: transport error") && why.ends_with("connection reset")
        || why.starts_with("Internal: h2 protocol error")
            && why.ends_with("not a result of an error")
}

/// Does work once each, with a first attempt and a question for each, every fifth of them asked twice.
async fn work(
    mut client: Steady,
    number: usize,
    history: Arc<Mutex<History>>,
    stop: CancellationToken,
) -> Met {
    for turn in 0_u64.. {
        if stop.is_cancelled() {
            break;
        }
        let id = u128::try_from(number).unwrap() << 64 | u128::from(turn);
        client.do_once(&format!("rolled-{number}-{turn}"), owner(id)).await;
        let reporter: [u8; 16] = owner(id);
        // One report of each reporter, so that nobody has to know which node was the first to see it.
        let deposits = Deposits {
            reporter: Bytes::copy_from_slice(&reporter),
            seq: 1,
            requests: 1,
            ..Deposits::default()
        };
        let began_us = now_us();
        let noted = Deposit { node: None, count: 1, began_us, counted_us: None };
        history.lock().await.deposits.push(noted);
        for asked in 0..=u32::from(turn.is_multiple_of(5)) {
            let deposits = (asked == 0).then(|| deposits.clone());
            ask(&mut client, &reporter, deposits, &history).await;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    client.met
}

async fn ask(
    client: &mut Steady,
    request_id: &[u8; 16],
    deposits: Option<Deposits>,
    history: &Mutex<History>,
) {
    let request = AcquireRetryTokenRequest {
        tenant: TENANT.to_owned(),
        dependency: "stripe".to_owned(),
        request_id: Bytes::copy_from_slice(request_id),
        failure: Some(Failure { kind: FailureKind::ServerError.into(), server_delay: None }),
        repeatable: true,
        attempt: 1,
        deposits,
        ..AcquireRetryTokenRequest::default()
    };
    let began_us = now_us();
    let told = client
        .call(|mut node, patience| {
            let request = request.clone();
            async move { node.retries.acquire_retry_token(within(patience, request)).await }
        })
        .await;
    let Some(reply) = told.filter(|reply| reply.verdict() == RetryVerdict::Granted) else { return };
    let delay_us = proto_us(reply.delay).min(micros(Duration::from_secs(60)));
    history.lock().await.grants.push(Grant {
        request: request.request_id,
        attempt: 1,
        token: reply.token,
        first_us: began_us + delay_us,
        last_us: now_us() + delay_us,
        refunded: false,
    });
}
