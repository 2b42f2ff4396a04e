//! `semel nodes`, for people and for scripts, with its exit codes.

use semel_proto::v1::ListNodesRequest;
use semel_proto::v1::admin_client::AdminClient;
use serde_json::Value;

use crate::support::command::{Ran, run};
use crate::support::node::Node;

fn nodes(url: &str, more: &[&str]) -> Ran {
    run(&[&["nodes", "--target", url], more].concat())
}

/// Waits until the node is in its own list: it listens a moment before its first heartbeat is written.
async fn until_listed(node: &Node) {
    let mut admin = AdminClient::new(node.connect().await);
    let listing = async {
        while admin
            .list_nodes(ListNodesRequest::default())
            .await
            .unwrap()
            .into_inner()
            .nodes
            .is_empty()
        {}
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), listing).await.unwrap();
}

#[tokio::test]
async fn a_node_lists_itself() {
    let node = Node::start(&[]);
    until_listed(&node).await;
    let listed = nodes(&node.url, &["--json"]).ended_with(0).json();
    assert_eq!(listed["nodes"].as_array().unwrap().len(), 1, "{listed}");
    let seen = &listed["nodes"][0];
    assert_eq!(seen["node"], listed["answered_by"]);
    assert_eq!(format!("http://{}", seen["address"].as_str().unwrap()), node.url);
    assert_eq!(seen["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(
        (&seen["heartbeat_interval_ms"], &seen["unreadable"]),
        (&2_000.into(), &false.into())
    );
    let formats: Vec<&Value> =
        seen["formats"].as_array().unwrap().iter().map(|format| &format["record"]).collect();
    assert_eq!(formats, ["breaker", "budget", "keys", "node"]);
    assert!(seen["load"]["connections"].is_u64(), "{seen}");

    let table = nodes(&node.url, &[]).ended_with(0).out;
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("NODE") && lines[0].ends_with("CLOCK"), "{table}");
    let name = format!("{}*", &seen["node"].as_str().unwrap()[..8]);
    assert!(lines.len() == 2 && lines[1].starts_with(&name), "{table}");

    node.assert_calm();
}

#[test]
fn a_list_that_makes_no_sense_or_reaches_nobody_says_so_by_its_code() {
    let node = Node::start(&[]);
    let wrong = nodes(&node.url, &["--page-token", "6b", "--json"]).ended_with(2).json();
    assert_eq!(wrong["error"]["reason"], "PAGE_INVALID");
    let usage = nodes(&node.url, &["--limit", "x"]).ended_with(2);
    assert!(usage.err.contains("error"), "{usage:?}");
    let url = node.url.clone();
    drop(node);
    let gone = nodes(&url, &["--json"]).ended_with(3).json();
    assert_eq!(gone["error"]["code"], "UNREACHABLE");
}
