//! Whom the machine trusts is its environment's to say, and a process has only one: so the client asks from a
//! process of its own, which is this program again.

use std::path::{Path, PathBuf};
use std::process::Command;

use semel_client::Client;
use tokio::task::{JoinSet, block_in_place};
use tonic::service::Routes;
use tonic::transport::Server;

use crate::{Authority, listen, refusal, shown_by};

const NODE: &str = "SEMEL_TEST_NODE";
const ASKS: &str = "machine::asks_a_node_without_a_word_about_trust";

#[tokio::test]
#[ignore = "a part of the others, run with other variables"]
async fn asks_a_node_without_a_word_about_trust() {
    match Client::connect("acme", [std::env::var(NODE).unwrap()]) {
        Ok(client) => println!("{}", refusal(&client).await),
        Err(error) => println!("refused: {error}"),
    }
}

/// What a client says that trusts whom this file names.
fn ask(node: &str, trusted: &Path) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", ASKS, "--ignored", "--nocapture"]).env(NODE, node);
    let output = command.env("SSL_CERT_FILE", trusted).env_remove("SSL_CERT_DIR").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn file(name: &str, authority: &Authority) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, authority.0.pem()).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_by_https_is_trusted_as_far_as_the_machine_trusts_it() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let tls = shown_by(&authority, "127.0.0.1");
    let router = Server::builder().tls_config(tls).unwrap().add_routes(Routes::default());
    let (address, incoming) = listen().await;
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { router.serve_with_incoming(incoming).await.unwrap() });

    let node = format!("https://{address}");
    let ask = |trusted: &Path| block_in_place(|| ask(&node, trusted));
    let trusted = ask(&file("trusted.pem", &authority));
    assert!(trusted.contains("UNIMPLEMENTED"), "{trusted}");
    let untrusted = ask(&file("stranger.pem", &stranger));
    assert!(untrusted.contains("no node answered"), "{untrusted}");

    let nobody = ask(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("nobody.pem"));
    for part in ["refused: ", &node, "no certificate authority", "ca-certificates", "nobody.pem"] {
        assert!(nobody.contains(part), "{part} is not said: {nobody}");
    }
}
