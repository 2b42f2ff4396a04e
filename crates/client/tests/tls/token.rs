//! A bearer token is changed while the client lives: for tokens that run out.

use std::sync::{Arc, Mutex};

use semel_client::connection::{StickyChannel, Tls};
use semel_client::{Client, Error, Reason};
use semel_proto::v1::GetKeyRequest;
use semel_proto::v1::keys_client::KeysClient;
use tokio::task::JoinSet;
use tonic::service::{InterceptorLayer, Routes};
use tonic::transport::Server;
use tonic::{Code, Request, Status};

use crate::{Authority, listen, refusal, shown_by};

/// How a call ended, by its code.
async fn by_any_node(client: &Client) -> String {
    refusal(client).await.reason().map(|reason| reason.as_str().to_owned()).unwrap_or_default()
}

async fn by_one_node(channel: &StickyChannel) -> Code {
    let asked = KeysClient::new(channel.clone()).get_key(GetKeyRequest::default()).await;
    asked.unwrap_err().code()
}

#[tokio::test]
async fn another_token_is_shown_from_the_next_call_on_by_every_clone_and_channel() {
    let wanted = Arc::new(Mutex::new("Bearer first"));
    let guarded = Arc::clone(&wanted);
    let guard = InterceptorLayer::new(move |request: Request<()>| {
        let shown = request.metadata().get("authorization").and_then(|value| value.to_str().ok());
        let is_right = shown == Some(*guarded.lock().unwrap());
        is_right.then_some(request).ok_or_else(|| Status::unauthenticated("it is another token"))
    });
    let authority = Authority::new();
    let tls = shown_by(&authority, "127.0.0.1");
    let router =
        Server::builder().tls_config(tls).unwrap().layer(guard).add_routes(Routes::default());
    let (address, incoming) = listen().await;
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { router.serve_with_incoming(incoming).await.unwrap() });

    let tls = Tls::trusting(&authority.0.pem());
    let builder = Client::builder("acme", [format!("https://{address}")]).tls(tls);
    let client = builder.bearer_token("first").build().unwrap();
    let (other, channel) = (client.for_tenant("globex"), client.sticky_channel());
    let reached = || async {
        assert_eq!(by_any_node(&client).await, "UNIMPLEMENTED");
        assert_eq!(by_any_node(&other).await, "UNIMPLEMENTED");
        assert_eq!(by_one_node(&channel).await, Code::Unimplemented);
    };
    reached().await;

    *wanted.lock().unwrap() = "Bearer second";
    assert_eq!(by_any_node(&client).await, "UNAUTHENTICATED");
    assert_eq!(by_one_node(&channel).await, Code::Unauthenticated);
    let malformed = other.set_bearer_token("sec\nond");
    assert!(matches!(malformed, Err(Error::Settings(_))), "{malformed:?}");

    other.set_bearer_token("second").unwrap();
    reached().await;
    *wanted.lock().unwrap() = "Bearer first";
    assert_eq!(refusal(&client).await.reason(), Some(&Reason::Unknown("UNAUTHENTICATED".into())));
}
