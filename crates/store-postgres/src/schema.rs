//! The schema and its migrations: numbered SQL files, each applied once.
//!
//! A runner of our own, in place of a library: what is needed is one lock, one table and one
//! transaction, in a schema whose name is an option; libraries bring a parser of file names, of dates
//! and of settings, and take no lock.
//!
//! Invariants: all missing migrations are applied in one transaction, under a lock that other nodes
//! wait for; a schema that is newer than this version knows is left alone. A migration only adds, so
//! that older nodes which are open go on; one that would break them waits until a later version,
//! when none of them is left.

use std::time::Duration;

use tokio_postgres::Client;

use crate::error::{OpenError, describe};
use crate::link::{self, AnyConnection};
use crate::options::PostgresOptions;
use crate::tls;

struct Migration {
    version: i32,
    name: &'static str,
    sql: &'static str,
}

const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    name: "records",
    sql: include_str!("../migrations/0001_records.sql"),
}];

/// "semel", so that no other program's lock is met by chance.
const LOCK: i32 = 0x7365_6d65;

/// What a schema has, and what this version of Semel knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaStatus {
    /// The schema.
    pub schema: String,
    /// The version that it has; 0: none.
    pub version: i32,
    /// The newest version that is known here.
    pub known: i32,
    /// The names of the migrations that are missing, in order.
    pub missing: Vec<&'static str>,
}

/// Says which migrations a database has. Changes nothing.
///
/// # Errors
///
/// [`OpenError`], as for opening a store; a newer schema is no error here.
pub async fn status(options: &PostgresOptions) -> Result<SchemaStatus, OpenError> {
    let (client, connection) = connect(options).await?;
    tokio::select! {
        version = version(&client, options) => Ok(describe_version(options, version?)),
        error = ended(connection) => Err(error),
    }
}

/// Applies the migrations that are missing, and returns their names. Safe to be run by many at once,
/// and while older nodes work.
///
/// # Errors
///
/// [`OpenError::Newer`] if the schema is newer than this version knows; or the database can't be
/// reached, or refuses, and then nothing was changed.
pub async fn migrate(options: &PostgresOptions) -> Result<Vec<&'static str>, OpenError> {
    let (client, connection) = connect(options).await?;
    tokio::select! {
        applied = apply(&client, options) => applied,
        error = ended(connection) => Err(error),
    }
}

/// Makes sure that the schema is the one that is needed.
pub(crate) async fn prepare(options: &PostgresOptions) -> Result<(), OpenError> {
    let (client, connection) = connect(options).await?;
    tokio::select! {
        done = check_or_apply(&client, options) => done,
        error = ended(connection) => Err(error),
    }
}

async fn check_or_apply(client: &Client, options: &PostgresOptions) -> Result<(), OpenError> {
    let found = version(client, options).await?;
    check_not_newer(options, found)?;
    if found == known() {
        return Ok(());
    }
    if !options.migrate {
        let schema = options.schema.clone();
        return Err(OpenError::Older { schema, found, known: known() });
    }
    apply(client, options).await.map(|_| ())
}

async fn apply(client: &Client, options: &PostgresOptions) -> Result<Vec<&'static str>, OpenError> {
    let schema = &options.schema;
    let begin = format!(
        "BEGIN;
         SET LOCAL lock_timeout = '60s';
         SELECT pg_advisory_xact_lock({LOCK}, hashtext('{schema}'));
         CREATE SCHEMA IF NOT EXISTS {schema};
         SET LOCAL search_path = {schema};
         CREATE TABLE IF NOT EXISTS migrations (
             version integer PRIMARY KEY,
             name text NOT NULL,
             applied_at timestamptz NOT NULL DEFAULT now()
         )"
    );
    let failed = |error: tokio_postgres::Error| OpenError::unreachable(&error);
    client.batch_execute(&begin).await.map_err(failed)?;
    let found = version(client, options).await?;
    // The transaction goes with the connection.
    check_not_newer(options, found)?;
    let missing: Vec<&Migration> = missing(found).collect();
    for migration in &missing {
        let Migration { version, name, sql } = migration;
        let note = format!("INSERT INTO migrations (version, name) VALUES ({version}, '{name}')");
        client.batch_execute(sql).await.map_err(failed)?;
        client.batch_execute(&note).await.map_err(failed)?;
    }
    client.batch_execute("COMMIT").await.map_err(failed)?;
    for migration in &missing {
        tracing::info!(schema, version = migration.version, name = migration.name, "migrated");
    }
    Ok(missing.iter().map(|migration| migration.name).collect())
}

/// The version of the schema; 0: there is none.
async fn version(client: &Client, options: &PostgresOptions) -> Result<i32, OpenError> {
    let failed = |error: tokio_postgres::Error| OpenError::unreachable(&error);
    let table = format!("{}.migrations", options.schema);
    let row = client.query_one("SELECT to_regclass($1::text) IS NOT NULL", &[&table]).await;
    if !row.and_then(|row| row.try_get::<_, bool>(0)).map_err(failed)? {
        return Ok(0);
    }
    let newest = format!("SELECT coalesce(max(version), 0) FROM {table}");
    let row = client.query_one(&newest, &[]).await;
    row.and_then(|row| row.try_get(0)).map_err(failed)
}

fn known() -> i32 {
    MIGRATIONS.last().map_or(0, |migration| migration.version)
}

fn missing(found: i32) -> impl Iterator<Item = &'static Migration> {
    MIGRATIONS.iter().filter(move |migration| migration.version > found)
}

fn describe_version(options: &PostgresOptions, version: i32) -> SchemaStatus {
    let missing = missing(version).map(|migration| migration.name).collect();
    SchemaStatus { schema: options.schema.clone(), version, known: known(), missing }
}

fn check_not_newer(options: &PostgresOptions, found: i32) -> Result<(), OpenError> {
    if found > known() {
        let schema = options.schema.clone();
        return Err(OpenError::Newer { schema, found, known: known() });
    }
    Ok(())
}

async fn connect(options: &PostgresOptions) -> Result<(Client, AnyConnection), OpenError> {
    options.check()?;
    let tls = tls::connector(options.demand, options.root_file.as_deref())?;
    let wait = Duration::from_millis(options.connect_timeout_ms);
    let connected = tokio::time::timeout(wait, link::connect(options, &tls)).await;
    let late = |_| OpenError::Unreachable("it took too long to connect".to_owned());
    connected.map_err(late)?.map_err(|error| OpenError::unreachable(&error))
}

async fn ended(connection: AnyConnection) -> OpenError {
    OpenError::Unreachable(match connection.await {
        Ok(()) => "the connection was closed".to_owned(),
        Err(error) => describe(&error),
    })
}
