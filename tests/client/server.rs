//! A server of HTTP whose writes happen once, in a process of its own: the example `charge`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::support::node::{Node, Process};

const CONNECTIONS: usize = 64;
const LONG: Duration = Duration::from_secs(30);

/// The built example.
fn example() -> &'static Path {
    static EXAMPLE: OnceLock<PathBuf> = OnceLock::new();
    EXAMPLE.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut build = Command::new(env!("CARGO"));
        build.current_dir(root).args(["build", "--locked", "--message-format", "json"]);
        let built = build.args(["-p", "semel-client", "--example", "charge"]).output().unwrap();
        let Output { status, stdout, stderr } = built;
        assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
        let messages = stdout.split(|byte| *byte == b'\n');
        let executable = messages
            .filter_map(|message| serde_json::from_slice::<Value>(message).ok())
            .filter(|message| message["target"]["name"] == "charge")
            .find_map(|message| message["executable"].as_str().map(PathBuf::from));
        executable.expect("cargo says where it put the example")
    })
}

/// A server, ended by force when it is dropped.
struct Server {
    address: SocketAddr,
    _process: Process,
}

impl Server {
    fn start(node: &Node, ledger: &Path) -> Self {
        let mut serve = Command::new(example());
        serve.args(["serve", &node.url]).arg(ledger);
        let mut process = Process(serve.stdout(Stdio::piped()).spawn().unwrap());
        let mut line = String::new();
        BufReader::new(process.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").expect("it says where it listens");
        Self { address: address.parse().unwrap(), _process: process }
    }
}

fn charges(ledger: &Path) -> usize {
    std::fs::read_to_string(ledger).map_or(0, |ledger| ledger.lines().count())
}

#[derive(Debug)]
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Answer {
    fn reason(&self) -> Option<String> {
        let told: Value = serde_json::from_slice(&self.body).ok()?;
        told["reason"].as_str().map(str::to_owned)
    }

    fn is_replayed(&self) -> bool {
        self.headers.contains_key("idempotency-replayed")
    }
}

async fn charge(address: SocketAddr, order: &str) -> Answer {
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut sender, connection) = http1::handshake(stream).await.unwrap();
    let request = Request::post("/charges")
        .header("host", "localhost")
        .header("idempotency-key", format!("\"{order}\""))
        .body(Full::new(Bytes::from_static(b"4200 EUR")))
        .unwrap();
    let answer = async move {
        let (parts, body) = sender.send_request(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer { status: parts.status, headers: parts.headers, body }
    };
    let (answer, connection) =
        timeout(LONG, async { tokio::join!(answer, connection) }).await.expect("an answer comes");
    connection.unwrap();
    answer
}

/// Comes again as long as it is told to, and says how often it was.
async fn charge_at_last(address: SocketAddr, order: String) -> (Answer, u32) {
    let mut conflicts = 0;
    loop {
        let answer = charge(address, &order).await;
        if answer.status != StatusCode::CONFLICT {
            return (answer, conflicts);
        }
        assert_eq!(answer.reason().as_deref(), Some("IN_PROGRESS"), "{answer:?}");
        conflicts += 1;
        let seconds = answer.headers["retry-after"].to_str().unwrap().parse().unwrap();
        sleep(Duration::from_secs(seconds)).await;
    }
}

#[test]
fn over_http_the_impatient_caller_is_charged_once() {
    let node = Node::start(&[]);
    let played = Command::new(example()).args(["play", &node.url]).output().unwrap();
    let said = String::from_utf8(played.stdout).unwrap();
    print!("{said}");
    assert!(played.status.success(), "{said}");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 4, "{said}");
    assert!(lines[0].starts_with("attempt 1: no answer"), "{said}");
    assert!(lines[1].starts_with("attempt 2: 409") && lines[1].contains("IN_PROGRESS"), "{said}");
    let replayed = "attempt 3: 201 Created, replayed: true: charged under semel-";
    assert!(lines[2].starts_with(replayed), "{said}");
    assert_eq!(lines[3], "charges: 1");
    node.assert_calm();
}

#[tokio::test]
async fn of_64_connections_with_one_key_one_charges() {
    let (node, folder) = (Node::start(&[]), TempDir::new().unwrap());
    let ledger = folder.path().join("ledger");
    let server = Server::start(&node, &ledger);
    let mut callers = JoinSet::new();
    for _ in 0..CONNECTIONS {
        callers.spawn(charge_at_last(server.address, "order-1".to_owned()));
    }
    let (mut bodies, mut first, mut conflicts) = (BTreeMap::<Bytes, usize>::new(), 0, 0);
    while let Some(answered) = callers.join_next().await {
        let (answer, told) = answered.unwrap();
        assert_eq!(answer.status, StatusCode::CREATED, "{answer:?}");
        first += usize::from(!answer.is_replayed());
        conflicts += told;
        *bodies.entry(answer.body).or_default() += 1;
    }
    println!("{CONNECTIONS} connections: {first} charged, {conflicts} times told to come again");
    assert_eq!(first, 1);
    assert_eq!(bodies.into_values().collect::<Vec<_>>(), [CONNECTIONS], "all got the same bytes");
    assert_eq!(charges(&ledger), 1);
    node.assert_calm();
}

#[tokio::test]
async fn a_server_that_dies_after_the_effect_never_charges_again() {
    let (node, folder) = (Node::start(&[]), TempDir::new().unwrap());
    let ledger = folder.path().join("ledger");
    let dying = Server::start(&node, &ledger);
    let mut lost = TcpStream::connect(dying.address).await.unwrap();
    let request = "POST /charges HTTP/1.1\r\nhost: localhost\r\nidempotency-key: \"order-1\"\r\n\
                   content-length: 8\r\n\r\n4200 EUR";
    tokio::io::AsyncWriteExt::write_all(&mut lost, request.as_bytes()).await.unwrap();
    let charged = async {
        while charges(&ledger) == 0 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LONG, charged).await.expect("it charges");
    // By SIGKILL, half of a charge before the completion.
    drop(dying);

    let next = Server::start(&node, &ledger);
    let settled = async {
        let mut told = Vec::new();
        loop {
            let answer = charge(next.address, "order-1").await;
            assert_eq!(answer.status, StatusCode::CONFLICT, "{answer:?}");
            let reason = answer.reason().unwrap();
            let over = reason == "OUTCOME_UNKNOWN";
            told.push(reason);
            if over {
                return told;
            }
            sleep(Duration::from_millis(200)).await;
        }
    };
    let told = timeout(LONG, settled).await.expect("the lease runs out");
    println!("after the crash: {told:?}");
    let (last, before) = told.split_last().unwrap();
    assert_eq!(last, "OUTCOME_UNKNOWN");
    assert!(before.iter().all(|reason| reason == "IN_PROGRESS"), "{told:?}");
    assert_eq!(charge(next.address, "order-1").await.reason().as_deref(), Some("OUTCOME_UNKNOWN"));
    assert_eq!(charges(&ledger), 1);
    node.assert_calm();
}
