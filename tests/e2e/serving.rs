//! How a node starts, stops, and goes on after a pause.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use semel_proto::v1::ClaimKeyRequest;
use semel_proto::v1::claim_key_response::Disposition;
use semel_proto::v1::keys_client::KeysClient;
use tokio::task::JoinSet;
use tonic::Code;
use tonic::transport::Channel;

use crate::support::ask::{
    brief_claim, claim, complete, owner, reason, replay, replayed_body, retry_after,
};
use crate::support::command::{run, semel};
use crate::support::node::{Home, Node, Process};

#[tokio::test]
async fn a_node_says_where_it_listens_and_answers_there() {
    let node = Node::start(&[]);
    assert!(node.home.data.is_dir());
    let reply = node.keys().await.claim_key(claim("k", owner(1))).await.unwrap().into_inner();
    assert_eq!(reply.disposition(), Disposition::Claimed);
    node.assert_calm();
}

#[test]
fn for_people_a_node_says_what_to_try_next_and_that_works_as_printed() {
    let folder = tempfile::tempdir().unwrap();
    let mut serve = semel();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(folder.path());
    serve.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut node = Process(serve.spawn().unwrap());
    let lines = BufReader::new(node.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let said: Vec<String> = lines.take_while(|line| !line.contains("Ctrl-C")).collect();
    let command = said.iter().find(|line| line.contains(" keys claim ")).unwrap();
    let tried = Command::new("sh").args(["-c", command]).output().unwrap();
    let out = String::from_utf8(tried.stdout).unwrap();
    assert!(tried.status.success() && out.starts_with("CLAIMED"), "{said:?}\n{out}");
}

#[test]
fn an_address_that_others_can_reach_is_refused_unless_insisted_on() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    let refused = run(&["serve", "--listen", "0.0.0.0:0", "--data", data]).ended_with(2);
    assert!(refused.err.contains("--insecure"), "{refused:?}");
    assert!(!folder.path().join("data").exists(), "a refused node leaves nothing behind");

    let mut insisted = Home::new(&["--insecure"]);
    insisted.listen = "0.0.0.0:0".to_owned();
    let node = insisted.start();
    assert!(node.url.starts_with("http://0.0.0.0:"), "{}", node.url);
}

#[test]
fn a_data_directory_belongs_to_one_node() {
    let node = Node::start(&[]);
    let data = node.home.data.to_str().unwrap();
    let second = run(&["serve", "--listen", "127.0.0.1:0", "--data", data]).ended_with(4);
    assert!(second.err.contains("in use by another process"), "{second:?}");
}

#[tokio::test]
async fn a_stop_sends_waiters_away_and_finishes_the_rest() {
    let node = Node::start(&[]);
    let mut keys = node.keys().await;
    keys.claim_key(claim("held", owner(1))).await.unwrap();
    let wait = Some(Duration::from_secs(60).try_into().unwrap());
    let mut waiting = JoinSet::new();
    for number in 2..12 {
        let mut keys = keys.clone();
        let request = ClaimKeyRequest { wait, ..claim("held", owner(number)) };
        waiting.spawn(async move { keys.claim_key(request).await });
    }
    let mut working = JoinSet::new();
    for (keys, number) in node.clients(4).await.into_iter().zip(0_u128..) {
        working.spawn(work_until_refused(keys, number << 64));
    }
    // The waiters are known to wait once the node has answered what came behind them.
    for number in 0..100 {
        keys.claim_key(claim(&format!("after-{number}"), owner(1))).await.unwrap();
    }

    node.signal("TERM");

    while let Some(refused) = waiting.join_next().await {
        let status = refused.unwrap().unwrap_err();
        assert_eq!(status.code(), Code::Unavailable, "{status:?}");
        assert_eq!(reason(&status), "SHUTTING_DOWN", "{status:?}");
        assert!(retry_after(&status).is_some(), "{status:?}");
    }
    let mut acknowledged = Vec::new();
    while let Some(answered) = working.join_next().await {
        acknowledged.extend(answered.unwrap());
    }
    let (status, home) = node.ended();
    assert_eq!((status.code(), status.signal()), (Some(0), None), "{}", home.log());

    let node = home.start();
    let mut keys = node.keys().await;
    assert!(acknowledged.len() > 4);
    for key in acknowledged {
        let reply = keys.claim_key(claim(&key, owner(9))).await.unwrap().into_inner();
        assert_eq!(replayed_body(&reply), key.as_bytes());
    }
    node.assert_calm();
}

/// Claims and completes keys until the node takes no more, and tells which were acknowledged. Every
/// refusal must be one that a client may simply send again.
async fn work_until_refused(mut keys: KeysClient<Channel>, first: u128) -> Vec<String> {
    let mut acknowledged = Vec::new();
    for number in first.. {
        let key = format!("key-{number}");
        let outcome = async {
            let fence = keys.claim_key(claim(&key, owner(number))).await?.into_inner().fence;
            keys.complete_key(complete(&key, owner(number), fence, key.as_bytes())).await
        };
        match outcome.await {
            Ok(_) => acknowledged.push(key),
            Err(status) => {
                let clear = matches!(status.code(), Code::Unavailable | Code::Cancelled);
                assert!(clear, "{status:?}");
                break;
            }
        }
    }
    acknowledged
}

#[tokio::test]
async fn after_a_pause_longer_than_the_lease_the_old_owner_is_fenced() {
    let lease = Duration::from_millis(300);
    let node = Node::start(&[]);
    let mut keys = node.keys().await;
    let old = keys.claim_key(brief_claim("k", owner(1), lease)).await.unwrap().into_inner().fence;
    node.signal("STOP");
    let waiter = ClaimKeyRequest {
        wait: Some(Duration::from_secs(30).try_into().unwrap()),
        ..brief_claim("k", owner(2), lease * 100)
    };
    let mut other = keys.clone();
    let mut taken = JoinSet::new();
    taken.spawn(async move { other.claim_key(waiter).await });
    // Nothing happens in a stopped process that could be awaited instead.
    tokio::time::sleep(lease * 2).await;
    node.signal("CONT");

    let taken = taken.join_next().await.unwrap().unwrap().unwrap().into_inner();
    assert_eq!(taken.disposition(), Disposition::TakenOver);
    assert!(taken.fence > old);
    let late = keys.complete_key(complete("k", owner(1), old, b"old")).await.unwrap_err();
    assert_eq!((late.code(), reason(&late).as_str()), (Code::FailedPrecondition, "FENCED"));
    keys.complete_key(complete("k", owner(2), taken.fence, b"new")).await.unwrap();
    let answer = keys.replay_key(replay("k")).await.unwrap().into_inner().completion.unwrap();
    assert_eq!(answer.fence, taken.fence);
}

#[tokio::test]
async fn what_was_answered_is_there_after_a_crash() {
    let node = Node::start(&[]);
    let mut keys = node.keys().await;
    let fence = keys.claim_key(claim("k", owner(1))).await.unwrap().into_inner().fence;
    keys.complete_key(complete("k", owner(1), fence, b"done")).await.unwrap();
    let node = node.kill().start();
    let mut keys = node.keys().await;
    let reply = keys.claim_key(claim("k", owner(2))).await.unwrap().into_inner();
    assert_eq!(replayed_body(&reply), b"done");
    assert_eq!(reply.completion.unwrap().fence, fence);
}
