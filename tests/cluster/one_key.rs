//! Many connections to all nodes want one key at the same instant.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use semel_proto::v1::ClaimKeyRequest;
use semel_proto::v1::claim_key_response::Disposition;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::call::{Client, within};
use crate::cluster::{Cluster, NODES};
use crate::databases::Database;
use crate::support::ask::{body, claim, complete, owner, replay, replayed_body};
use crate::support::settings::number;

const CONNECTIONS: usize = 240;
const DEADLINE: Duration = Duration::from_secs(30);

/// What one connection came to.
#[derive(Debug, Default)]
struct Came {
    claimed: u64,
    asked: u64,
    body: Vec<u8>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_is_given_the_claim_and_all_get_the_same_bytes() {
    let Some(cluster) = Cluster::over_postgres("one key on three nodes").await else { return };
    race(&cluster).await;
}

/// Has many connections race for one key after the other.
pub(crate) async fn race<D: Database>(cluster: &Cluster<D>) {
    let keys = number("SEMEL_CLUSTER_KEYS", 5);
    let clients: Vec<Client> =
        (0..CONNECTIONS).map(|number| cluster.members[number % NODES].client()).collect();
    for round in 0..keys {
        let key = format!("wanted-{round}");
        let start = Arc::new(Barrier::new(CONNECTIONS));
        let mut callers = JoinSet::new();
        for (number, client) in clients.iter().enumerate() {
            let (client, key, start) = (client.clone(), key.clone(), Arc::clone(&start));
            callers.spawn(async move { want(client, &key, number, &start).await });
        }
        let came: Vec<Came> = callers.join_all().await;
        let claimed: u64 = came.iter().map(|came| came.claimed).sum();
        let asked: u64 = came.iter().map(|came| came.asked).sum();
        let mut bodies: BTreeSet<Vec<u8>> = came.into_iter().map(|came| came.body).collect();
        for client in cluster.clients() {
            let request = within(DEADLINE, replay(&key));
            let reply = client.keys.clone().replay_key(request).await.unwrap().into_inner();
            let completion = reply.completion.unwrap();
            bodies.insert(body(completion.response.as_ref().unwrap()).to_vec());
        }
        println!(
            "{key}: {CONNECTIONS} connections to {NODES} nodes: {claimed} CLAIMED, {asked} claims \
             asked for, {} different answers, 0 errors",
            bodies.len()
        );
        assert_eq!((claimed, bodies.len()), (1, 1));
    }
    cluster.assert_calm();
}

/// Claims the key at the same instant as all others. Who gets it completes it; of the others, half wait and
/// half ask again when they were told to.
async fn want(client: Client, key: &str, number: usize, start: &Barrier) -> Came {
    let mut keys = client.keys;
    let wait = number.is_multiple_of(2).then(|| Duration::from_secs(20).try_into().unwrap());
    let own = owner(u128::try_from(number).unwrap());
    let request = ClaimKeyRequest { wait, ..claim(key, own) };
    // The connection is there before the race begins.
    let ready = keys.replay_key(within(DEADLINE, replay("nobody-has-it"))).await;
    assert_eq!(ready.unwrap_err().code(), tonic::Code::NotFound);
    let mut came = Came::default();
    start.wait().await;
    loop {
        came.asked += 1;
        let reply = keys.claim_key(within(DEADLINE, request.clone())).await.unwrap().into_inner();
        match reply.disposition() {
            Disposition::Claimed => {
                came.claimed += 1;
                let answer = format!("{key} by {number}");
                let done = complete(key, own, reply.fence, answer.as_bytes());
                keys.complete_key(within(DEADLINE, done)).await.unwrap();
                came.body = answer.into_bytes();
                return came;
            }
            Disposition::InProgress => {
                let after: Duration = reply.retry_after.unwrap().try_into().unwrap();
                tokio::time::sleep(after.min(Duration::from_millis(500))).await;
            }
            _ => {
                came.body = replayed_body(&reply).to_vec();
                return came;
            }
        }
    }
}
