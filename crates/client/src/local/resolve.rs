//! What became of a stuck key whose effect lies in this database.

use super::error::Error;
use super::row::{self, Claimant, Claimed, Until};
use crate::keys::{Resolution, StuckKey};

/// How long to wait for a transaction that is open at the key.
const LOCK_TIMEOUT: &str = "200ms";

/// Looks the receipt of a stuck key up: what the key is to be settled with, as a handler of a
/// [recovery](crate::recovery::Recovery). `None`: it can't be said now, look again.
///
/// Without a receipt it is not done, and will not be: before it says so, this bars the fence that is stuck,
/// so that an owner which only was slow can't write any more. It waits for a transaction that is open at this
/// key, 200 ms at the most.
///
/// Use it for operations of which every effect is written [under its claim](super::under) in this database:
/// of others it would say that they are not done. Give it a connection that is in no transaction: what it bars
/// has to be committed before Semel is told. It is left with a lock timeout of 200 ms.
///
/// # Errors
///
/// The database failed, or the receipt can't be read.
pub async fn resolution(
    database: &tokio_postgres::Client,
    key: &StuckKey,
) -> Result<Option<Resolution>, Error> {
    row::set_lock_timeout(database, LOCK_TIMEOUT, Until::EndOfSession).await?;
    let looking = Claimant { name: key.name.clone(), fence: key.fence, fingerprint: None };
    Ok(match looking.claim(database).await? {
        Claimed::Ours => Some(Resolution::NotDone),
        Claimed::Done(receipt) => Some(receipt.into_resolution()),
        // Barred at an earlier look, which could not tell Semel.
        Claimed::Barred { fence } if fence == key.fence => Some(Resolution::NotDone),
        // The list is older than what happened since.
        Claimed::Barred { .. } | Claimed::Locked => None,
    })
}
