//! What can be chosen when a store is opened.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use semel_store::{Clock, SystemClock};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, TargetSessionAttrs};

use crate::address;
use crate::error::OpenError;
use crate::tls::Demand;

/// How to open a [`PostgresStore`](crate::PostgresStore). Printing it shows no password.
#[derive(Clone)]
pub struct PostgresOptions {
    pub(crate) config: Config,
    pub(crate) demand: Demand,
    pub(crate) root_file: Option<String>,
    /// The schema that holds the tables: a lower-case word of at most 48 letters, digits and
    /// underscores; `semel` by default. It is created if it does not exist.
    pub schema: String,
    /// Whether opening applies the migrations that are missing: true by default. If not, an older
    /// schema is refused.
    pub migrate: bool,
    /// How many connections carry reads, scans and synced writes: 1 to 64, 4 by default. Each takes
    /// many statements at a time, one after the other. Two more carry relaxed writes and wake-ups.
    pub connections: usize,
    /// Whether wake-ups of other nodes are listened to: true by default. If not, changes by other
    /// nodes are found by polling alone.
    pub listen: bool,
    /// How often watched records are polled, in milliseconds: 100 to 60,000, 1,000 by default.
    pub poll_ms: u64,
    /// How long a connection may take to be made, in milliseconds: 100 to 60,000, 5,000 by default.
    pub connect_timeout_ms: u64,
    /// How long one statement may take, in milliseconds: 100 to 600,000, 10,000 by default. The
    /// database ends it then; a database that does not answer is given up a second later.
    pub statement_timeout_ms: u64,
    /// How long a write may wait for a row that somebody else has locked, in milliseconds: 10 to
    /// 60,000, 2,000 by default. Also how long an update may wait for its turn, and be run again after
    /// conflicts.
    pub lock_timeout_ms: u64,
    /// How long an update waits for a connection to come back, in milliseconds: 0 to 60,000, 250 by
    /// default.
    pub reconnect_wait_ms: u64,
    /// How many items may be on their way: 4,096 to 1,000,000, 16,384 by default. Who comes when they
    /// are all taken waits for room.
    pub queue_updates: usize,
    /// What waiting is measured with. Time itself is the database's.
    pub clock: Arc<dyn Clock>,
}

impl PostgresOptions {
    /// Reads a URL (`postgres://user:password@host:port/database?sslmode=verify-full&…`) or words
    /// (`host=… user=… dbname=…`), as libpq knows them. Several hosts may be named: the one that
    /// takes writes is used.
    ///
    /// `sslmode` is `disable`, `prefer`, `require`, `verify-ca` or `verify-full`, the last two with
    /// `sslrootcert` (a file of PEM certificates, or `system`). Without it: `prefer` if all hosts are
    /// loopback addresses or sockets, else `require`.
    ///
    /// # Errors
    ///
    /// [`OpenError::Address`], which does not repeat what was given.
    pub fn parse(address: &str) -> Result<Self, OpenError> {
        let parsed = address::parse(address)?;
        let mut config = parsed.config;
        let local = config.get_hosts().iter().all(is_local);
        let demand = match parsed.ssl_mode.as_deref() {
            Some(word) => Demand::parse(word)?,
            None if local => Demand::Prefer,
            None => Demand::Require,
        };
        config.ssl_mode(demand.mode());
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        if config.get_application_name().is_none() {
            config.application_name("semel");
        }
        config.keepalives_idle(Duration::from_secs(15));
        config.keepalives_interval(Duration::from_secs(5));
        config.keepalives_retries(3);
        Ok(Self {
            config,
            demand,
            root_file: parsed.ssl_root_cert,
            schema: "semel".to_owned(),
            migrate: true,
            connections: 4,
            listen: true,
            poll_ms: 1_000,
            connect_timeout_ms: 5_000,
            statement_timeout_ms: 10_000,
            lock_timeout_ms: 2_000,
            reconnect_wait_ms: 250,
            queue_updates: 16_384,
            clock: Arc::new(SystemClock),
        })
    }

    /// The same with another clock of the node.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// The same with another schema.
    #[must_use]
    pub fn with_schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    pub(crate) fn statement_timeout(&self) -> Duration {
        Duration::from_millis(self.statement_timeout_ms)
    }

    /// When a database that says nothing is given up.
    pub(crate) fn silence_timeout(&self) -> Duration {
        self.statement_timeout() + Duration::from_secs(1)
    }

    pub(crate) fn lock_timeout(&self) -> Duration {
        Duration::from_millis(self.lock_timeout_ms)
    }

    /// The channel on which the nodes of this schema wake each other.
    pub(crate) fn channel(&self) -> String {
        format!("semel_{}", self.schema)
    }

    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let ranges = [
            ("connections", count(self.connections), 1..=64, "1 to 64"),
            ("poll_ms", self.poll_ms, 100..=60_000, "100 to 60,000"),
            ("connect_timeout_ms", self.connect_timeout_ms, 100..=60_000, "100 to 60,000"),
            ("statement_timeout_ms", self.statement_timeout_ms, 100..=600_000, "100 to 600,000"),
            ("lock_timeout_ms", self.lock_timeout_ms, 10..=60_000, "10 to 60,000"),
            ("reconnect_wait_ms", self.reconnect_wait_ms, 0..=60_000, "0 to 60,000"),
            ("queue_updates", count(self.queue_updates), 4_096..=1_000_000, "4,096 to 1,000,000"),
        ];
        for (option, found, range, allowed) in ranges {
            if !range.contains(&found) {
                return Err(OpenError::Option { option, found: found.to_string(), allowed });
            }
        }
        // It becomes a part of SQL, so nothing that would need quotes.
        let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let begins = self.schema.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
        if !begins || self.schema.len() > 48 || !self.schema.bytes().all(word) {
            return Err(OpenError::Option {
                option: "schema",
                found: format!("{:?}", self.schema),
                allowed: "1 to 48 of a-z, 0-9 and _, not beginning with a digit",
            });
        }
        Ok(())
    }
}

fn is_local(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name == "localhost"
                || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        Host::Unix(_) => true,
    }
}

impl fmt::Debug for PostgresOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("PostgresOptions")
            .field("hosts", &self.config.get_hosts())
            .field("ports", &self.config.get_ports())
            .field("database", &self.config.get_dbname())
            .field("user", &self.config.get_user())
            .field("tls", &self.demand)
            .field("schema", &self.schema)
            .field("connections", &self.connections)
            .field("statement_timeout_ms", &self.statement_timeout_ms)
            .field("lock_timeout_ms", &self.lock_timeout_ms)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_printed() {
        let url = "postgres://ann:s3cret@db.example/app?sslmode=require";
        let options = PostgresOptions::parse(url).unwrap();
        let printed = format!("{options:?}");
        assert!(!printed.contains("s3cret"), "{printed}");
        assert!(printed.contains("db.example"), "{printed}");
        let bad =
            ["postgres://ann:s3cret@host:port/x", "host=a password=s3cret sslmode=what", "s3cret"];
        for bad in bad {
            let error = PostgresOptions::parse(bad).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        }
    }

    #[test]
    fn a_network_is_not_crossed_in_plain_text_by_an_oversight() {
        let demand = |address: &str| PostgresOptions::parse(address).unwrap().demand;
        assert_eq!(demand("postgres://ann@db.example/app"), Demand::Require);
        assert_eq!(demand("postgres://ann@127.0.0.1,db.example/app"), Demand::Require);
        assert_eq!(demand("postgres://ann@127.0.0.1/app"), Demand::Prefer);
        assert_eq!(demand("host=/run/postgresql user=ann"), Demand::Prefer);
        assert_eq!(demand("postgres://ann@db.example/app?sslmode=disable"), Demand::Disable);
        assert_eq!(demand("host=db.example user=ann sslmode='verify-full'"), Demand::VerifyFull);
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        let good = PostgresOptions::parse("host=localhost user=ann").unwrap();
        assert!(good.check().is_ok());
        for schema in ["", "Semel", "1a", "a-b", "a\"b", &"a".repeat(49)] {
            assert!(good.clone().with_schema(schema).check().is_err(), "{schema:?}");
        }
        assert!(PostgresOptions { connections: 0, ..good.clone() }.check().is_err());
        assert!(PostgresOptions { poll_ms: 99, ..good }.check().is_err());
    }
}
