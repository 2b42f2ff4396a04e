//! Which node a command speaks to, and how long it may take.

use std::time::Duration;

use clap::Args;
use semel_proto::v1::admin_client::AdminClient;
use semel_proto::v1::breakers_client::BreakersClient;
use semel_proto::v1::keys_client::KeysClient;
use semel_proto::v1::retries_client::RetriesClient;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic::Request;
use tonic::codegen::http::uri::Authority;
use tonic::transport::{Channel, Endpoint};

use crate::failure::{Failure, deepest};
use crate::invocation::Invocation;
use crate::values::parse_duration;

/// Where `semel serve` listens when it is not told otherwise.
pub(crate) const DEFAULT_TARGET: &str = "http://127.0.0.1:7450";

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How soon a watched node is asked whether it still lives, and how long it may take to say so.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The node to ask.
#[derive(Args, Clone, Debug)]
pub(crate) struct NodeArgs {
    /// The node to ask.
    #[arg(long, value_name = "URL", env = "SEMEL_TARGET", default_value = DEFAULT_TARGET)]
    #[arg(global = true, display_order = 101)]
    pub(crate) target: String,

    /// How long to wait for the answer (a --wait comes on top of it).
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    #[arg(global = true, display_order = 102)]
    pub(crate) timeout: Duration,
}

impl NodeArgs {
    /// A client of this node.
    pub(crate) async fn keys(&self) -> Result<KeysClient<Channel>, Failure> {
        // A stored answer may be as large as the node allows, which only the node knows.
        Ok(KeysClient::new(connect(&self.target).await?).max_decoding_message_size(usize::MAX))
    }

    /// A client of this node.
    pub(crate) async fn retries(&self) -> Result<RetriesClient<Channel>, Failure> {
        Ok(RetriesClient::new(connect(&self.target).await?))
    }

    /// A client of this node.
    pub(crate) async fn breakers(&self) -> Result<BreakersClient<Channel>, Failure> {
        Ok(BreakersClient::new(connect(&self.target).await?))
    }

    /// A client of this node.
    pub(crate) async fn admin(&self) -> Result<AdminClient<Channel>, Failure> {
        Ok(AdminClient::new(connect(&self.target).await?))
    }

    /// A client of this node that finds out when it is gone, however long it has nothing to say.
    pub(crate) async fn watched_breakers(&self) -> Result<BreakersClient<Channel>, Failure> {
        let endpoint = endpoint(&self.target)?
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .keep_alive_while_idle(true);
        Ok(BreakersClient::new(connect_to(endpoint, &self.target).await?))
    }

    /// A request with its deadline.
    pub(crate) fn request<T>(&self, message: T, wait: Option<Duration>) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(self.timeout.saturating_add(wait.unwrap_or_default()));
        request
    }

    /// A `semel keys` command line to the same node.
    pub(crate) fn invocation(&self, command: &str) -> Invocation {
        self.to_here(Invocation::new(["keys", command]))
    }

    /// The same command line, to this node.
    pub(crate) fn to_here(&self, invocation: Invocation) -> Invocation {
        if self.target == DEFAULT_TARGET {
            return invocation;
        }
        invocation.option("--target", &self.target)
    }
}

/// Connects to the node at `target`, within 5 s.
pub(crate) async fn connect(target: &str) -> Result<Channel, Failure> {
    connect_to(endpoint(target)?, target).await
}

/// A bare connection to the node at `target`, within 5 s, and the node's name in requests.
pub(crate) async fn dial(target: &str) -> Result<(TcpStream, Authority), Failure> {
    let endpoint = endpoint(target)?;
    let authority = endpoint.uri().authority().cloned();
    let authority = authority.ok_or_else(|| Failure::unreachable(target, "it names no host"))?;
    let address = format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(80));
    let stream = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await;
    let stream = stream.map_err(|elapsed| Failure::unreachable(target, &elapsed.to_string()))?;
    let stream = stream.and_then(|stream| stream.set_nodelay(true).map(|()| stream));
    let stream = stream.map_err(|error| Failure::unreachable(target, &error.to_string()))?;
    Ok((stream, authority))
}

async fn connect_to(endpoint: Endpoint, target: &str) -> Result<Channel, Failure> {
    endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .connect()
        .await
        .map_err(|error| Failure::unreachable(target, &deepest(&error)))
}

fn endpoint(target: &str) -> Result<Endpoint, Failure> {
    let wrong = |why: &str| {
        Failure::usage(format!("the target {target} is no address of a node: {why}"))
            .advise(format!("write it as {DEFAULT_TARGET}"))
    };
    let endpoint =
        Endpoint::from_shared(target.to_owned()).map_err(|error| wrong(&error.to_string()))?;
    match endpoint.uri().scheme_str() {
        Some("http") => Ok(endpoint),
        Some("https") => Err(wrong("a node speaks no TLS yet")),
        _ => Err(wrong("it does not begin with http://")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    async fn failure_of(target: &str) -> Failure {
        connect(target).await.expect_err(target)
    }

    #[tokio::test]
    async fn a_target_that_is_no_address_is_the_callers_mistake() {
        for target in ["", "127.0.0.1:7450", "https://127.0.0.1:7450", "ftp://a", "http://a b"] {
            assert_eq!(failure_of(target).await.exit, Exit::Usage, "{target}");
        }
    }

    #[tokio::test]
    async fn a_silent_target_says_how_to_start_a_node() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let failure = failure_of(&format!("http://{free}")).await;
        assert_eq!(failure.exit, Exit::NoAnswer);
        assert!(failure.message.starts_with(&format!("no node answers at http://{free}")));
        assert!(failure.advice.as_ref().is_some_and(|advice| advice.contains("serve")));
    }
}
