//! The client against a server that speaks TLS and wants to know who calls.
//!
//! # Layout
//!
//! - `machine`: whom the machine trusts is trusted, without a word about it
//! - `token`: a bearer token that is changed while the client lives

#![cfg(feature = "tls")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod machine;
mod token;

use std::net::SocketAddr;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use semel_client::connection::Tls;
use semel_client::keys::ReplayRequest;
use semel_client::{Client, Deadline, Error, Reason};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::service::Routes;
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};

/// An authority, and what it issues.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap())
    }

    /// A certificate for this name and its key, as PEM texts.
    fn issue(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (parameters.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }
}

/// A server that knows no service at all: that it says so shows that it was reached.
async fn serve(authority: &Authority, tasks: &mut JoinSet<()>) -> SocketAddr {
    let tls = shown_by(authority, "semel.example")
        .client_ca_root(Certificate::from_pem(authority.0.pem()));
    let router = Server::builder().tls_config(tls).unwrap().add_routes(Routes::default());
    let (address, incoming) = listen().await;
    tasks.spawn(async move { router.serve_with_incoming(incoming).await.unwrap() });
    address
}

/// A server's side of TLS, by this name.
fn shown_by(authority: &Authority, name: &str) -> ServerTlsConfig {
    let (certificate, key) = authority.issue(name);
    ServerTlsConfig::new().identity(Identity::from_pem(certificate, key))
}

async fn listen() -> (SocketAddr, TcpListenerStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    (listener.local_addr().unwrap(), TcpListenerStream::new(listener))
}

async fn ask(address: SocketAddr, tls: Tls) -> Error {
    let node = format!("https://{address}");
    refusal(&Client::builder("acme", [node]).tls(tls).build().unwrap()).await
}

/// What a server without any service says, or what kept the client from hearing it.
async fn refusal(client: &Client) -> Error {
    let deadline = Deadline::within(Duration::from_secs(2));
    client.replay(&ReplayRequest::new("charge", "k"), deadline).await.unwrap_err()
}

#[tokio::test]
async fn both_sides_show_who_they_are() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let mut tasks = JoinSet::new();
    let address = serve(&authority, &mut tasks).await;
    let (certificate, key) = authority.issue("a caller");
    let trusting = |authority: &Authority| Tls::trusting(&authority.0.pem());

    let known = trusting(&authority).server_name("semel.example").identity(&certificate, &key);
    let reached = ask(address, known).await;
    assert_eq!(reached.reason().map(Reason::as_str), Some("UNIMPLEMENTED"), "{reached:?}");

    let unknown_caller = trusting(&authority).server_name("semel.example");
    let unknown_server =
        trusting(&stranger).server_name("semel.example").identity(&certificate, &key);
    let another_name = trusting(&authority).identity(&certificate, &key);
    for tls in [unknown_caller, unknown_server, another_name] {
        let error = ask(address, tls).await;
        assert!(matches!(error, Error::Unanswered { .. }), "{error:?}");
        assert!(error.is_repeatable());
        println!("{error}");
    }
}

#[tokio::test]
async fn what_can_not_be_secret_is_refused_before_anything_is_sent() {
    let authority = Authority::new();
    let refused = |node: &str, tls: Tls| {
        let built = Client::builder("acme", [node]).bearer_token("secret").tls(tls).build();
        let error = built.unwrap_err();
        assert!(matches!(error, Error::Settings(_)), "{error:?}");
        error.to_string()
    };
    let trusting = || Tls::trusting(&authority.0.pem());
    assert!(refused("http://127.0.0.1:7450", trusting()).contains("write https://HOST:PORT"));
    assert!(refused("https://127.0.0.1:7450", Tls::trusting("")).contains("BEGIN CERTIFICATE"));
    let nobody = trusting().identity("no certificate", "no key");
    assert!(refused("https://127.0.0.1:7450", nobody).contains("https://127.0.0.1:7450"));
}
