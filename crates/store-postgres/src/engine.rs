//! What the updates of a store ask of the database.

use std::time::Duration;

use bytes::Bytes;
use semel_store::optimistic::{Decision, Engine, Lost, Write};
use semel_store::{Durability, StoreError};

use crate::error::Failure;
use crate::read::Answer;
use crate::session::{Duty, Named};
use crate::shared::Shared;
use crate::{read, write};

impl Engine for Shared {
    type Answer = Answer;

    async fn read(&self, keys: &[Bytes], patience: Option<Duration>) -> Result<Answer, Lost> {
        read::run(self, keys, patience).await.map_err(Failure::into_lost)
    }

    async fn write(
        &self,
        durability: Durability,
        decisions: &[Decision],
        patience: Option<Duration>,
    ) -> Vec<Result<i64, Lost>> {
        let duty = match durability {
            Durability::Synced => Duty::Synced,
            Durability::Relaxed => Duty::Relaxed,
        };
        write::run(self, duty, decisions, patience).await
    }

    async fn flush(&self, patience: Option<Duration>) -> Result<(), StoreError> {
        let flushed = async {
            let (_, session) = self.session(Duty::Synced).await?;
            session.query(Named::Flush, patience, &[]).await
        };
        flushed.await.map(drop).map_err(Failure::into_store_error)
    }

    fn changed(&self, decision: &Decision, watched: bool) {
        // Inserts are most of the writes, and hardly anybody watches what is absent: polling serves them.
        // But who does so here is hardly alone.
        if decision.write != Write::Insert || watched {
            self.wakes.announce(&decision.key);
        }
    }
}
