//! All that `semel serve` can be told, with its defaults.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use semel_server::NodeOptions;
use semel_store_postgres::PostgresOptions;

use super::table;
use crate::engine::{Engine, Fdb, StoreAddress};
use crate::failure::{Failure, whole};
use crate::logging::LogFormat;

/// The longest file that is read for settings, in bytes.
const FILE_MAX_BYTES: u64 = 1 << 20;

/// How a node is to be served.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) node: NodeOptions,
    /// How a database is used; which one it is, `place` says.
    pub(crate) postgres: PostgresOptions,
    /// How a cluster is used; which one it is, `place` says.
    pub(crate) foundationdb: Fdb,
    pub(crate) place: Place,
    pub(crate) insecure: bool,
    pub(crate) log: String,
    pub(crate) log_format: LogFormat,
}

/// Where the store is.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// In a directory of this machine.
    Directory(PathBuf),
    /// At this address.
    Address(StoreAddress),
    /// At the address that this file holds, which is read when the store is needed.
    AddressIn(PathBuf),
}

impl Settings {
    /// Nothing was said.
    pub(crate) fn defaults() -> Result<Self, Failure> {
        // Some address, since the options of a database do not come without one.
        let postgres = PostgresOptions::parse("postgres://localhost")
            .map_err(|error| Failure::broken(whole(&error)))?;
        Ok(Self {
            node: NodeOptions::default(),
            postgres,
            foundationdb: Fdb::new(""),
            place: Place::Directory(PathBuf::from("./semel-data")),
            insecure: false,
            log: "info".to_owned(),
            log_format: LogFormat::Text,
        })
    }

    /// The store's engine, with the options that were chosen.
    pub(crate) fn engine(&mut self) -> Result<Engine, Failure> {
        let address = match &self.place {
            Place::Directory(directory) => return Ok(Engine::Embedded(directory.clone())),
            Place::Address(address) => address.clone(),
            Place::AddressIn(path) => {
                let text = read_bounded(path).map_err(|error| {
                    Failure::usage(format!("reading {}: {error}", path.display()))
                })?;
                StoreAddress::from(text.trim().to_owned())
            }
        };
        let engine = Engine::parse(&address).map_err(|failure| match &self.place {
            Place::AddressIn(path) => {
                Failure::usage(format!("in {}: {}", path.display(), failure.message))
            }
            _ => failure,
        })?;
        match engine {
            Engine::Postgres(parsed) => {
                let mut at_address = Self { postgres: *parsed, ..Self::defaults()? };
                for setting in table::of("postgres") {
                    setting.kind.copy(self, &mut at_address);
                }
                Ok(Engine::Postgres(Box::new(at_address.postgres)))
            }
            Engine::Fdb(parsed) => {
                let mut at_address = self.foundationdb.clone();
                at_address.store.cluster_file = parsed.store.cluster_file;
                Ok(Engine::Fdb(Box::new(at_address)))
            }
            embedded @ Engine::Embedded(_) => Ok(embedded),
        }
    }

    /// Refuses to listen where others can reach a node that can't tell who they are.
    pub(crate) fn refuse_strangers(&self) -> Result<(), Failure> {
        let listen = self.node.listen;
        if self.insecure || listen.ip().is_loopback() {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "{listen} can be reached from other machines, and there is no TLS and no authentication yet: \
             whoever reaches it could claim, complete and erase any key"
        ))
        .advise("listen on 127.0.0.1, or say --insecure if only trusted machines can reach it"))
    }
}

/// Reads a small file of text.
pub(crate) fn read_bounded(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let length = File::open(path)?.take(FILE_MAX_BYTES + 1).read_to_string(&mut text)?;
    if u64::try_from(length).is_ok_and(|length| length <= FILE_MAX_BYTES) {
        return Ok(text);
    }
    Err(std::io::Error::other(format!("it is longer than {FILE_MAX_BYTES} bytes")))
}
