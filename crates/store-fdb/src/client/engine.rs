//! What the updates of a store ask of the cluster.

use std::time::Duration;

use bytes::Bytes;
use semel_store::optimistic::{Decision, Engine, Lost};
use semel_store::{Durability, StoreError};

use super::failure::Failure;
use super::read::Answer;
use super::shared::Shared;
use super::{read, write};

impl Engine for Shared {
    type Answer = Answer;

    async fn read(&self, keys: &[Bytes], patience: Option<Duration>) -> Result<Answer, Lost> {
        read::run(self, keys, patience).await.map_err(Failure::into_lost)
    }

    /// Every commit of this database is on disk before it is answered, so relaxed ones are synced, too.
    async fn write(
        &self,
        _durability: Durability,
        decisions: &[Decision],
        patience: Option<Duration>,
    ) -> Vec<Result<i64, Lost>> {
        write::run(self, decisions, patience).await
    }

    async fn flush(&self, _patience: Option<Duration>) -> Result<(), StoreError> {
        Ok(())
    }

    /// The cluster tells the other nodes by itself.
    fn changed(&self, _decision: &Decision, _watched: bool) {}
}
