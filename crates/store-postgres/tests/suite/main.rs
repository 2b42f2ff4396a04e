//! The PostgreSQL engine against servers of its own.

#[path = "../support/postgres.rs"]
mod postgres;

mod conformance;
mod failures;
mod nodes;
mod schema;
mod steps;
