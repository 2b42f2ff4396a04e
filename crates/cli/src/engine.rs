//! The engines: which one a node's store is, how it is opened, and how it is closed. Nothing else in the
//! project names more than one.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use semel_server::{Node, NodeOptions, StartError};
use semel_store::{EmbeddedOptions, EmbeddedStore, StoreError, SystemClock};
use semel_store_fdb::{FdbOptions, NetworkOptions};
#[cfg(feature = "foundationdb")]
use semel_store_fdb::{FdbStore, Network};
use semel_store_postgres::{OpenError, PostgresOptions, PostgresStore};

use crate::failure::{Failure, whole};

/// Where a store is, as it was given. Never printed whole: it may hold a password.
#[derive(Clone)]
pub(crate) struct StoreAddress(String);

impl From<String> for StoreAddress {
    fn from(address: String) -> Self {
        Self(address)
    }
}

impl fmt::Debug for StoreAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("StoreAddress(not shown)")
    }
}

/// A store that can be opened.
#[derive(Debug)]
pub(crate) enum Engine {
    /// In a directory of this machine.
    Embedded(PathBuf),
    /// In a PostgreSQL database.
    Postgres(Box<PostgresOptions>),
    /// In a FoundationDB cluster.
    Fdb(Box<Fdb>),
}

/// How a FoundationDB cluster is used.
#[derive(Clone, Debug)]
pub(crate) struct Fdb {
    pub(crate) store: FdbOptions,
    pub(crate) network: NetworkOptions,
}

impl Fdb {
    /// The defaults, for the cluster that this file names.
    pub(crate) fn new(cluster_file: &str) -> Self {
        Self { store: FdbOptions::new(cluster_file), network: NetworkOptions::default() }
    }
}

/// A store that is open.
pub(crate) enum Opened {
    Embedded(EmbeddedStore),
    Postgres(PostgresStore),
    #[cfg(feature = "foundationdb")]
    Fdb(FdbStore),
}

impl Engine {
    /// Reads `embedded:DIRECTORY`, a PostgreSQL URL or `fdb:CLUSTER_FILE`.
    pub(crate) fn parse(address: &StoreAddress) -> Result<Self, Failure> {
        let text = address.0.as_str();
        if let Some(directory) = text.strip_prefix("embedded:").filter(|it| !it.is_empty()) {
            return Ok(Self::Embedded(PathBuf::from(directory)));
        }
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            let options = PostgresOptions::parse(text);
            let options = options.map_err(|error| Failure::usage(whole(&error)))?;
            return Ok(Self::Postgres(Box::new(options)));
        }
        if let Some(cluster_file) = text.strip_prefix("fdb:").filter(|it| !it.is_empty()) {
            return if cfg!(feature = "foundationdb") {
                Ok(Self::Fdb(Box::new(Fdb::new(cluster_file))))
            } else {
                Err(without_foundationdb())
            };
        }
        let known = "the store is none of embedded:DIRECTORY, postgres://... and fdb:CLUSTER_FILE";
        Err(Failure::usage(known)
            .advise("for example --store postgres://semel@db.internal/semel?sslmode=verify-full"))
    }

    /// What it is, without any secret.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Embedded(directory) => directory.display().to_string(),
            Self::Postgres(options) => format!("PostgreSQL (schema {})", options.schema),
            Self::Fdb(fdb) => format!("FoundationDB (store {})", fdb.store.name),
        }
    }

    /// Opens it; of a database, the tables are made or brought up to date.
    pub(crate) async fn open(self) -> Result<Opened, Failure> {
        let name = self.name();
        match self {
            Self::Embedded(directory) => open_embedded(&directory).map(Opened::Embedded),
            Self::Postgres(options) => {
                let store = PostgresStore::open(*options).await;
                let store = store.map_err(|error| database_refused(&name, &error))?;
                warn_of_losses(store.durability_warnings().await);
                Ok(Opened::Postgres(store))
            }
            #[cfg(feature = "foundationdb")]
            Self::Fdb(fdb) => {
                let opened = async {
                    let network = Arc::new(Network::start(&fdb.network)?);
                    FdbStore::open(&network, fdb.store).await
                };
                let store = opened.await.map_err(|error| Failure::store_refused(&name, &error))?;
                warn_of_losses(store.durability_warnings().await);
                Ok(Opened::Fdb(store))
            }
            #[cfg(not(feature = "foundationdb"))]
            Self::Fdb(_) => Err(without_foundationdb()),
        }
    }
}

/// Why the store in a database would not open, and what to do if that is known.
pub(crate) fn database_refused(name: &str, error: &OpenError) -> Failure {
    let failure = Failure::store_refused(name, error);
    match error {
        OpenError::Older { .. } => failure.advise("`semel migrate` with the same --store or --config"),
        OpenError::Certificates(_) | OpenError::Unreachable(_) => failure.advise(
            "look whether the database is there, whether this user may create a schema in it, and whether \
             it speaks TLS, which is asked for beyond this machine unless the URL says otherwise",
        ),
        _ => failure,
    }
}

fn open_embedded(directory: &Path) -> Result<EmbeddedStore, Failure> {
    EmbeddedStore::open(EmbeddedOptions::new(directory))
        .map_err(|error| Failure::store_refused(&directory.display().to_string(), &error))
}

fn without_foundationdb() -> Failure {
    Failure::usage("this `semel` was built without FoundationDB").advise(
        "build it where libclang and libfdb_c are installed: cargo build --release -p semel-cli --features \
         foundationdb",
    )
}

/// Says loudly with which settings of the database an acknowledged commit can be lost.
fn warn_of_losses(found: Result<Vec<String>, StoreError>) {
    match found {
        Ok(warnings) => warnings
            .iter()
            .for_each(|warning| tracing::warn!("ACKNOWLEDGED WRITES CAN BE LOST: {warning}")),
        Err(error) => tracing::warn!(%error, "could not check the database's durability"),
    }
}

impl Opened {
    /// Starts a node on it.
    pub(crate) fn serve(&self, seed: u64, options: NodeOptions) -> Result<Node, StartError> {
        let clock = Arc::new(SystemClock);
        match self {
            Self::Embedded(store) => Node::start(Arc::new(store.clone()), clock, seed, options),
            Self::Postgres(store) => Node::start(Arc::new(store.clone()), clock, seed, options),
            #[cfg(feature = "foundationdb")]
            Self::Fdb(store) => Node::start(Arc::new(store.clone()), clock, seed, options),
        }
    }

    /// Closes it, when no node uses it any more.
    pub(crate) fn close(&self) {
        match self {
            Self::Embedded(store) => store.close(),
            Self::Postgres(store) => store.close(),
            #[cfg(feature = "foundationdb")]
            Self::Fdb(store) => store.close(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Engine, Failure> {
        Engine::parse(&StoreAddress::from(text.to_owned()))
    }

    #[test]
    fn an_address_names_its_engine() {
        assert!(
            matches!(parse("embedded:/data"), Ok(Engine::Embedded(path)) if path == Path::new("/data"))
        );
        for url in ["postgres://semel@localhost/semel", "postgresql://localhost"] {
            assert!(matches!(parse(url), Ok(Engine::Postgres(_))), "{url}");
        }
        let cluster = parse("fdb:/etc/fdb.cluster");
        if cfg!(feature = "foundationdb") {
            let file = Path::new("/etc/fdb.cluster");
            assert!(matches!(cluster, Ok(Engine::Fdb(fdb)) if fdb.store.cluster_file == file));
        } else {
            let failure = cluster.expect_err("no such engine");
            assert!(failure.message.contains("without FoundationDB"), "{failure:?}");
        }
        for other in ["", "embedded:", "fdb:", "mysql://x", "./data"] {
            assert!(parse(other).is_err(), "{other:?}");
        }
    }

    #[test]
    fn no_password_is_ever_shown() {
        let address = StoreAddress::from("postgres://semel:hunter2@localhost/semel".to_owned());
        let engine = Engine::parse(&address).expect("valid");
        for shown in [format!("{address:?}"), format!("{engine:?}"), engine.name()] {
            assert!(!shown.contains("hunter2"), "{shown}");
        }
        let wrong = parse("postgres://semel:hunter2@localhost:port/semel").expect_err("a port");
        assert!(!format!("{wrong:?}").contains("hunter2"));
    }
}
