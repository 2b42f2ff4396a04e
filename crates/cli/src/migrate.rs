//! `semel migrate`: the tables of a store in a database, looked at or brought up to date.

use std::io;

use clap::Args;
use semel_store_postgres::{OpenError, PostgresOptions, SchemaStatus, migrate, status};
use serde::Serialize;

use crate::config::{Given, StoreSettings};
use crate::engine::{Engine, database_refused};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{CAUTION, GOOD, Output, Page, Reply, STRONG};
use crate::stop::current_thread_runtime;

const EXAMPLES: &str = "\
Examples:
  semel migrate --store postgres://semel@db.internal/semel
  semel migrate --config /etc/semel/semel.toml --status

A node does this by itself when it starts, unless [postgres] migrate = false. It is safe beside
nodes that work, and from many machines at once. With --status nothing is changed, and the exit
code is 1 unless the schema is as this version needs it.";

/// The arguments of `semel migrate`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MigrateArgs {
    #[command(flatten)]
    given: Given<StoreSettings>,

    /// Only say which migrations the database has and which it lacks.
    #[arg(long)]
    status: bool,
}

impl MigrateArgs {
    /// Does it.
    pub(crate) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        let engine = self.given.load()?.settings.engine()?;
        let name = engine.name();
        let options = match engine {
            Engine::Postgres(options) => options,
            Engine::Embedded(_) | Engine::Fdb(_) => return Err(nothing_to_migrate(&name)),
        };
        let runtime = current_thread_runtime()?;
        let done = runtime.block_on(self.work(&options));
        let schema = done.map_err(|error| database_refused(&name, &error))?;
        output.reply(&schema)?;
        Ok(if schema.state == State::Current { Exit::Done } else { Exit::No })
    }

    async fn work(&self, options: &PostgresOptions) -> Result<Schema, OpenError> {
        let applied = if self.status { Vec::new() } else { migrate(options).await? };
        Ok(Schema::new(status(options).await?, applied))
    }
}

fn nothing_to_migrate(store: &str) -> Failure {
    Failure::usage(format!("the store is in {store}, which needs no migrations"))
        .advise(
            "name a database: --store postgres://USER@HOST/DATABASE, SEMEL_STORE, or `store` below [serve] \
             in the file of settings",
        )
}

/// What the schema is to this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Current,
    /// Migrations are missing.
    Older,
    /// A later version of Semel made it.
    Newer,
}

/// What a database has, and what was done.
#[derive(Debug, Serialize)]
struct Schema {
    schema: String,
    state: State,
    version: i32,
    needed: i32,
    applied: Vec<&'static str>,
    missing: Vec<&'static str>,
}

impl Schema {
    fn new(status: SchemaStatus, applied: Vec<&'static str>) -> Self {
        let SchemaStatus { schema, version, known: needed, missing } = status;
        let state = match version.cmp(&needed) {
            std::cmp::Ordering::Less => State::Older,
            std::cmp::Ordering::Equal => State::Current,
            std::cmp::Ordering::Greater => State::Newer,
        };
        Self { schema, state, version, needed, applied, missing }
    }
}

impl Reply for Schema {
    fn write(&self, page: &mut Page<'_>) -> io::Result<()> {
        let Self { schema, version, needed, .. } = self;
        match self.state {
            State::Current if self.applied.is_empty() => page.title(
                GOOD,
                "UP TO DATE",
                &format!("the schema {schema} has version {version}"),
            ),
            State::Current => {
                page.title(
                    GOOD,
                    "MIGRATED",
                    &format!("the schema {schema} has version {version} now"),
                )?;
                page.field("applied", self.applied.join(", "))
            }
            State::Older => {
                let meaning = format!("the schema {schema} has version {version} of {needed}");
                page.title(CAUTION, "MIGRATIONS MISSING", &meaning)?;
                page.field("missing", self.missing.join(", "))?;
                page.line(format!("{STRONG}next:{STRONG:#} `semel migrate` without --status"))
            }
            State::Newer => {
                let meaning = format!(
                    "the schema {schema} has version {version}, and this Semel knows those up to {needed}: \
                     upgrade it"
                );
                page.title(CAUTION, "NEWER", &meaning)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(version: i32) -> Schema {
        let missing = if version < 2 { vec!["two"] } else { Vec::new() };
        Schema::new(
            SchemaStatus { schema: "semel".to_owned(), version, known: 2, missing },
            Vec::new(),
        )
    }

    #[test]
    fn only_the_version_that_is_needed_is_current() {
        let states = [0, 1, 2, 3].map(|version| schema(version).state);
        assert_eq!(states, [State::Older, State::Older, State::Current, State::Newer]);
    }
}
