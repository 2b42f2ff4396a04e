//! What the examples need beside what they show: settings, a connection, and places to be killed at.

#![allow(dead_code, reason = "not every example needs all of it")]

use semel_client::Client;

pub(crate) type Failure = Box<dyn std::error::Error>;

/// A setting from the environment.
pub(crate) fn setting(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_owned())
}

/// A client of the node at SEMEL_TARGET.
pub(crate) fn semel() -> Result<Client, semel_client::Error> {
    Client::connect("acme", [setting("SEMEL_TARGET", "http://127.0.0.1:7450")])
}

/// At the step that SEMEL_EXAMPLE_STOP_AT names it says that it is there, and waits to be killed.
pub(crate) async fn step(name: &str) {
    if setting("SEMEL_EXAMPLE_STOP_AT", "") == name {
        println!("stopped at {name}");
        std::future::pending::<()>().await;
    }
}

/// A connection to the database at SEMEL_EXAMPLE_DATABASE.
#[cfg(feature = "postgres")]
pub(crate) async fn database() -> Result<tokio_postgres::Client, tokio_postgres::Error> {
    let url = setting("SEMEL_EXAMPLE_DATABASE", "postgres://postgres@127.0.0.1/postgres");
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}
