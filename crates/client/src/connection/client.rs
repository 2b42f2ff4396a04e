//! The client's handle, and how one is made.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::Notify;
use tonic::codegen::http::HeaderValue;
use tonic::transport::Endpoint;

use super::call::Pool;
use super::error::Error;
use super::nodes::{Node, Transport};
#[cfg(feature = "tls")]
use super::tls::Tls;
use crate::dice::Dice;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// While calls are in flight, a node is asked so often whether it lives,
const ALIVE_INTERVAL: Duration = Duration::from_millis(500);
/// and is taken for dead after so long: waiting callers lose less than two seconds to a node that is gone.
const ALIVE_TIMEOUT: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(1);

/// A client of Semel's nodes, acting for one tenant. Cheap to clone; all clones share connections.
///
/// Calls go to any node: they share one store. A node that is away, silent or shutting down costs a delay,
/// never a call, as long as another answers before the deadline.
#[derive(Clone)]
pub struct Client {
    pub(crate) tenant: Arc<str>,
    pub(crate) pool: Arc<Pool>,
}

impl Client {
    /// A client of these nodes, with every setting at its default. It connects when it is first used, to
    /// `http://host:port` without TLS, and to `https://host:port` by TLS, trusting the authorities that this
    /// machine trusts. Call it inside a Tokio runtime.
    ///
    /// # Errors
    ///
    /// [`Error::Settings`]: there is no node, its address is malformed, or nobody is trusted.
    pub fn connect<N: Into<String>>(
        tenant: &str,
        nodes: impl IntoIterator<Item = N>,
    ) -> Result<Self, Error> {
        Self::builder(tenant, nodes).build()
    }

    /// As [`connect`](Self::connect), with more to choose.
    pub fn builder<N: Into<String>>(
        tenant: &str,
        nodes: impl IntoIterator<Item = N>,
    ) -> ClientBuilder {
        ClientBuilder {
            tenant: tenant.to_owned(),
            nodes: nodes.into_iter().map(Into::into).collect(),
            bearer_token: None,
            patience: PATIENCE,
            seed: None,
            #[cfg(feature = "tls")]
            tls: None,
        }
    }

    /// The same connections, acting for another tenant.
    #[must_use]
    pub fn for_tenant(&self, tenant: &str) -> Self {
        Self { tenant: tenant.into(), pool: Arc::clone(&self.pool) }
    }

    /// Sends another bearer token from now on, with every call of every clone: for tokens that run out. See
    /// [`ClientBuilder::bearer_token`].
    ///
    /// # Errors
    ///
    /// [`Error::Settings`]: the token is malformed, and the one before stays.
    pub fn set_bearer_token(&self, token: &str) -> Result<(), Error> {
        let bearer = bearer(token)?;
        *self.pool.bearer.write().unwrap_or_else(PoisonError::into_inner) = Some(bearer);
        Ok(())
    }

    /// The tenant that it acts for.
    #[must_use]
    pub fn tenant(&self) -> &str {
        &self.tenant
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Client")
            .field("tenant", &self.tenant)
            .field("nodes", &self.pool.nodes.len())
            .finish_non_exhaustive()
    }
}

/// What a client is made of.
#[derive(Clone)]
#[must_use]
pub struct ClientBuilder {
    tenant: String,
    nodes: Vec<String>,
    bearer_token: Option<String>,
    patience: Duration,
    seed: Option<[u8; 32]>,
    #[cfg(feature = "tls")]
    tls: Option<Tls>,
}

impl ClientBuilder {
    /// Sends `authorization: Bearer TOKEN` with every call. It is never shown.
    pub fn bearer_token(mut self, token: &str) -> Self {
        self.bearer_token = Some(token.to_owned());
        self
    }

    /// How long one attempt waits for a node before the next is asked, beside what the node itself was
    /// asked to wait; doubled with each silence, and at most half of what is left. Default: 1 s.
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Where owner ids and jitter come from: 32 random bytes, made anew at each start of the process. Two
    /// processes with the same seed would be taken for one owner, and both would do the work. Default: the
    /// machine's randomness, which is right outside of simulations.
    pub const fn seed(mut self, seed: [u8; 32]) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Connects by TLS; nodes are `https://host:port` then. Default for such nodes:
    /// [`Tls::trusting_the_machine`].
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// The client. It connects when it is first used. Call it inside a Tokio runtime.
    ///
    /// # Errors
    ///
    /// [`Error::Settings`]: there is no node; an address, a certificate or the token is malformed; TLS was set
    /// up for a node that is `http://`; the machine trusts no authority, or gives no random seed.
    pub fn build(self) -> Result<Client, Error> {
        let nodes: Result<Vec<Node>, Error> = self.nodes.iter().map(|uri| self.node(uri)).collect();
        self.over(nodes?)
    }

    fn node(&self, uri: &str) -> Result<Node, Error> {
        let wrong = |why: &str| Error::Settings(format!("the node {uri}: {why}"));
        let endpoint =
            Endpoint::from_shared(uri.to_owned()).map_err(|error| wrong(&super::chain(&error)))?;
        let scheme = endpoint.uri().scheme_str();
        let Some(scheme) = scheme.filter(|_| endpoint.uri().authority().is_some()) else {
            return Err(wrong("write http://HOST:PORT"));
        };
        let endpoint = match scheme {
            "http" => self.plain(endpoint),
            "https" => self.secure(endpoint),
            _ => Err("write http://HOST:PORT, or https://HOST:PORT".to_owned()),
        };
        let endpoint = endpoint
            .map_err(|why| wrong(&why))?
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(ALIVE_INTERVAL)
            .keep_alive_timeout(ALIVE_TIMEOUT);
        Ok(Node::new(Transport::new(endpoint.connect_lazy())))
    }

    #[cfg(feature = "tls")]
    fn plain(&self, endpoint: Endpoint) -> Result<Endpoint, String> {
        // What was meant to be secret is not sent in the open.
        let is_plain = self.tls.is_none();
        is_plain.then_some(endpoint).ok_or_else(|| "with TLS, write https://HOST:PORT".to_owned())
    }

    #[cfg(feature = "tls")]
    fn secure(&self, endpoint: Endpoint) -> Result<Endpoint, String> {
        self.tls.clone().unwrap_or_else(Tls::trusting_the_machine).apply(endpoint)
    }

    #[cfg(not(feature = "tls"))]
    fn plain(&self, endpoint: Endpoint) -> Result<Endpoint, String> {
        Ok(endpoint)
    }

    #[cfg(not(feature = "tls"))]
    fn secure(&self, _: Endpoint) -> Result<Endpoint, String> {
        Err("https:// needs the feature tls of semel-client, which was left out".to_owned())
    }

    /// The client of nodes that are there already.
    pub(crate) fn over(self, nodes: Vec<Node>) -> Result<Client, Error> {
        if nodes.is_empty() {
            return Err(Error::Settings("name at least one node".to_owned()));
        }
        let bearer = self.bearer_token.map(|token| bearer(&token)).transpose()?;
        let dice = match self.seed {
            Some(seed) => Dice::from_seed(seed),
            None => Dice::of_the_machine().map_err(|error| {
                Error::Settings(format!("the machine gives no random seed: {error}"))
            })?,
        };
        let start = usize::try_from(dice.roll() >> 32).unwrap_or_default() % nodes.len();
        let pool = Pool {
            nodes,
            bearer: RwLock::new(bearer),
            dice,
            patience: self.patience,
            current: AtomicUsize::new(start),
            revived: Notify::new(),
        };
        Ok(Client { tenant: self.tenant.into(), pool: Arc::new(pool) })
    }
}

impl std::fmt::Debug for ClientBuilder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ClientBuilder")
            .field("tenant", &self.tenant)
            .field("nodes", &self.nodes)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}

fn bearer(token: &str) -> Result<HeaderValue, Error> {
    // The error is left out: it might repeat the token.
    let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| {
        Error::Settings("the bearer token has characters that no header has".to_owned())
    })?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn settings_that_can_not_be_are_refused_with_what_to_write() {
        let refused = |nodes: &[&str]| match Client::connect("acme", nodes.iter().copied()) {
            Err(Error::Settings(why)) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(refused(&[]), "name at least one node");
        assert!(refused(&["127.0.0.1:7450"]).contains("127.0.0.1:7450"));
        assert!(refused(&["/only/a/path"]).contains("write http://HOST:PORT"));
        assert!(refused(&["ftp://127.0.0.1:7450"]).contains("write http://HOST:PORT"));
    }

    #[tokio::test]
    async fn a_bearer_token_is_never_shown() {
        let builder = Client::builder("acme", ["http://127.0.0.1:1"]).bearer_token("secret");
        assert!(!format!("{builder:?}").contains("secret"));
        let client = builder.build().unwrap();
        assert!(!format!("{client:?} {:?}", client.pool.bearer).contains("secret"));
        let broken =
            Client::builder("acme", ["http://127.0.0.1:1"]).bearer_token("sec\nret").build();
        assert!(!format!("{broken:?}").contains("ret\""), "{broken:?}");
    }
}
