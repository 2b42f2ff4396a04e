//! The one table of settings: every name, bound and option of the command line stands here, and nowhere
//! else. Defaults are those of whoever owns the value.

use semel_store_fdb::FdbOptions;

use super::kind::{Kind, Number, Part, Unit, Where};
use crate::logging;

/// A setting.
pub(crate) struct Setting {
    /// The table of the file that it is in.
    pub(crate) table: &'static str,
    /// Its name there. An option of the command line has the same, with dashes.
    pub(crate) key: &'static str,
    pub(crate) kind: Kind,
    /// Its option of the command line, if it has one.
    pub(crate) option: Option<CommandLine>,
    /// The variable of the environment that sets it, if there is one.
    pub(crate) variable: Option<&'static str>,
}

/// How a setting appears on the command line.
pub(crate) struct CommandLine {
    /// What stands for its value.
    pub(crate) value: &'static str,
    pub(crate) help: &'static str,
    /// What is so without it, if that is no one value; empty if there is nothing to say.
    pub(crate) without: Option<&'static str>,
}

impl Setting {
    const fn option(mut self, value: &'static str, help: &'static str) -> Self {
        self.option = Some(CommandLine { value, help, without: None });
        self
    }

    const fn option_without(
        mut self,
        value: &'static str,
        help: &'static str,
        without: &'static str,
    ) -> Self {
        self.option = Some(CommandLine { value, help, without: Some(without) });
        self
    }

    const fn variable(mut self, name: &'static str) -> Self {
        self.variable = Some(name);
        self
    }
}

/// The settings of one table.
pub(crate) fn of(table: &str) -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(move |setting| setting.table == table)
}

const fn setting(table: &'static str, key: &'static str, kind: Kind) -> Setting {
    Setting { table, key, kind, option: None, variable: None }
}

const fn count(part: Part<usize>, least: u64, most: u64) -> Kind {
    Kind::Number { part: Number::Usize(part), unit: Unit::Pieces, least, most }
}

const fn bytes(part: Number, most: u64) -> Kind {
    Kind::Number { part, unit: Unit::Bytes, least: 0, most }
}

const fn time(part: Number, least_ms: u64, most_ms: u64) -> Kind {
    Kind::Number { part, unit: Unit::Ms, least: least_ms, most: most_ms }
}

const fn file(part: Part<Option<String>>) -> Kind {
    Kind::Given { part, allowed: "a path" }
}

const FDB: &str = "foundationdb";
const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;
const MILLION: u64 = 1_000_000;

/// Of the ways to say where the store is, the later wins where two are said in the same place.
pub(crate) static SETTINGS: [Setting; 55] = [
    setting("serve", "listen", Kind::Socket(|it| &mut it.node.listen))
        .option("ADDRESS", "Where to listen for gRPC; port 0 takes a free one")
        .variable("SEMEL_LISTEN"),
    setting(
        "serve",
        "advertise",
        Kind::Given {
            part: |it| &mut it.node.advertised_address,
            allowed: "where others reach the node, such as semel-1.internal:7450",
        },
    )
    .option_without(
        "ADDRESS",
        "Where others reach this node, for `semel nodes`",
        "where it listens",
    )
    .variable("SEMEL_ADVERTISE"),
    setting("serve", "data", Kind::Place(Where::Directory))
        .option(
            "DIRECTORY",
            "Where the data is kept if this machine keeps it; made if it is missing",
        )
        .variable("SEMEL_DATA"),
    setting("serve", "store_file", Kind::Place(Where::AddressIn))
        .option_without(
            "FILE",
            "A file with the URL of --store, so that a password is in no list of processes",
            "",
        )
        .variable("SEMEL_STORE_FILE"),
    setting("serve", "store", Kind::Place(Where::Address))
        .option_without(
            "URL",
            "Another store than --data: postgres://USER@HOST/DATABASE or, if it was built with \
             FoundationDB, fdb:CLUSTER_FILE, which many nodes share. A password belongs in the environment or in --store-file, where no list of processes \
             shows it",
            "",
        )
        .variable("SEMEL_STORE"),
    setting("serve", "insecure", Kind::Switch(|it| &mut it.insecure)).option(
        "BOOL",
        "Listen beyond this machine although there is no TLS and no authentication yet: whoever \
         can reach the address may do anything",
    ),
    setting("serve", "workers", count(|it| &mut it.node.serving_threads, 1, 256)).option_without(
        "N",
        "Serving threads",
        "one for each core",
    ),
    setting("serve", "connections", count(|it| &mut it.node.connections_max, 1, MILLION))
        .option("N", "Connections at the most; more wait to be accepted"),
    setting("serve", "queued_calls_max", count(|it| &mut it.node.queued_calls_max, 1, MILLION)),
    setting("serve", "grace", time(Number::Duration(|it| &mut it.node.grace), 0, DAY_MS))
        .option("DURATION", "How long a stop waits for calls in flight"),
    setting(
        "serve",
        "heartbeat_interval",
        time(Number::Duration(|it| &mut it.node.heartbeat_interval), 10, MINUTE_MS),
    ),
    setting(
        "serve",
        "log",
        Kind::Word {
            part: |it| &mut it.log,
            allowed: "a log filter, such as info or warn,semel_server=debug",
            check: logging::check,
        },
    )
    .option("FILTER", "What is logged, such as info or warn,semel_server=debug")
    .variable("SEMEL_LOG"),
    setting("serve", "log_format", Kind::Format(|it| &mut it.log_format))
        .option("FORMAT", "How the log is written: text or json"),
    //
    setting(
        "keys",
        "retention",
        time(Number::Duration(|it| &mut it.node.keys.retention), MINUTE_MS, 30 * DAY_MS),
    )
    .option(
        "DURATION",
        "How long answers are kept at the least: 1 min to 30 d. Raising it counts from now on: \
         what was removed under a shorter one is not known any more",
    ),
    setting("keys", "require_first_sent", Kind::Switch(|it| &mut it.node.keys.require_first_sent))
        .option("BOOL", "Refuse claims that do not say when their intent was made (first_sent)"),
    setting(
        "keys",
        "allowed_skew",
        time(Number::Duration(|it| &mut it.node.keys.allowed_skew), 0, MINUTE_MS),
    )
    .option("DURATION", "How far the clocks of callers and of this machine may be apart"),
    setting("keys", "grant_bodies", Kind::Switch(|it| &mut it.node.keys.grant_bodies))
        .option("BOOL", "Let operators read the bodies of stored answers"),
    setting(
        "keys",
        "body_limit",
        bytes(Number::Usize(|it| &mut it.node.keys.body_limit_bytes), 4 << 20),
    )
    .option("SIZE", "The longest body that is stored; of a longer one only the digest is"),
    setting(
        "keys",
        "replay_cache",
        bytes(Number::U64(|it| &mut it.node.keys.replay_cache_bytes), 1 << 40),
    )
    .option("SIZE", "Memory for answers that are asked for often"),
    setting(
        "keys",
        "waiters_per_key",
        count(|it| &mut it.node.keys.waiters_per_key_max, 1, MILLION),
    )
    .option("N", "Callers that may wait for one key"),
    setting(
        "keys",
        "waiters_per_tenant",
        count(|it| &mut it.node.keys.waiters_per_tenant_max, 1, MILLION),
    )
    .option("N", "Callers that may wait for keys of one tenant"),
    setting("keys", "waiters", count(|it| &mut it.node.keys.waiters_max, 1, MILLION))
        .option("N", "Callers that may wait at all"),
    setting(
        "keys",
        "sweep_interval",
        time(Number::Duration(|it| &mut it.node.keys.sweep_interval), 10, HOUR_MS),
    ),
    //
    setting(
        "retries",
        "budgets_max",
        count(|it| &mut it.node.retries.budgets_max, 1, 10 * MILLION),
    ),
    setting(
        "retries",
        "clients_max",
        count(|it| &mut it.node.retries.clients_max, 1, 100 * MILLION),
    ),
    setting(
        "retries",
        "recent_tokens_max",
        count(|it| &mut it.node.retries.recent_tokens_max, 1, 100 * MILLION),
    ),
    setting(
        "retries",
        "recent_roots_max",
        count(|it| &mut it.node.retries.recent_roots_max, 1, 100 * MILLION),
    ),
    setting(
        "retries",
        "leftovers_interval",
        time(Number::Duration(|it| &mut it.node.leftovers_interval), 10, HOUR_MS),
    ),
    //
    setting(
        "breakers",
        "breakers_max",
        count(|it| &mut it.node.breakers.breakers_max, 1, 10 * MILLION),
    ),
    setting("breakers", "watchers_max", count(|it| &mut it.node.breakers.watchers_max, 1, MILLION)),
    setting(
        "breakers",
        "reporters_max",
        count(|it| &mut it.node.breakers.reporters_max, 1, 10 * MILLION),
    ),
    //
    setting(
        "postgres",
        "schema",
        Kind::Word {
            part: |it| &mut it.postgres.schema,
            allowed: "1 to 48 of a-z, 0-9 and _, not beginning with a digit",
            check: check_schema,
        },
    ),
    setting("postgres", "migrate", Kind::Switch(|it| &mut it.postgres.migrate)),
    setting("postgres", "connections", count(|it| &mut it.postgres.connections, 1, 64)),
    setting("postgres", "listen", Kind::Switch(|it| &mut it.postgres.listen)),
    setting("postgres", "poll", time(Number::U64(|it| &mut it.postgres.poll_ms), 100, MINUTE_MS)),
    setting(
        "postgres",
        "connect_timeout",
        time(Number::U64(|it| &mut it.postgres.connect_timeout_ms), 100, MINUTE_MS),
    ),
    setting(
        "postgres",
        "statement_timeout",
        time(Number::U64(|it| &mut it.postgres.statement_timeout_ms), 100, 10 * MINUTE_MS),
    ),
    setting(
        "postgres",
        "lock_timeout",
        time(Number::U64(|it| &mut it.postgres.lock_timeout_ms), 10, MINUTE_MS),
    ),
    setting(
        "postgres",
        "reconnect_wait",
        time(Number::U64(|it| &mut it.postgres.reconnect_wait_ms), 0, MINUTE_MS),
    ),
    setting(
        "postgres",
        "queue_updates",
        count(|it| &mut it.postgres.queue_updates, 4_096, MILLION),
    ),
    //
    setting(
        FDB,
        "name",
        Kind::Word {
            part: |it| &mut it.foundationdb.store.name,
            allowed: "1 to 48 of a-z, 0-9, _ and -",
            check: check_store_name,
        },
    ),
    setting(FDB, "watches", Kind::Number {
        part: Number::Usize(|it| &mut it.foundationdb.store.watches),
        unit: Unit::Pieces,
        least: 0,
        most: 100_000,
    }),
    setting(FDB, "poll", time(Number::U64(|it| &mut it.foundationdb.store.poll_ms), 100, MINUTE_MS)),
    setting(
        FDB,
        "connect_timeout",
        time(
            Number::U64(|it| &mut it.foundationdb.store.connect_timeout_ms),
            100,
            10 * MINUTE_MS,
        ),
    ),
    setting(
        FDB,
        "transaction_timeout",
        time(
            Number::U64(|it| &mut it.foundationdb.store.transaction_timeout_ms),
            100,
            10 * MINUTE_MS,
        ),
    ),
    setting(
        FDB,
        "conflict_timeout",
        time(Number::U64(|it| &mut it.foundationdb.store.conflict_timeout_ms), 10, MINUTE_MS),
    ),
    setting(
        FDB,
        "queue_updates",
        count(|it| &mut it.foundationdb.store.queue_updates, 4_096, MILLION),
    ),
    setting(FDB, "tls_certificate_file", file(|it| &mut it.foundationdb.network.tls_certificate_file)),
    setting(FDB, "tls_key_file", file(|it| &mut it.foundationdb.network.tls_key_file)),
    setting(FDB, "tls_password_file", file(|it| &mut it.foundationdb.network.tls_password_file)),
    setting(FDB, "tls_ca_file", file(|it| &mut it.foundationdb.network.tls_ca_file)),
    setting(
        FDB,
        "tls_verify_peers",
        Kind::Given {
            part: |it| &mut it.foundationdb.network.tls_verify_peers,
            allowed: "a rule such as Check.Valid=1,S.CN=fdb.internal",
        },
    ),
    setting(
        FDB,
        "external_client_directory",
        file(|it| &mut it.foundationdb.network.external_client_directory),
    ),
    setting(FDB, "trace_directory", file(|it| &mut it.foundationdb.network.trace_directory)),
];

fn check_store_name(name: &str) -> Result<(), String> {
    if FdbOptions::is_name(name) { Ok(()) } else { Err("this is no such name".to_owned()) }
}

fn check_schema(name: &str) -> Result<(), String> {
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let begins = name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
    if begins && name.len() <= 48 && name.bytes().all(word) {
        return Ok(());
    }
    Err("this is no such word".to_owned())
}
