//! A standby of a PostgreSQL server of a test: it repeats what its primary writes, and can take its place.
//! Beside `postgres.rs`, and taken in with it.
//!
//! A primary whose commits wait for a standby takes none while that is away, so they are told to wait only
//! once it streams; a standby that was promoted waits for nobody.

#![allow(dead_code, reason = "each test bench uses a part of it")]

use std::time::Duration;

use crate::postgres::{Postgres, Stop, finish};

/// The name by which a primary knows its standby.
const NAME: &str = "standby";
/// How long a standby may take to have all that its primary wrote.
const PATIENCE: Duration = Duration::from_secs(60);

/// What an answer to a commit says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commits {
    /// The standby has it on its disk, too.
    WaitForStandby,
    /// The primary has it, and the standby will some time later.
    DoNotWait,
}

/// A standby that streams from a primary.
pub(crate) struct Standby {
    server: Postgres,
    commits: Commits,
}

impl Standby {
    /// Copies a primary, which goes on meanwhile, and follows it.
    pub(crate) fn of(primary: &Postgres, commits: Commits) -> Self {
        // What is copied is the settings, too.
        primary.sql(&["ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"]);
        let mut server = primary.another();
        let from =
            format!("host=127.0.0.1 port={} user=semel application_name={NAME}", primary.port());
        let mut copy = server.program("pg_basebackup");
        copy.args(["--dbname", &from, "--checkpoint=fast", "--wal-method=stream", "--no-sync"]);
        finish(copy.args(["--write-recovery-conf", "--pgdata"]).arg(server.data()));
        server.start_again();
        // Otherwise it waits for seconds before it looks for a primary that was away.
        server.sql(&[
            "ALTER SYSTEM SET wal_retrieve_retry_interval = '100ms'",
            "SELECT pg_reload_conf()",
        ]);
        let mut standby = Self { server, commits: Commits::DoNotWait };
        standby.catch_up(primary);
        if commits == Commits::WaitForStandby {
            let wait = format!("ALTER SYSTEM SET synchronous_standby_names = '{NAME}'");
            primary.sql(&[&wait, "SELECT pg_reload_conf()"]);
            standby.commits = commits;
            standby.catch_up(primary);
        }
        standby
    }

    /// Waits until it streams, as the primary sees it, and has what was written until then.
    pub(crate) fn catch_up(&self, primary: &Postgres) {
        let state = match self.commits {
            Commits::WaitForStandby => "sync",
            Commits::DoNotWait => "async",
        };
        let wait = format!(
            "DO $$ DECLARE written pg_lsn := pg_current_wal_flush_lsn();
             BEGIN
                 WHILE NOT EXISTS (
                     SELECT FROM pg_stat_replication
                     WHERE application_name = '{NAME}' AND state = 'streaming' AND flush_lsn >= written
                       AND sync_state = '{state}')
                 LOOP
                     PERFORM pg_sleep(0.02);
                     PERFORM pg_stat_clear_snapshot();
                 END LOOP;
             END $$"
        );
        let limit = format!("SET statement_timeout = '{} s'", PATIENCE.as_secs());
        primary.sql(&[&limit, &wait]);
    }

    /// Receives nothing from its primary any more, and goes on with what it has.
    pub(crate) fn stop_receiving(&self, primary: &Postgres) {
        self.server.sql(&["ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()"]);
        let limit = format!("SET statement_timeout = '{} s'", PATIENCE.as_secs());
        let gone = "DO $$ BEGIN
            WHILE EXISTS (SELECT FROM pg_stat_replication) LOOP
                PERFORM pg_sleep(0.02);
                PERFORM pg_stat_clear_snapshot();
            END LOOP;
        END $$";
        primary.sql(&[&limit, gone]);
    }

    /// Is away from now on; commits that wait for it wait until it is back.
    pub(crate) fn stop(&mut self) {
        self.server.stop(Stop::Fast);
    }

    /// Is back; its primary, which must be up, is followed again.
    pub(crate) fn start_again(&mut self, primary: &Postgres) {
        self.server.start_again();
        self.catch_up(primary);
    }

    /// Takes the place of its primary, which must have ended: two would write two histories.
    pub(crate) fn promote(self) -> Postgres {
        let mut promote = self.server.program("pg_ctl");
        promote.args(["promote", "--wait", "--timeout", &PATIENCE.as_secs().to_string()]);
        finish(promote.arg("--pgdata").arg(self.server.data()));
        self.server
    }

    /// The server itself, to look at.
    pub(crate) fn server(&self) -> &Postgres {
        &self.server
    }
}
