//! What can be chosen when the network is started and a store is opened.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use semel_store::{Clock, SystemClock};

use crate::error::OpenError;

/// How to open an `FdbStore`.
#[derive(Clone)]
pub struct FdbOptions {
    /// The cluster file, which says where the cluster is. The client library writes it when the
    /// coordinators change, so its directory must be writable by this process.
    pub cluster_file: PathBuf,
    /// The name of the store in the cluster: 1 to 48 of a-z, 0-9, `_` and `-`; `semel` by default. It is
    /// the directory `("semel", name)` of the directory layer, made if it does not exist.
    pub name: String,
    /// How many records are watched by the cluster for changes of other nodes: 0 to 100,000, 5,000 by
    /// default. Watched records beyond that are polled.
    pub watches: usize,
    /// How often watched records are polled, in milliseconds: 100 to 60,000, 1,000 by default.
    pub poll_ms: u64,
    /// How long the cluster may take to be reached when the store is opened, in milliseconds: 100 to
    /// 600,000, 10,000 by default.
    pub connect_timeout_ms: u64,
    /// How long one transaction may take, with all its tries, in milliseconds: 100 to 600,000, 10,000 by
    /// default. As long again may be spent on finding out what became of a commit.
    pub transaction_timeout_ms: u64,
    /// How long an update may be run again after conflicts with other nodes, in milliseconds: 10 to
    /// 60,000, 2,000 by default.
    pub conflict_timeout_ms: u64,
    /// How many items may be on their way: 4,096 to 1,000,000, 16,384 by default. Who comes when they
    /// are all taken waits for room.
    pub queue_updates: usize,
    /// The clock of this node. The store's time is the middle of the clocks of all nodes.
    pub clock: Arc<dyn Clock>,
}

impl FdbOptions {
    /// The defaults, for the cluster that `cluster_file` names.
    #[must_use]
    pub fn new(cluster_file: impl Into<PathBuf>) -> Self {
        Self {
            cluster_file: cluster_file.into(),
            name: "semel".to_owned(),
            watches: 5_000,
            poll_ms: 1_000,
            connect_timeout_ms: 10_000,
            transaction_timeout_ms: 10_000,
            conflict_timeout_ms: 2_000,
            queue_updates: 16_384,
            clock: Arc::new(SystemClock),
        }
    }

    /// The same with another clock of the node.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// The same with another name of the store.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Whether a store may be called so: the rule of [`name`](Self::name).
    #[must_use]
    pub fn is_name(name: &str) -> bool {
        let word = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-'
        };
        (1..=48).contains(&name.len()) && name.bytes().all(word)
    }

    pub(crate) fn transaction_timeout(&self) -> Duration {
        Duration::from_millis(self.transaction_timeout_ms)
    }

    /// How long a transaction may take that somebody waits for as long as `patience`.
    pub(crate) fn within(&self, patience: Option<Duration>) -> Duration {
        /// Below it, a busy cluster would undo what is nearly done.
        const LEAST: Duration = Duration::from_millis(250);
        let most = self.transaction_timeout();
        patience.map_or(most, |patience| patience.max(LEAST).min(most))
    }

    /// Checks what opening a store checks first.
    ///
    /// # Errors
    ///
    /// [`OpenError::Option`] for the first one that is out of its range.
    pub fn check(&self) -> Result<(), OpenError> {
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let ranges = [
            ("watches", count(self.watches), 0..=100_000, "0 to 100,000"),
            ("poll_ms", self.poll_ms, 100..=60_000, "100 to 60,000"),
            ("connect_timeout_ms", self.connect_timeout_ms, 100..=600_000, "100 to 600,000"),
            (
                "transaction_timeout_ms",
                self.transaction_timeout_ms,
                100..=600_000,
                "100 to 600,000",
            ),
            ("conflict_timeout_ms", self.conflict_timeout_ms, 10..=60_000, "10 to 60,000"),
            ("queue_updates", count(self.queue_updates), 4_096..=1_000_000, "4,096 to 1,000,000"),
        ];
        for (option, found, range, allowed) in ranges {
            if !range.contains(&found) {
                return Err(OpenError::Option { option, found: found.to_string(), allowed });
            }
        }
        if !Self::is_name(&self.name) {
            return Err(OpenError::Option {
                option: "name",
                found: format!("{:?}", self.name),
                allowed: "1 to 48 of a-z, 0-9, _ and -",
            });
        }
        Ok(())
    }
}

impl fmt::Debug for FdbOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("FdbOptions")
            .field("cluster_file", &self.cluster_file)
            .field("name", &self.name)
            .field("watches", &self.watches)
            .field("transaction_timeout_ms", &self.transaction_timeout_ms)
            .field("conflict_timeout_ms", &self.conflict_timeout_ms)
            .finish_non_exhaustive()
    }
}

/// How the network of the client library is started, which happens once per process. All are paths but
/// for the rule about peers; `None`: the library's own default, which is no TLS and no traces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkOptions {
    /// The certificate of this node, as PEM. A cluster with TLS also has `:tls` in its cluster file.
    pub tls_certificate_file: Option<String>,
    /// Its private key, as PEM.
    pub tls_key_file: Option<String>,
    /// A file that holds the password of the private key; white space around it does not count.
    pub tls_password_file: Option<String>,
    /// The certificates of those who sign for the cluster, as PEM.
    pub tls_ca_file: Option<String>,
    /// What the certificates of the cluster must say, such as `Check.Valid=1,S.CN=fdb.internal`.
    pub tls_verify_peers: Option<String>,
    /// A directory with further client libraries, for a cluster of another version than the one that is
    /// linked.
    pub external_client_directory: Option<String>,
    /// Where the library writes its traces.
    pub trace_directory: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_range_is_refused() {
        let good = FdbOptions::new("/etc/foundationdb/fdb.cluster");
        assert!(good.check().is_ok());
        for name in ["", "Semel", "a/b", "a\"b", "ä", &"a".repeat(49)] {
            assert!(good.clone().with_name(name).check().is_err(), "{name:?}");
        }
        assert!(good.clone().with_name("1-a_b").check().is_ok());
        assert!(FdbOptions { watches: 100_001, ..good.clone() }.check().is_err());
        assert!(FdbOptions { queue_updates: 4_095, ..good.clone() }.check().is_err());
        assert!(FdbOptions { conflict_timeout_ms: 9, ..good }.check().is_err());
    }

    #[test]
    fn a_transaction_takes_as_long_as_somebody_waits() {
        let options = FdbOptions::new("x");
        let within_ms = |patience_ms: Option<u64>| {
            options.within(patience_ms.map(Duration::from_millis)).as_millis()
        };
        assert_eq!(within_ms(None), 10_000);
        assert_eq!(within_ms(Some(0)), 250);
        assert_eq!(within_ms(Some(3_000)), 3_000);
        assert_eq!(within_ms(Some(u64::MAX)), 10_000);
    }
}
