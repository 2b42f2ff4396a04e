//! The store dies for good and its standby takes its place. Nothing that was acknowledged is lost if commits
//! wait for the standby; if they don't, it is, and the checker finds it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::call::{Client, Timed, now_us, timed, within};
use crate::checker::keys::{Answered, Asked, Call};
use crate::checker::{Promise, keys};
use crate::cluster::{Cluster, blocking};
use crate::databases::GatedPostgres;
use crate::load::keys::{KeyClient, Slots};
use crate::load::{Caller, Records};
use crate::standby::Commits;
use crate::support::ask::{claim, complete, owner, replay, replayed_body};
use crate::support::node::Node;
use crate::support::settings::seed;

const CLIENTS: u64 = 12;
const SLOTS: usize = 6;
const DEADLINE: Duration = Duration::from_millis(1_500);
/// How soon all must be well once the standby has taken over, on a machine that runs other tests.
const DELAY_MAX_US: u64 = 5_000_000;
/// What a node says at its start of a standby that may lack what was acknowledged.
const SAID: &str = "ACKNOWLEDGED WRITES CAN BE LOST: synchronous_standby_names is empty";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn acknowledged_completions_survive_failovers() {
    let Some(mut cluster) = Cluster::over_postgres("failovers").await else { return };
    cluster.add_standby(Commits::WaitForStandby);
    assert!(!said_at_start(&mut cluster).contains(SAID), "of a standby that commits wait for");
    let node = by_both_addresses(&cluster);
    let client = Client::at(&node.url);
    completed(&client, "before", &granted(&client, "before").await).await;

    let load = Load::start(&cluster);
    for round in 0..2 {
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        let began_us = now_us();
        cluster.fail_over();
        let over_us = now_us();
        for client in cluster.clients().iter().chain(round.eq(&0).then_some(&client)) {
            claims_again(client, &format!("after-{round}")).await;
        }
        let well_us = now_us() - over_us;
        let took_ms = (over_us - began_us) / 1_000;
        println!("failover {round}: over after {took_ms} ms, all nodes well {well_us} us later");
        assert!(well_us < DELAY_MAX_US, "{well_us} us");
        tokio::time::sleep(Duration::from_millis(500)).await;
        if round == 0 {
            let request = within(DEADLINE, claim("before", owner(2)));
            let again = client.keys.clone().claim_key(request).await.unwrap();
            assert_eq!(replayed_body(&again.into_inner()), b"kept");
            cluster.add_standby(Commits::WaitForStandby);
        }
    }
    let (records, completed) = load.stop(&cluster).await;
    let found = judge(&records);
    println!("{completed} keys completed, {:?} calls: broken {found:?}", records.counted());
    cluster.assert_calm();
    node.assert_calm();
    assert!(found.is_empty(), "{found:?}");
    assert!(completed > 10, "{completed}");
}

/// A node as teams run it, which knows all servers and takes the one that writes: the standby first, so that it must
/// have looked.
fn by_both_addresses(cluster: &Cluster<GatedPostgres>) -> Node {
    let standby = cluster.database.standby.as_ref().unwrap().server().port();
    let hosts = format!("127.0.0.1:{standby},127.0.0.1:{}", cluster.database.server.port());
    let words = "sslmode=disable&target_session_attrs=read-write";
    let url = format!("postgres://semel@{hosts}/postgres?{words}");
    blocking(|| Node::start(&["--store", &url, "--workers", "1"]))
}

/// The proof that a loss is seen: a standby that had stopped receiving takes over.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_failover_to_a_lagging_asynchronous_standby_is_found() {
    let Some(mut cluster) = Cluster::over_postgres("a lagging standby").await else { return };
    cluster.add_standby(Commits::DoNotWait);
    assert!(said_at_start(&mut cluster).contains(SAID), "of a standby that may lag");
    let load = Load::start(&cluster);
    tokio::time::sleep(Duration::from_secs(1)).await;
    blocking(|| {
        cluster.database.standby.as_ref().unwrap().stop_receiving(&cluster.database.server);
    });
    let client = &cluster.clients()[0];
    let mut lost = vec![granted(client, "lost").await];
    lost.push(completed(client, "lost", &lost[0]).await);
    tokio::time::sleep(Duration::from_secs(2)).await;
    cluster.fail_over();
    claims_again(client, "after").await;
    lost.push(gone(client, "lost").await);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (records, _) = load.stop(&cluster).await;
    let found = judge(&records);
    println!("after a standby that lagged took over, the load's histories: {found:?}");
    cluster.assert_calm();
    let found: Vec<Promise> = keys::judge(&lost).iter().map(|broken| broken.promise).collect();
    assert!(found.contains(&Promise::Linearizable), "{found:?} of {lost:?}");
}

async fn granted(client: &Client, key: &str) -> Call {
    let request = within(DEADLINE, claim(key, owner(1)));
    let told = timed(DEADLINE, client.keys.clone().claim_key(request)).await;
    let fence = told.result.as_ref().unwrap().fence;
    let answered = Answered::Granted { fence, lease_us: 0, resumed: false };
    recorded(&told, Asked::Claim { owner: owner(1), blocks: false }, answered)
}

async fn completed(client: &Client, key: &str, claim: &Call) -> Call {
    let Answered::Granted { fence, .. } = claim.answered else { panic!("{claim:?}") };
    let request = within(DEADLINE, complete(key, owner(1), fence, b"kept"));
    let told = timed(DEADLINE, client.keys.clone().complete_key(request)).await;
    assert!(told.result.is_ok(), "{told:?}");
    let asked = Asked::Complete { owner: owner(1), fence, body: b"kept".as_slice().into() };
    recorded(&told, asked, Answered::Accepted { late: false })
}

async fn gone(client: &Client, key: &str) -> Call {
    let request = within(DEADLINE, replay(key));
    let told = timed(DEADLINE, client.keys.clone().replay_key(request)).await;
    assert_eq!(told.result.as_ref().unwrap_err().code(), tonic::Code::NotFound, "nothing is lost");
    recorded(&told, Asked::Replay, Answered::NoSuchKey)
}

fn recorded<R>(told: &Timed<R>, asked: Asked, answered: Answered) -> Call {
    let (began_us, ended_us) = (told.began_us, told.ended_us);
    Call { node: 0, began_us, ended_us, asked, answered, batch: None }
}

/// What a node says when it starts with the store as it is.
fn said_at_start(cluster: &mut Cluster<GatedPostgres>) -> String {
    let before = cluster.members[0].log().len();
    cluster.members[0].terminate();
    cluster.members[0].start();
    let log = cluster.members[0].log();
    let said = log[before..].lines().filter(|line| line.contains("WARN"));
    said.collect::<Vec<_>>().join("\n")
}

/// Asks until a claim is granted.
async fn claims_again(client: &Client, key: &str) {
    let began_us = now_us();
    loop {
        let request = claim(&format!("{key}-{began_us}"), owner(1));
        let asked = timed(DEADLINE, client.keys.clone().claim_key(within(DEADLINE, request))).await;
        let Err(status) = asked.result else { return };
        assert!(now_us() - began_us < 4 * DELAY_MAX_US, "it stays lost: {status:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// How many histories break each promise.
fn judge(records: &Records) -> BTreeMap<Promise, usize> {
    let mut found = BTreeMap::new();
    for history in records.keys.lock().unwrap().values() {
        for broken in keys::judge(history) {
            *found.entry(broken.promise).or_default() += 1;
        }
    }
    found
}

/// Clients of keys.
struct Load {
    records: Arc<Records>,
    clients: JoinSet<()>,
    stop: CancellationToken,
}

impl Load {
    fn start(cluster: &Cluster<GatedPostgres>) -> Self {
        let (seed, records) = (seed(), Arc::<Records>::default());
        let (stop, slots) = (CancellationToken::new(), Arc::new(Slots::new(SLOTS)));
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS {
            let caller = Caller::new(cluster.clients(), seed.wrapping_add(number), &records);
            clients.spawn(KeyClient::new(caller, &slots).work(stop.clone()));
        }
        Self { records, clients, stop }
    }

    /// Stops them, and has all keys asked for; with what was recorded, how many are completed.
    async fn stop(self, cluster: &Cluster<GatedPostgres>) -> (Arc<Records>, usize) {
        self.stop.cancel();
        self.clients.join_all().await;
        let caller = Caller::new(cluster.clients(), 0, &self.records);
        let client = KeyClient::new(caller, &Arc::new(Slots::new(1)));
        let completed = client.ask_for_all(0, 1).await;
        (self.records, completed)
    }
}
