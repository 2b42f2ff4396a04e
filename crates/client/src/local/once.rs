//! Claim, work and receipt in one transaction.

use std::time::Duration;

use tokio_postgres::{GenericClient, Transaction};

use super::error::Error;
use super::outcome::Outcome;
use super::row::{self, Claimant, Claimed, Until};
use crate::fingerprint::Fingerprint;
use crate::keys::{Claim, KeyName, Work};

/// How long to wait for another transaction that is at the same key.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_millis(200);
/// The database takes no longer one, and less than the least for none at all.
const LOCK_TIMEOUT_MAX: Duration = Duration::from_secs(24 * 60 * 60);
const LOCK_TIMEOUT_MIN: Duration = Duration::from_millis(1);

/// A write in your own database that is to happen once. Made by [`once`] and [`under`].
#[derive(Clone, Debug)]
#[must_use = "nothing happens until it is run"]
pub struct Once {
    claimant: Claimant,
    lock_timeout: Duration,
}

/// A write that is to happen once, by the receipts of one database alone: no node is asked.
pub fn once(name: &KeyName, fingerprint: &Fingerprint) -> Once {
    let claimant =
        Claimant { name: name.clone(), fence: 0, fingerprint: Some(fingerprint.clone()) };
    Once { claimant, lock_timeout: LOCK_TIMEOUT }
}

/// The write of a claim, with a receipt under its fence. That the key stands for this intent has been checked
/// by the node that granted the claim.
pub fn under(claim: &Claim) -> Once {
    let claimant = Claimant { name: claim.name.clone(), fence: claim.fence, fingerprint: None };
    Once { claimant, lock_timeout: LOCK_TIMEOUT }
}

/// What to complete the claim with, [under](under) which this came out: an answer that was found counts as
/// that of the work; what is known to be rolled back is not done; all else is unknown.
#[must_use]
pub fn work(ran: Result<Outcome, Error>) -> Work {
    match ran {
        Ok(outcome) => outcome.into_work(),
        Err(error) => {
            tracing::warn!(%error, "a write under a claim has failed");
            if matches!(error, Error::Database(_)) { Work::NotDone } else { Work::Unknown }
        }
    }
}

impl Once {
    /// How long to wait for another transaction that is at the same key: 1 ms to 24 h. The work itself runs
    /// with the lock timeout of the connection. Default: 200 ms.
    pub fn lock_timeout(mut self, lock_timeout: Duration) -> Self {
        self.lock_timeout = lock_timeout.clamp(LOCK_TIMEOUT_MIN, LOCK_TIMEOUT_MAX);
        self
    }

    /// Claims the key, does the work, and commits both; or tells what others did.
    ///
    /// The work writes by the transaction that it is given, and neither commits nor rolls back:
    /// [`Work::Succeeded`] and [`Work::FailedFinal`] are committed with their response; [`Work::NotDone`],
    /// [`Work::Unknown`] and errors roll everything back. So does dropping the future before it commits.
    ///
    /// `database` is a connection; or, without a claim, also a transaction of your own: then this is a part of
    /// it, and done when you commit. The isolation level is to be READ COMMITTED: under a stricter one a
    /// duplicate fails with SQLSTATE 40001 in place of being replayed.
    ///
    /// # Errors
    ///
    /// The key was used for another intent, or the database failed; [`Error::CommitUnknown`] alone leaves open
    /// whether it is done.
    pub async fn run<F>(self, database: &mut impl GenericClient, work: F) -> Result<Outcome, Error>
    where
        F: AsyncFnOnce(&Transaction<'_>) -> Result<Work, tokio_postgres::Error>,
    {
        let transaction = database.transaction().await?;
        let ours = format!("{}ms", self.lock_timeout.as_millis());
        let callers = row::set_lock_timeout(&transaction, &ours, Until::EndOfTransaction).await?;
        match self.claimant.claim(&transaction).await? {
            Claimed::Ours => {}
            Claimed::Done(receipt) => return undone(transaction, Outcome::Replayed(receipt)).await,
            Claimed::Barred { fence } => {
                return undone(transaction, Outcome::Fenced { fence }).await;
            }
            Claimed::Locked => {
                let after = self.lock_timeout;
                return undone(transaction, Outcome::ComeBackLater { after }).await;
            }
        }
        row::set_lock_timeout(&transaction, &callers, Until::EndOfTransaction).await?;
        let (failed, response) = match work(&transaction).await? {
            Work::Succeeded(response) => (false, response),
            Work::FailedFinal(response) => (true, response),
            Work::NotDone | Work::Unknown => return undone(transaction, Outcome::NotDone).await,
        };
        let receipt = row::fill(&transaction, &self.claimant.name, failed, response).await?;
        transaction.commit().await.map_err(Error::of_commit)?;
        Ok(Outcome::Ran(receipt))
    }
}

async fn undone(transaction: Transaction<'_>, outcome: Outcome) -> Result<Outcome, Error> {
    transaction.rollback().await?;
    Ok(outcome)
}
