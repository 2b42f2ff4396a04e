//! Renews a lease until it is lost. It runs beside the work, inside the same future: whoever drops the one
//! drops the other.

use std::time::Duration;

use tokio::time::sleep;

use super::held::Held;
use crate::connection::{Client, Error};
use crate::deadline::Deadline;

/// The least time between a renewal that failed at once and the next.
const PAUSE_MIN: Duration = Duration::from_millis(20);

pub(crate) struct Keeper<'a> {
    client: &'a Client,
    held: &'a Held,
    /// The number of the newest renewal.
    renewal: u64,
}

impl<'a> Keeper<'a> {
    pub(crate) const fn new(client: &'a Client, held: &'a Held) -> Self {
        Self { client, held, renewal: 0 }
    }

    /// Comes back when the lease is lost: another has the claim, or the lease ran out without a
    /// confirmation.
    pub(crate) async fn keep(mut self) {
        loop {
            let lease = self.held.claim().lease;
            let due = self.held.ends().left().saturating_sub(lease * 2 / 3);
            tokio::select! {
                () = sleep(due) => {}
                () = self.held.urged() => {}
            }
            let ends = self.held.ends();
            match self.renew(ends).await {
                Ok(()) => continue,
                Err(error) if error.voids_claim() => break,
                Err(error) => tracing::debug!(%error, "a lease was not renewed"),
            }
            if ends.is_past() {
                break;
            }
            sleep((lease / 10).max(PAUSE_MIN).min(ends.left())).await;
        }
        tracing::warn!(fence = self.held.fence(), "the lease of a claim is lost");
    }

    /// Makes sure that the lease runs before the work begins: the claim may have come after a long wait.
    pub(crate) async fn confirm(&mut self, deadline: Deadline) -> Result<(), Error> {
        if self.held.ends().is_past() { self.renew(deadline).await } else { Ok(()) }
    }

    /// Renews the lease once, with the newest checkpoint.
    async fn renew(&mut self, deadline: Deadline) -> Result<(), Error> {
        self.renewal += 1;
        let (checkpoint, number) = self.held.unsaved();
        let claim = self.held.claim();
        let renewed = self.client.renew(claim, self.renewal, checkpoint.as_ref(), deadline).await?;
        self.held.renewed(renewed.ends, number);
        Ok(())
    }
}

/// Nobody renews the lease any more, however that came about: whoever still has the claim is told.
impl Drop for Keeper<'_> {
    fn drop(&mut self) {
        self.held.lose();
    }
}
