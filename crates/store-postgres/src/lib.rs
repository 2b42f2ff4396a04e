//! The PostgreSQL engine of Semel: many nodes over one database, version 13 or later.
//!
//! # How an update runs
//!
//! A whole batch takes two round trips, whatever its size. One statement reads all its records, with
//! the database's clock; the transitions are applied here; one statement, which is one implicit
//! transaction, writes what changed, each record only over the version that was read. What was lost to
//! another node is run again ([`semel_store::optimistic`]). Batches that come at the same time share these
//! statements. Between the two nothing is held in the database: a node that is stopped in the middle is in
//! nobody's way. Batches share a few connections and are pipelined over them, so waiting costs no
//! connection.
//!
//! # Invariants
//!
//! - A record and its index entries change in one statement; entries change only with their record.
//! - Updates of one record by one node go one after the other; those of several nodes are ordered by
//!   the record's version, which is never the same twice.
//! - What is answered as synced was committed with `synchronous_commit` on, and what such an answer saw
//!   is on disk: a record that was last written relaxed has the log flushed before, by a small write
//!   of its own, each time until it is written synced.
//! - An error after the write was sent is [`Unknown`](semel_store::StoreError::Unknown), unless the
//!   database said that it was rolled back.
//! - No text and no `Debug` holds a password or a connection string.
//!
//! # Durability
//!
//! What the database acknowledges, it must keep: see [`PostgresStore::durability_warnings`]. With
//! standbys, name them in `synchronous_standby_names`: a failover to one that lacks the last commits
//! would have keys run twice. And let nobody cancel a commit that waits for a standby
//! (`pg_cancel_backend`): the database then calls it committed. A server that was started again after a
//! crash shows commits that still waited for their standby: fail over only to one that has caught up since.
//!
//! # Bloat
//!
//! Every change of a row leaves a dead one. Three things keep tables from growing: pages have free room
//! (`fillfactor`), and no column but the key is indexed, so a changed row stays on its page and the
//! next visitor clears the dead one away, without vacuum and without a new index entry; vacuum is set
//! per table to come after 2 % of dead rows, not 20 %; deleted rows make room for the new ones that
//! follow. What is left is as much as dies between two visits of the vacuum: its pauses are the
//! server's own, since one that does not pause has commits wait for the disk. With thousands of claims a
//! second, set `autovacuum_naptime` to 10 s. `examples/churn.rs` shows the sizes while claims come and
//! go.
//!
//! # Layout
//!
//! - `options`, `address`, `tls`, `error`: what is chosen, and what goes wrong
//! - `schema`: the tables and their migrations; `statements`: the SQL
//! - `link`, `session`: connections that are made again when they are lost; `patience`: how long a statement may
//!   take
//! - `engine`, `read`, `arrays`, `write`: what updates ask of the database; `scan`: scans
//! - `wakes`: wake-ups across nodes; `time`: the clock; `warnings`: settings that lose data
//!
//! # What it does not do
//!
//! It expires nothing, it keeps no pool, and it can't go through a pooler that gives statements of one
//! session to several (transaction pooling). A batch is not one transaction: its records are committed
//! together, except for those that were lost to others, or relaxed beside synced ones, or that weigh
//! more than 32 MiB together. A foreign lock on one row fails the items that share its statement.

mod address;
mod arrays;
mod engine;
mod error;
mod link;
mod options;
mod patience;
mod read;
mod scan;
mod schema;
mod session;
mod shared;
mod statements;
mod store;
mod time;
mod tls;
mod wakes;
mod warnings;
mod write;

pub use error::OpenError;
pub use options::PostgresOptions;
pub use schema::{SchemaStatus, migrate, status};
pub use store::PostgresStore;
