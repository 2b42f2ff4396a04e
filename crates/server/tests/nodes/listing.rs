//! Who is there, and who is gone.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_domain::node::layout::record_key;
use semel_domain::node::{Load, NodeId, Record, encode};
use semel_domain::time::Timestamp;
use semel_proto::v1;
use semel_proto::v1::admin_client::AdminClient;
use semel_store::{Change, Durability, ManualClock, Store, Transition, Update, ValueChange};

use crate::support::*;

async fn list(
    node: &TestNode,
    page_size: u32,
    token: &str,
) -> Result<v1::ListNodesResponse, Refused> {
    let mut admin = AdminClient::new(channel(node.address()).await);
    let request = v1::ListNodesRequest { page_size, page_token: token.to_owned() };
    let listed = admin.list_nodes(request).await;
    listed.map(tonic::Response::into_inner).map_err(|status| Refused::of(&status))
}

/// Lists until so many are there: a node listens before its first heartbeat is written.
async fn until_listed(node: &TestNode, count: usize) -> v1::ListNodesResponse {
    let listing = async {
        loop {
            let listed = list(node, 0, "").await.expect("listed");
            if listed.nodes.len() == count {
                return listed;
            }
            tokio::task::yield_now().await;
        }
    };
    within(listing).await
}

/// Another node over the same store.
async fn join(node: &TestNode, clock: &ManualClock) -> TestNode {
    let clock = Arc::new(clock.clone());
    TestNode::over(node.store.share(clock.clone()), clock, |_| {}).await
}

/// Writes bytes as they are.
#[derive(Clone)]
struct Put(Bytes);

impl Transition for Put {
    type Outcome = ();

    fn apply(&self, _: Option<&[u8]>, _: u64) -> (Change, ()) {
        (Change { value: ValueChange::Put(self.0.clone()), index: Vec::new() }, ())
    }
}

/// The record of a node that is silent since `at_us`, with a heartbeat each second.
async fn leave_behind(node: &TestNode, id: u8, at_us: u64) {
    let record = Record {
        touched_at: Timestamp::from_micros(at_us),
        started_at: Timestamp::from_micros(at_us),
        seq: 1,
        interval: Duration::from_secs(1),
        version: "0.0.1".into(),
        address: "10.0.0.9:7450".into(),
        formats: Vec::new(),
        load: Load::default(),
        clock: None,
    };
    put(node, id, encode(&record)).await;
}

async fn put(node: &TestNode, id: u8, bytes: Bytes) {
    let (key, durability) = (record_key(NodeId([id; 16])), Durability::Relaxed);
    let update = Update { key, durability, patience: None, transition: Put(bytes) };
    node.store.update(vec![update]).await.pop().expect("one").expect("written");
}

fn ids(listed: &v1::ListNodesResponse) -> Vec<Bytes> {
    listed.nodes.iter().map(|node| node.node.clone()).collect()
}

#[tokio::test]
async fn a_node_is_missing_or_one_that_ended_is_listed() {
    let (first, clock) = TestNode::manual(|_| {}).await;
    let alone = until_listed(&first, 1).await;
    let seen = &alone.nodes[0];
    assert_eq!(seen.node, alone.node, "the node that answers");
    assert_eq!((seen.node.len(), seen.unreadable), (16, false));
    assert_eq!(seen.address, first.address().to_string());
    assert_eq!(seen.version, env!("CARGO_PKG_VERSION"));
    assert_eq!(time_us(seen.started_at), NOON_US);
    assert_eq!(time_us(seen.last_heartbeat_at), NOON_US);
    assert_eq!(time_us(alone.now), NOON_US);
    assert_eq!(duration(seen.heartbeat_interval), Duration::from_secs(2));
    let formats: Vec<_> = seen.formats.iter().map(|format| format.record.as_str()).collect();
    assert_eq!(formats, ["breaker", "budget", "keys", "node"]);
    let reads_what_it_writes =
        |format: &v1::RecordFormat| (format.reads_from..=format.reads_to).contains(&format.writes);
    assert!(seen.formats.iter().all(reads_what_it_writes), "{seen:?}");

    let second = join(&first, &clock).await;
    let both = until_listed(&first, 2).await;
    let same = until_listed(&second, 2).await;
    assert_eq!(ids(&both), ids(&same));
    assert_ne!(same.node, both.node);
    second.shutdown().await;
    assert_eq!(ids(&list(&first, 0, "").await.expect("listed")), [alone.node], "gone at once");
}

#[tokio::test]
async fn a_node_that_died_is_listed_for_ever_or_its_record_stays() {
    let often = |options: &mut semel_server::NodeOptions| {
        options.leftovers_interval = Duration::from_millis(10);
        // Its own heartbeats come by the machine's time, which passes more slowly than the test's.
        options.heartbeat_interval = Duration::from_secs(60);
    };
    let (node, clock) = TestNode::manual(often).await;
    until_listed(&node, 1).await;
    // Its id is the first of all.
    leave_behind(&node, 0, NOON_US).await;
    assert_eq!(until_listed(&node, 2).await.nodes[0].address, "10.0.0.9:7450");
    clock.advance_us(3_000_000);
    assert_eq!(until_listed(&node, 2).await.nodes[0].version, "0.0.1");
    clock.advance_us(1);
    let listed = list(&node, 0, "").await.expect("listed");
    assert_eq!(ids(&listed), [listed.node], "it missed three heartbeats");

    clock.advance_us(60_000_000);
    let key = record_key(NodeId([0; 16]));
    let mut gone = node.store.watch(&key);
    if node.store.has(&key).await {
        within(gone.changed()).await;
    }
    assert!(!node.store.has(&key).await);
}

#[tokio::test]
async fn a_page_is_larger_than_asked_for_or_loses_somebody() {
    let (node, _clock) = TestNode::manual(|_| {}).await;
    until_listed(&node, 1).await;
    for id in [1, 2, 254] {
        leave_behind(&node, id, NOON_US).await;
    }
    // It must not hide, nor hide those behind it.
    put(&node, 3, Bytes::from_static(&[99])).await;
    let all = list(&node, 0, "").await.expect("listed");
    assert_eq!((all.nodes.len(), all.next_page_token.as_str()), (5, ""));
    assert!(all.nodes.is_sorted_by(|one, next| one.node < next.node));
    let unreadable = |node: &&v1::NodeSnapshot| node.unreadable;
    let strange: Vec<_> = all.nodes.iter().filter(unreadable).map(|node| &node.node[..]).collect();
    assert_eq!(strange, [[3; 16]]);

    let (mut token, mut paged) = (String::new(), Vec::new());
    loop {
        let page = list(&node, 2, &token).await.expect("listed");
        assert!(page.nodes.len() <= 2);
        paged.extend(ids(&page));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(paged, ids(&all));
    let refused = list(&node, 1_001, "").await.expect_err("too large");
    assert_eq!(refused.named(), ("PAGE_INVALID", Some("page_size")));
    for token in ["zz", "6b", "6"] {
        let refused = list(&node, 0, token).await.expect_err("of no page");
        assert_eq!(refused.named(), ("PAGE_INVALID", Some("page_token")), "{token}");
    }
}

#[tokio::test]
async fn without_the_store_somebody_is_listed_as_live() {
    let (node, _clock) = TestNode::manual(|_| {}).await;
    until_listed(&node, 1).await;
    node.store.faults().set_down(true);
    let refused = list(&node, 0, "").await.expect_err("nobody knows");
    assert_eq!(refused.named(), ("STORE_UNAVAILABLE", None));
}

#[tokio::test]
async fn an_address_that_nobody_could_use_is_told_to_others() {
    for address in ["", "a b", "a\n", &"x".repeat(256)] {
        let advertised_address = Some(address.to_owned());
        let options = semel_server::NodeOptions { advertised_address, ..<_>::default() };
        assert_eq!(options.check().expect_err(address).option, "advertised_address");
    }
    let behind = |options: &mut semel_server::NodeOptions| {
        options.advertised_address = Some("semel-3.example.com:7450".to_owned());
    };
    let node = TestNode::with(behind).await;
    assert_eq!(until_listed(&node, 1).await.nodes[0].address, "semel-3.example.com:7450");
}

/// Each heartbeat tells what came since the one before.
#[tokio::test]
async fn a_node_says_that_it_has_nothing_to_do() {
    let often = |options: &mut semel_server::NodeOptions| {
        options.heartbeat_interval = Duration::from_millis(20);
    };
    let node = TestNode::with(often).await;
    let busy = async {
        loop {
            let listed = list(&node, 0, "").await.expect("listed");
            let load = listed.nodes.first().and_then(|node| node.load).unwrap_or_default();
            if load.calls_per_second > 0 {
                return listed;
            }
        }
    };
    let listed = within(busy).await;
    assert!(listed.nodes[0].load.expect("a load").connections > 0, "{listed:?}");
    let clock = listed.nodes[0].clock.expect("it was measured");
    assert!(clock.offset_us.abs() <= 1_000_000, "the clock is the store's own: {clock:?}");
}
