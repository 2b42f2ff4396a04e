//! A node whose clock is off decides nothing that its clock has a part in, and comes back by itself.

use std::sync::Arc;
use std::time::Duration;

use semel_proto::v1;
use semel_proto::v1::admin_client::AdminClient;
use semel_store::{Clock, ManualClock, Space};
use tokio::task::JoinSet;
use tokio_stream::StreamExt;
use tonic::Streaming;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::support::*;

const DAY_US: u64 = 24 * 60 * 60 * 1_000_000;

/// A node with a clock of its own, and the changes of its health.
struct Skewed {
    node: TestNode,
    store_clock: ManualClock,
    node_clock: ManualClock,
    health: Streaming<HealthCheckResponse>,
}

impl Skewed {
    async fn start() -> Self {
        let (store_clock, node_clock) = (ManualClock::new(NOON_US), ManualClock::new(NOON_US));
        let shared: Arc<dyn Clock> = Arc::new(store_clock.clone());
        let often = |options: &mut semel_server::NodeOptions| {
            options.heartbeat_interval = Duration::from_millis(10);
            options.keys.sweep_interval = Duration::from_millis(10);
        };
        let clock = Arc::new(node_clock.clone());
        let node = TestNode::over(Observed::new(shared), clock, often).await;
        let mut health = HealthClient::new(channel(node.address()).await);
        let request = HealthCheckRequest { service: "semel.v1.Admin".to_owned() };
        let health = health.watch(request).await.expect("watches").into_inner();
        Self { node, store_clock, node_clock, health }
    }

    /// Sets the node's clock so much ahead of the store's, and waits until its health says that it is
    /// well or not.
    async fn off_us(&mut self, offset_us: i64, well: bool) {
        self.node_clock.set_us(self.store_clock.now_us().saturating_add_signed(offset_us));
        let wanted = if well { ServingStatus::Serving } else { ServingStatus::NotServing };
        loop {
            let change = within(self.health.next()).await.expect("it lives").expect("answered");
            if change.status() == wanted {
                return;
            }
        }
    }
}

impl Skewed {
    /// Waits for a heartbeat that is not there yet.
    async fn until_beaten(&self) {
        self.store_clock.advance_us(1);
        self.node_clock.advance_us(1);
        let now_us = self.store_clock.now_us();
        let mut admin = AdminClient::new(channel(self.node.address()).await);
        let beaten = async {
            loop {
                let listed = admin.list_nodes(v1::ListNodesRequest::default()).await;
                let listed = listed.expect("listed").into_inner();
                let last = listed.nodes.first().map(|node| time_us(node.last_heartbeat_at));
                if last.is_some_and(|last_us| last_us >= now_us) {
                    return;
                }
            }
        };
        within(beaten).await;
    }
}

fn refused(result: Result<impl std::fmt::Debug, Refused>) {
    let refusal = result.expect_err("its clock is off");
    assert_eq!(refusal.named(), ("STORE_UNAVAILABLE", None));
    assert!(refusal.message.contains("clock") && refusal.retry_after.is_some(), "{refusal:?}");
}

#[tokio::test]
async fn a_node_whose_clock_is_off_decides_by_it_or_never_comes_back() {
    for offset_us in [1_000_001, -1_000_001, 3_600_000_000] {
        let mut skewed = Skewed::start().await;
        let keys = skewed.node.keys.clone();
        let (held, done) = (claim("held"), claim("done"));
        let fence = keys.claim(held.clone()).await.expect("granted").fence;
        let done_fence = keys.claim(done.clone()).await.expect("granted").fence;
        keys.complete(succeed(&done, done_fence, "x")).await.expect("completed");
        keys.replay(replay(&done)).await.expect("kept in memory from now on");

        skewed.off_us(offset_us, false).await;
        refused(keys.claim(claim("new")).await);
        refused(keys.claim(done.clone().owner(2)).await);
        refused(keys.replay(replay(&done)).await);
        refused(keys.claim_all(v1::ClaimKeysRequest { claims: vec![claim("batch")] }).await);
        let malformed = keys.claim(claim("")).await.expect_err("malformed, whatever the clock");
        assert_eq!(malformed.named(), ("KEY_INVALID", Some("key")));
        // What was begun can be brought to its end, by the store's time.
        keys.renew(renew(&held, fence, 1)).await.expect("renewed");
        keys.complete(succeed(&held, fence, "x")).await.expect("completed");
        let listed = keys.list(list()).await.expect("listed").keys;
        let states: Vec<_> = listed.iter().map(v1::KeyView::state).collect();
        assert_eq!(states, [v1::KeyState::Succeeded; 2], "as of the store's time");

        skewed.off_us(0, true).await;
        keys.claim(claim("new")).await.expect("granted");
        keys.replay(replay(&held)).await.expect("answered");
    }
}

#[tokio::test]
async fn a_clock_within_what_is_allowed_is_taken_for_wrong() {
    for offset_us in [999_000, -999_000] {
        let mut skewed = Skewed::start().await;
        skewed.off_us(offset_us, true).await;
        // Some heartbeats later, too.
        for _ in 0..3 {
            let used = skewed.node.store.seen().ended;
            skewed.node.keys.claim(claim("k")).await.expect("answered");
            skewed.node.store.until(|seen| seen.ended > used).await;
        }
    }
}

#[tokio::test]
async fn a_waiter_outlasts_the_trust_in_the_clock() {
    let mut skewed = Skewed::start().await;
    skewed.node.keys.claim(claim("k")).await.expect("granted");
    let armed = skewed.node.store.seen().watches;
    let keys = skewed.node.keys.clone();
    let mut waiting = JoinSet::new();
    waiting.spawn(async move { keys.claim(claim("k").owner(2).wait_ms(3_600_000)).await });
    skewed.node.store.until(|seen| seen.watches > armed).await;
    skewed.off_us(-5_000_000, false).await;
    // It looks again every two seconds.
    refused(within(waiting.join_next()).await.expect("one").expect("no panic"));
}

#[tokio::test]
async fn a_node_whose_clock_is_off_sweeps() {
    let mut skewed = Skewed::start().await;
    let request = claim("k");
    let fence = skewed.node.keys.claim(request.clone()).await.expect("granted").fence;
    skewed.node.keys.complete(succeed(&request, fence, "x")).await.expect("completed");
    skewed.off_us(2_000_000, false).await;
    let before = skewed.node.store.seen().begun;
    skewed.store_clock.advance_us(2 * DAY_US);
    skewed.node_clock.advance_us(2 * DAY_US);
    // It would sweep about as often as its heart beats.
    for _ in 0..5 {
        skewed.until_beaten().await;
    }
    assert_eq!(skewed.node.store.rows(Space::Records).await.len(), 1, "nothing was removed");
    assert_eq!(skewed.node.store.seen().begun, before, "and nothing was tried");
    skewed.off_us(0, true).await;
    while !skewed.node.store.rows(Space::Records).await.is_empty() {
        let ended = skewed.node.store.seen().ended;
        skewed.node.store.until(|seen| seen.ended > ended).await;
    }
}
