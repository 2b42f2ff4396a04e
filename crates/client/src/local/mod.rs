//! Effects in your own PostgreSQL database: the effect and a *receipt* of it in one transaction, so that both
//! are there or neither is.
//!
//! Apply [`MIGRATION`] once. Then there are two ways to use receipts.
//!
//! # Without a node
//!
//! If all effects of a key lie in one database, that database can keep the key: [`once`] claims it by
//! inserting the receipt, does the work, and commits both.
//!
//! ```no_run
//! use semel_client::fingerprint::Intent;
//! use semel_client::keys::{KeyName, Response, Work};
//! use semel_client::local::{self, Outcome};
//!
//! # async fn example(mut database: tokio_postgres::Client) -> Result<(), local::Error> {
//! let name = KeyName::new("acme", "accounts.credit", "order-8812");
//! let intent = Intent::new("accounts.credit", "account/77").bytes(b"4200 EUR");
//! let outcome = local::once(&name, &intent)
//!     .run(&mut database, async |tx| {
//!         tx.execute("UPDATE accounts SET cents = cents + 4200 WHERE id = 77", &[]).await?;
//!         Ok(Work::Succeeded(Response::new(200, "credited")))
//!     })
//!     .await?;
//! if let Outcome::ComeBackLater { after } = outcome { /* another transaction is at it */ }
//! # Ok(())
//! # }
//! ```
//!
//! # Under a claim
//!
//! Semel decides whose work it is, also across databases; the receipt, written under the claim's fence, tells
//! what really happened when a completion never reached Semel. [`under`] writes the effect with the receipt;
//! [`resolution`] looks the receipts of stuck keys up, as a handler of a [recovery](crate::recovery).
//!
//! ```no_run
//! use semel_client::fingerprint::Intent;
//! use semel_client::keys::{Response, StuckKey, Work};
//! use semel_client::{Client, Deadline, local};
//!
//! # async fn example(
//! #     semel: Client, mut database: tokio_postgres::Client, another: tokio_postgres::Client, deadline: Deadline,
//! # ) -> Result<(), semel_client::Error> {
//! let intent = Intent::new("accounts.credit", "account/77").bytes(b"4200 EUR");
//! let once = semel.once("accounts.credit", "order-8812").fingerprint(intent);
//! let outcome = once
//!     .run(async |claim| {
//!         local::work(local::under(claim.claim()).run(&mut database, async |tx| {
//!             tx.execute("UPDATE accounts SET cents = cents + 4200 WHERE id = 77", &[]).await?;
//!             Ok(Work::Succeeded(Response::new(200, "credited")))
//!         }).await)
//!     })
//!     .await?;
//!
//! // Elsewhere, and again and again:
//! let recovery = semel.recovery("accounts.credit", "recovery-job");
//! let look = async |key: &StuckKey| local::resolution(&another, key).await.ok().flatten();
//! recovery.sweep(deadline, look).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What it promises
//!
//! - **One effect.** The row of a key is inserted before its work. A duplicate that comes meanwhile waits for
//!   that row: once the first has committed, it gets the first one's answer; if the first is rolled back, by a
//!   crash too, it does the work itself. One that waits for longer than the lock timeout comes back later.
//! - **No late write.** Whoever finds no receipt of a stuck key inserts a row that bars its fence and older
//!   ones, and only then calls it not done. A paused owner that wakes afterwards meets that row and is refused;
//!   one whose transaction is still open holds the row, and whoever looks waits for its end or looks later.
//! - **Takers over need not look first.** Under a newer fence they meet the receipt of the older one, and
//!   get its answer. [`OnOwnerLost::TakeOver`](crate::keys::OnOwnerLost) is safe for such work.
//!
//! # What it does not do
//!
//! - It undoes nothing that lies elsewhere: what the work does outside of the transaction is not guarded.
//! - It outlives no loss of commits: behind a replica that was behind when it took over, receipts and effects
//!   are lost together, while Semel still knows the key to be done.
//! - Receipts don't go away by themselves: [`prune`] them, once no attempt can come any more. Once it is
//!   pruned, a key [without a node](once) runs again.
//!
//! # Layout
//!
//! - `once`: claim, work and receipt in one transaction
//! - `outcome`: what came of it
//! - `row`: how the row of a key is claimed, filled and pruned
//! - `resolve`: what became of a stuck key
//! - `error`: what can go wrong

mod error;
mod once;
mod outcome;
mod resolve;
mod row;

pub use self::error::Error;
pub use self::once::{Once, once, under, work};
pub use self::outcome::{Outcome, Receipt};
pub use self::resolve::resolution;
pub use self::row::prune;

/// The SQL that makes the table `semel_receipts`. It may be applied again.
pub const MIGRATION: &str = include_str!("receipts.sql");
