//! Every language with a gRPC library gets everything from the plain contract: a program in each does all
//! of `scenarios.md` against a running node, one finishes what another began, and a lost reply is asked
//! for again by the library alone.
//!
//! # Layout
//!
//! - `program`: a program in one language, and what it reports
//! - `gate`: the proxy of the cluster's tests; here it loses a reply
//! - `grpcurl`: the lines of the documents that need no program at all
//! - a folder for each language: `build` fetches, generates and compiles, where `tests/run polyglot` copied
//!   it; `run` is the program, its `example` what the documents show
//!
//! # What it does not do
//!
//! It builds nothing: `SEMEL_TEST_POLYGLOT` lists the folders where programs were built, and without it
//! there is nothing to run.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says on the standard output how it went"
)]

#[allow(dead_code, reason = "a database's gate has more to do")]
#[path = "../cluster/gate.rs"]
mod gate;
mod grpcurl;
mod program;
#[path = "../support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use semel_proto::v1::{GetKeyRequest, KeyState, ReplayKeyRequest};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::gate::{Gate, Mode, Speech};
use crate::program::{Program, programs};
use crate::support::ask::{OPERATION, TENANT, fingerprint, replay};
use crate::support::node::Node;
use crate::support::settings::skip;

/// What all programs claim keys for, framed.
const CLAIMED_FOR: &str = "15:payments.charge,9:42.00 €";

/// The answer that all programs complete keys with, as `hand-over-replay` has to tell it.
fn answer_as_told() -> String {
    let body: Vec<u8> = (0..=255).collect();
    format!(
        "status=402 type={} metadata={},{} body={}",
        hex::encode("application/octet-stream"),
        hex::encode("x-trace:first"),
        hex::encode("x-trace:zweites Stück"),
        hex::encode(body),
    )
}

#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "a test of real time reads a real clock")]
async fn every_language_does_every_scenario() {
    let node = Node::start(&[]);
    for program in programs() {
        let begun = Instant::now();
        let told = program.said(&address(&node), &[]).await;
        let wrong = program::wrong_with(&told);
        assert!(wrong.is_empty(), "{}: {wrong:?}\n{told}", program.language);
        println!("{}: every scenario, in {:?}", program.language, begun.elapsed());
    }
    node.assert_calm();
}

/// Each claims once, the next completes that, and all replay it.
#[tokio::test]
async fn what_one_language_claims_another_completes_and_all_replay() {
    let programs = programs();
    if programs.len() < 2 {
        skip("a key that passes from language to language: there are fewer than two");
        return;
    }
    let node = Node::start(&[]);
    let at = address(&node);
    for first in 0..programs.len() {
        let order: Vec<&Program> =
            programs.iter().cycle().skip(first).take(programs.len()).collect();
        let key = format!("key=claimed in {}", order[0].language);
        let claimed = order[0].part(&at, "hand-over-claim", &[&key]).await;
        let [fence, owner] = claimed.split(' ').collect::<Vec<_>>()[..] else {
            panic!("no fence and owner: {claimed}");
        };
        order[1].part(&at, "hand-over-complete", &[&key, fence, owner]).await;
        for program in &programs {
            let told = program.part(&at, "hand-over-replay", &[&key]).await;
            assert_eq!(told, answer_as_told(), "{} replays {key}", program.language);
        }
        let key = key.strip_prefix("key=").unwrap();
        let asked =
            ReplayKeyRequest { fingerprints: vec![fingerprint(CLAIMED_FOR)], ..replay(key) };
        node.keys().await.replay_key(asked).await.expect("another fingerprint");
        println!("{key}, completed in {}, replayed in all", order[1].language);
    }
    node.assert_calm();
}

#[test]
fn the_documents_tell_the_digest_of_what_all_claim() {
    let digest = hex::encode(fingerprint(CLAIMED_FOR).digest);
    let told = include_str!("../../docs/languages.md");
    assert!(told.contains(CLAIMED_FOR) && told.contains(&digest), "{digest}");
}

#[test]
fn the_documents_install_what_is_tested() {
    let told = include_str!("../../docs/languages.md");
    let tested = [
        ("`pip install ", include_str!("python/requirements.txt")),
        ("`npm install ", include_str!("node/package.json")),
    ];
    for (tool, tested) in tested {
        let libraries = told.split_once(tool).unwrap().1.split('`').next().unwrap();
        for library in libraries.split(' ') {
            assert!(tested.contains(library), "{library} is not tested");
        }
    }
}

#[tokio::test]
async fn a_lost_reply_is_asked_for_again_by_the_library() {
    let node = Node::start(&[]);
    for program in programs() {
        let gate = Gate::open(Speech::Any, Some(address(&node).parse().unwrap())).await;
        let key = format!("lost in {}", program.language);
        let mut asking = program.ask(&gate.address.to_string(), "lost-reply", &key);
        assert_eq!(asking.line().await, "ready");

        gate.set(Mode::HoldReplies);
        asking.go_on().await;
        until_claimed(&node, &key).await;
        gate.set(Mode::Cut);
        until_cut(&gate).await;
        gate.set(Mode::Pass);

        assert_eq!(asking.line().await, "ok lost-reply", "{}", program.language);
        println!("{}: the claim was resumed", program.language);
    }
    node.assert_calm();
}

fn address(node: &Node) -> String {
    node.url.strip_prefix("http://").unwrap().to_owned()
}

async fn until_claimed(node: &Node, key: &str) {
    let mut keys = node.keys().await;
    let asked = GetKeyRequest {
        tenant: TENANT.to_owned(),
        operation: OPERATION.to_owned(),
        key: key.to_owned(),
        include_body: false,
    };
    let claimed = async {
        loop {
            match keys.get_key(asked.clone()).await {
                Ok(found) => {
                    let state = found.into_inner().key.unwrap().state();
                    assert_eq!(state, KeyState::Claimed, "{key}");
                    return;
                }
                // A node tells nobody that a key is new.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), claimed).await.expect("the claim never came");
}

/// Until a connection of our own is reset: then so are those before it.
async fn until_cut(gate: &Gate) {
    if let Ok(mut connection) = TcpStream::connect(gate.address).await {
        let read = connection.read_u8().await;
        assert!(read.is_err(), "the gate passes");
    }
}
