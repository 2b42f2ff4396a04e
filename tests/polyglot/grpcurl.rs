//! The lines that the documents show for grpcurl, as they are shown but for the address of the node.

use std::process::Output;
use std::time::Duration;

use crate::address;
use crate::program::shell_with_grpcurl;
use crate::support::node::Node;
use crate::support::settings::skip;

const SHOWN: &str = include_str!("grpcurl/example.sh");
const SHOWN_ADDRESS: &str = "127.0.0.1:7450";
const LIMIT: Duration = Duration::from_secs(30);

/// What the lines say, and how the last one of them ended.
async fn run(node: &Node, lines: &str) -> Option<Output> {
    let mut shell = shell_with_grpcurl()?;
    let shell = shell.arg(lines.replace(SHOWN_ADDRESS, &address(node)));
    Some(tokio::time::timeout(LIMIT, shell.output()).await.expect("they hang").unwrap())
}

#[tokio::test]
async fn the_lines_for_grpcurl_do_what_is_said_of_them() {
    assert!(include_str!("../../docs/languages.md").contains(SHOWN.split_once('\n').unwrap().1));
    let node = Node::start(&[]);
    let Some(first) = run(&node, SHOWN).await else {
        skip("grpcurl: it is not built");
        return;
    };
    let said = String::from_utf8_lossy(&first.stdout);
    assert!(first.status.success(), "{first:?}");
    for part in ["rpc ClaimKey", "\"disposition\": \"CLAIMED\"", "\"fence\": "] {
        assert!(said.contains(part), "{part} is not said: {said}");
    }
    let again = run(&node, SHOWN).await.unwrap();
    let said = String::from_utf8_lossy(&again.stdout);
    assert!(said.contains("\"resumed\": true"), "{said}");

    let refused = run(&node, &SHOWN.replace("order-8812", "")).await.unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success(), "{refused:?}");
    for part in ["InvalidArgument", "google.rpc.ErrorInfo", "KEY_INVALID"] {
        assert!(said.contains(part), "{part} is not said: {said}");
    }
    node.assert_calm();
}
