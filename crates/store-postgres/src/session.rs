//! One connection: its settings, its prepared statements, and what its errors mean.
//!
//! Invariants: no statement waits longer than the node's patience, and a session that broke it is
//! ended; no transaction lasts longer than one statement.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};
use tokio_util::sync::CancellationToken;

use crate::error::{Failure, ends_session};
use crate::options::PostgresOptions;
use crate::patience::Limits;
use crate::statements::{self, Shape};

/// The statements that are prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Named {
    Limit,
    Read,
    Versions,
    Flush,
    Sweep,
    Announce,
    ScanRecords,
    ScanEntries,
    Write(Shape),
}

impl Named {
    fn sql(self) -> String {
        match self {
            Self::Limit => statements::LIMIT.to_owned(),
            Self::Read => statements::READ.to_owned(),
            Self::Versions => statements::VERSIONS.to_owned(),
            Self::Flush => statements::FLUSH.to_owned(),
            Self::Sweep => statements::SWEEP.to_owned(),
            Self::Announce => statements::ANNOUNCE.to_owned(),
            Self::ScanRecords => statements::scan("records"),
            Self::ScanEntries => statements::scan("entries"),
            Self::Write(shape) => statements::write(shape),
        }
    }

    /// Whether somebody is told that what it did is durable or done.
    fn writes(self) -> bool {
        matches!(self, Self::Write(_))
    }
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// Reads, scans, and commits that are on disk when they are answered.
    Synced,
    /// Commits that are on disk soon, and announcements.
    Relaxed,
    /// Hearing announcements.
    Listen,
}

/// A connection that is up, shared by all who use it.
pub(crate) struct Session {
    client: Client,
    statements: Mutex<HashMap<Named, Statement>>,
    in_flight: AtomicUsize,
    most: Limits,
    /// What the statements that are sent next are limited to.
    limits: Mutex<Limits>,
    /// When a database that says nothing is given up.
    silence: Duration,
    end: CancellationToken,
}

impl Session {
    pub(crate) fn new(client: Client, options: &PostgresOptions) -> Self {
        Self {
            client,
            statements: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            most: Limits::of(options),
            limits: Mutex::new(Limits::of(options)),
            silence: options.silence_timeout(),
            end: CancellationToken::new(),
        }
    }

    /// Gives the session its settings, and returns the newest time of a commit.
    pub(crate) async fn set_up(
        &self,
        duty: Duty,
        options: &PostgresOptions,
    ) -> Result<i64, tokio_postgres::Error> {
        self.client.batch_execute(&settings(duty, options)).await?;
        // At hand whenever the limits change.
        self.prepared(Named::Limit).await?;
        let latest_us = self.client.query_one_scalar(statements::LATEST, &[]).await?;
        if duty == Duty::Listen {
            self.client.batch_execute(&format!("LISTEN {}", options.channel())).await?;
        }
        Ok(latest_us)
    }

    /// Runs a statement for those who wait no longer than `patience`. What was sent and not answered may have been done.
    pub(crate) async fn query(
        &self,
        named: Named,
        patience: Option<Duration>,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Failure> {
        let _counted = Counted::new(&self.in_flight);
        let statement = self.in_time(self.prepared(named)).await?;
        let statement = statement.map_err(|error| self.look_at(&error, false))?;
        if self.client.is_closed() {
            return Err(Failure::Unavailable("the connection to the database was lost".to_owned()));
        }
        let limits = self.most.within(patience);
        let query = async {
            let changes = std::mem::replace(&mut *self.limits(), limits) != limits;
            let limit = changes.then(|| self.statements().get(&Named::Limit).cloned()).flatten();
            let Some(limit) = limit else {
                return self.client.query(&statement, parameters).await;
            };
            let (statement_ms, lock_ms) =
                (limits.statement_ms.to_string(), limits.lock_ms.to_string());
            let wanted: [&(dyn ToSql + Sync); 2] = [&statement_ms, &lock_ms];
            // Both are sent before either is answered, and before anything else can be: all statements are
            // sent by one thread.
            let (limited, rows) = tokio::join!(
                self.client.query(&limit, &wanted),
                self.client.query(&statement, parameters)
            );
            limited.and(rows)
        };
        match self.in_time(query).await {
            Ok(rows) => rows.map_err(|error| self.look_at(&error, named.writes())),
            Err(Failure::Unavailable(text)) if named.writes() => Err(Failure::Unknown(text)),
            Err(failure) => Err(failure),
        }
    }

    /// Runs SQL that is not prepared and reads nothing of ours.
    pub(crate) async fn query_once(&self, sql: &str) -> Result<Vec<Row>, Failure> {
        let answer = self.in_time(self.client.query(sql, &[])).await?;
        answer.map_err(|error| self.look_at(&error, false))
    }

    async fn prepared(&self, named: Named) -> Result<Statement, tokio_postgres::Error> {
        if let Some(statement) = self.statements().get(&named) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(&named.sql()).await?;
        self.statements().insert(named, statement.clone());
        Ok(statement)
    }

    fn limits(&self) -> MutexGuard<'_, Limits> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn statements(&self) -> MutexGuard<'_, HashMap<Named, Statement>> {
        self.statements.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn in_time<T>(&self, answer: impl Future<Output = T>) -> Result<T, Failure> {
        tokio::time::timeout(self.silence, answer).await.map_err(|_| {
            self.end.cancel();
            let seconds = self.silence.as_secs_f64();
            Failure::Unavailable(format!("the database did not answer within {seconds} s"))
        })
    }

    fn look_at(&self, error: &tokio_postgres::Error, writes: bool) -> Failure {
        if ends_session(error) {
            self.end.cancel();
        }
        if writes { Failure::of_write(error) } else { Failure::before_write(error) }
    }

    /// How many statements wait for their answers.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    pub(crate) fn is_up(&self) -> bool {
        !self.client.is_closed() && !self.end.is_cancelled()
    }

    /// Waits until somebody found that the session is of no use any more.
    pub(crate) async fn ended(&self) {
        self.end.cancelled().await;
    }
}

struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The planner is held to look-ups in the order of the arrays. Then one plan is right for all tables, empty
/// or full, and planning anew for each statement would be a quarter of the database's work.
fn settings(duty: Duty, options: &PostgresOptions) -> String {
    let synchronous_commit = match duty {
        // Stronger than `on` is the server's own choice and stays.
        Duty::Synced => {
            "SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit')
                 WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false);"
        }
        Duty::Relaxed | Duty::Listen => "SET synchronous_commit = off;",
    };
    format!(
        "SET search_path = {schema};
         SET statement_timeout = {statement_ms};
         SET lock_timeout = {lock_ms};
         SET idle_in_transaction_session_timeout = {statement_ms};
         SET default_transaction_isolation = 'read committed';
         SET client_encoding = 'UTF8';
         SET plan_cache_mode = force_generic_plan;
         SET enable_seqscan = off;
         SET enable_bitmapscan = off;
         SET enable_hashjoin = off;
         SET enable_mergejoin = off;
         SET jit = off;
         SELECT set_config(name, '1000', false) FROM pg_settings
         WHERE name = 'client_connection_check_interval';
         {synchronous_commit}",
        schema = options.schema,
        statement_ms = options.statement_timeout_ms,
        lock_ms = options.lock_timeout_ms,
    )
}
