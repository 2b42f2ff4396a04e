//! A completion on one node wakes who waits for it on another, and if the wake-up is lost, polling does.

use std::pin::pin;
use std::time::Duration;

use futures::future::join_all;
use semel_proto::v1::ClaimKeyRequest;

use crate::call::{Client, timed, within};
use crate::cluster::{Cluster, NODES};
use crate::databases::Database;
use crate::gate::{Gate, Mode};
use crate::support::ask::{claim, complete, owner, replay, replayed_body};

const ROUNDS: usize = 240;
const DEADLINE: Duration = Duration::from_secs(20);
const P99_MAX_US: u64 = 100_000;
/// Without wake-ups.
const POLLED_MAX_US: u64 = 2_000_000;

/// From when a completion was sent, and from when it was acknowledged, until a waiter had it.
#[derive(Clone, Copy, Debug)]
struct Woken {
    since_sent_us: u64,
    since_done_us: u64,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_waiter_on_another_node_is_woken() {
    let Some(cluster) = Cluster::over_postgres("wake-ups between nodes").await else { return };
    wake(&cluster).await;
}

/// Has one node's waiters woken by another's completions, one after the other.
pub(crate) async fn wake<D: Database>(cluster: &Cluster<D>) {
    let clients = cluster.clients();
    let mut woken = Vec::new();
    for number in 0..ROUNDS {
        woken.push(round(&clients, &format!("woken-{number}"), number).await);
    }
    let done = Figures::of(woken.iter().map(|it| it.since_done_us).collect());
    let sent = Figures::of(woken.iter().map(|it| it.since_sent_us).collect());
    println!("{ROUNDS} waiters on another node: since the completion was acknowledged {done}");
    println!("since it was sent {sent}");
    cluster.assert_calm();
    assert!(done.p99_us < P99_MAX_US);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_waiter_whose_wake_up_is_lost_asks_by_itself() {
    let Some(cluster) = Cluster::over_postgres("lost wake-ups").await else { return };
    cluster.set_store_gates(Mode::Deaf);
    let clients = cluster.clients();
    let rounds = (0..60).map(|number| {
        let clients = &clients;
        async move { round(clients, &format!("deaf-{number}"), number).await }
    });
    let woken = join_all(rounds).await;
    let figures = Figures::of(woken.iter().map(|it| it.since_done_us).collect());
    let swallowed: u64 = cluster.database.gates.iter().map(Gate::swallowed).sum();
    println!("{} waiters, {swallowed} wake-ups swallowed: {figures}", woken.len());
    cluster.assert_calm();
    assert!(swallowed > 0, "there was nothing to lose");
    assert!(figures.max_us < POLLED_MAX_US);
    assert!(figures.max_us > P99_MAX_US, "somebody must have had to ask by itself");
}

/// One claims, another waits on another node, and the first completes on a third or its own.
async fn round(clients: &[Client], key: &str, number: usize) -> Woken {
    let (owner_at, waiter_at) = (number % NODES, (number + 1 + number / NODES % 2) % NODES);
    let mut owns = clients[owner_at].keys.clone();
    let mut waits = clients[waiter_at].keys.clone();
    let mut follows = waits.clone();
    let claimed = owns.claim_key(within(DEADLINE, claim(key, owner(1)))).await.unwrap();
    let fence = claimed.into_inner().fence;
    let wait = Some(Duration::from_secs(15).try_into().unwrap());
    let waiting = ClaimKeyRequest { wait, ..claim(key, owner(2)) };
    let mut waiting = pin!(timed(DEADLINE, waits.claim_key(within(DEADLINE, waiting))));
    // It is known to wait once the node has answered what came behind it.
    tokio::select! {
        biased;
        early = &mut waiting => panic!("{key} was answered before it was done: {early:?}"),
        () = async {
            for _ in 0..2 {
                follows.replay_key(within(DEADLINE, replay(key))).await.unwrap();
            }
        } => {}
    }
    let body = key.as_bytes();
    let done = within(DEADLINE, complete(key, owner(1), fence, body));
    let (done, waited) = tokio::join!(timed(DEADLINE, owns.complete_key(done)), waiting);
    assert!(done.result.is_ok(), "{done:?}");
    assert_eq!(replayed_body(waited.result.as_ref().unwrap()), body);
    Woken {
        since_sent_us: waited.ended_us - done.began_us,
        since_done_us: waited.ended_us.saturating_sub(done.ended_us),
    }
}

struct Figures {
    p50_us: u64,
    p99_us: u64,
    max_us: u64,
}

impl Figures {
    fn of(mut times_us: Vec<u64>) -> Self {
        times_us.sort_unstable();
        let at = |per_mille: usize| times_us[(times_us.len() - 1) * per_mille / 1_000];
        Self { p50_us: at(500), p99_us: at(990), max_us: at(1_000) }
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ms = |us: u64| format!("{}.{} ms", us / 1_000, us % 1_000 / 100);
        write!(
            formatter,
            "p50 {}, p99 {}, max {}",
            ms(self.p50_us),
            ms(self.p99_us),
            ms(self.max_us)
        )
    }
}
