//! A breaker changes by a call to one node, and whoever watches it is told by every node, in order.

use std::time::Duration;

use futures::future::join_all;
use semel_proto::v1::{
    BreakerOverride, OverrideBreakerRequest, WatchBreakersRequest, WatchBreakersResponse,
};
use tonic::Streaming;

use crate::call::{Client, now_us, timed, within};
use crate::cluster::{Cluster, NODES};
use crate::databases::Database;
use crate::support::ask::TENANT;

const ROUNDS: usize = 30;
const DEPENDENCY: &str = "watched";
const DEADLINE: Duration = Duration::from_secs(5);
/// How soon a change is told, after the reply of whoever made it.
const TOLD_MAX_US: u64 = 500_000;

/// A stream of changes, and what it told last.
struct Watch {
    changes: Streaming<WatchBreakersResponse>,
    generation: Option<u64>,
}

impl Watch {
    async fn open(client: &Client) -> Self {
        let dependencies = vec![DEPENDENCY.to_owned()];
        let request = WatchBreakersRequest { tenant: TENANT.to_owned(), dependencies };
        let changes = client.breakers.clone().watch_breakers(request).await.unwrap().into_inner();
        Self { changes, generation: None }
    }

    /// Reads until it is told of this generation or a newer one; when that was.
    async fn until(&mut self, generation: u64) -> u64 {
        while self.generation.is_none_or(|told| told < generation) {
            let change = tokio::time::timeout(DEADLINE, self.changes.message()).await;
            let change = change.expect("no change is told").unwrap().expect("the stream ended");
            assert!(!change.degraded, "{change:?}");
            let told = change.breaker.unwrap().generation;
            assert!(self.generation.is_none_or(|before| before < told), "{told} after {self:?}");
            self.generation = Some(told);
        }
        now_us()
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:?}", self.generation)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_change_is_told_by_every_node() {
    let Some(cluster) = Cluster::over_postgres("watches of breakers").await else { return };
    watch(&cluster).await;
}

/// Changes a breaker on each node by turns, and listens on all.
pub(crate) async fn watch<D: Database>(cluster: &Cluster<D>) {
    let clients = cluster.clients();
    let mut watches = join_all(clients.iter().map(Watch::open)).await;
    join_all(watches.iter_mut().map(|watch| watch.until(0))).await;
    let (mut own_us, mut others_us) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let node = round % NODES;
        let open = round.is_multiple_of(2);
        let kind = if open { BreakerOverride::ForcedOpen } else { BreakerOverride::Reset };
        let request = OverrideBreakerRequest {
            tenant: TENANT.to_owned(),
            dependency: DEPENDENCY.to_owned(),
            r#override: kind.into(),
            expires_in: None,
            actor: "operator".to_owned(),
            reason: "a test".to_owned(),
        };
        let mut breakers = clients[node].breakers.clone();
        let made = timed(DEADLINE, breakers.override_breaker(within(DEADLINE, request))).await;
        let generation = made.result.unwrap().breaker.unwrap().generation;
        let told_us = join_all(watches.iter_mut().map(|watch| watch.until(generation))).await;
        for (by, at_us) in told_us.into_iter().enumerate() {
            let late_us = at_us.saturating_sub(made.ended_us);
            if by == node { own_us.push(late_us) } else { others_us.push(late_us) }
        }
    }
    own_us.sort_unstable();
    others_us.sort_unstable();
    for (who, late_us) in [("the same node", &own_us), ("the others", &others_us)] {
        let at = |per_cent: usize| late_us[(late_us.len() - 1) * per_cent / 100];
        let (half, most, last) = (at(50), at(90), at(100));
        println!(
            "{} changes told by {who} after p50 {half}, p90 {most}, at most {last} us",
            late_us.len()
        );
        // Not the slowest: a machine that runs other tests pauses now and then.
        assert!(most < TOLD_MAX_US, "{late_us:?}");
    }
    cluster.assert_calm();
}
