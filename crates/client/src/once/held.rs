//! The claim as the work holds it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;
use tokio::sync::watch;

use crate::deadline::Deadline;
use crate::keys::{Claim, Disposition};

/// The longest checkpoint, as in the contract.
const CHECKPOINT_MAX_BYTES: usize = 64 * 1024;

/// A claim whose lease is renewed while the work runs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Held {
    claim: Arc<Claim>,
    state: Arc<watch::Sender<State>>,
}

/// What the work and the renewing of its lease tell each other.
#[derive(Debug)]
struct State {
    ends: Deadline,
    lost: bool,
    /// The newest checkpoint that is not saved yet.
    checkpoint: Option<Bytes>,
    /// How many checkpoints were given so far.
    given: u64,
    /// How many of them are saved, or were overtaken by one that is.
    saved: u64,
    /// Somebody waits for the checkpoint to be saved.
    urgent: bool,
}

/// Why a checkpoint was not saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// It is longer than 64 KiB.
    #[error("a checkpoint has at most 64 KiB: keep what is larger elsewhere, and its place here")]
    TooLarge,
    /// The lease is lost: another may be at work already.
    #[error("the lease is lost")]
    LeaseLost,
}

impl Held {
    pub(crate) fn new(claim: Claim) -> Self {
        let state = State {
            ends: claim.ends,
            lost: false,
            checkpoint: None,
            given: 0,
            saved: 0,
            urgent: false,
        };
        Self { claim: Arc::new(claim), state: Arc::new(watch::Sender::new(state)) }
    }

    /// The claim as it was granted.
    #[must_use]
    pub fn claim(&self) -> &Claim {
        &self.claim
    }

    /// Greater than every earlier one of this key. Write it along with what the work writes, so that a
    /// slower owner of an older one can be told apart.
    #[must_use]
    pub fn fence(&self) -> u64 {
        self.claim.fence
    }

    /// A stable name of this intent, the same for every attempt: hand it to a provider that takes
    /// idempotency keys.
    #[must_use]
    pub fn derived_key(&self) -> &str {
        &self.claim.derived_key
    }

    /// Whether an earlier owner may have begun the work: after
    /// [`ReconcileRequired`](Disposition::ReconcileRequired) look first, then act.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        self.claim.disposition
    }

    /// What is left of the lease as far as it is confirmed; it is renewed in good time.
    #[must_use]
    pub fn lease_left(&self) -> Duration {
        self.state.borrow().ends.left()
    }

    /// Whether the lease is lost, or no longer kept, since the work is over or was dropped: another may be at work
    /// already.
    #[must_use]
    pub fn is_lease_lost(&self) -> bool {
        let state = self.state.borrow();
        state.lost || state.ends.is_past()
    }

    /// Waits until the lease is lost, or no longer kept.
    pub async fn lease_lost(&self) {
        // The sender is our own: it does not go away meanwhile.
        let _ = self.state.subscribe().wait_for(|state| state.lost).await;
    }

    /// Leaves a recovery point of at most 64 KiB for whoever might take over, to be saved with the next
    /// renewal. Only the newest one counts.
    ///
    /// # Errors
    ///
    /// It is too long, or the lease is lost.
    pub fn note_checkpoint(&self, checkpoint: impl Into<Bytes>) -> Result<(), CheckpointError> {
        self.give(checkpoint.into(), false).map(|_| ())
    }

    /// Saves a recovery point at once, and comes back when it is saved: whatever the work does next, whoever
    /// takes over knows that it came this far.
    ///
    /// # Errors
    ///
    /// It is too long, or the lease was lost before it was known to be saved.
    pub async fn save_checkpoint(
        &self,
        checkpoint: impl Into<Bytes>,
    ) -> Result<(), CheckpointError> {
        let number = self.give(checkpoint.into(), true)?;
        let mut state = self.state.subscribe();
        let settled = state.wait_for(|state| state.lost || state.saved >= number).await;
        match settled {
            Ok(state) if state.saved >= number => Ok(()),
            _ => Err(CheckpointError::LeaseLost),
        }
    }

    fn give(&self, checkpoint: Bytes, urgent: bool) -> Result<u64, CheckpointError> {
        if checkpoint.len() > CHECKPOINT_MAX_BYTES {
            return Err(CheckpointError::TooLarge);
        }
        if self.is_lease_lost() {
            return Err(CheckpointError::LeaseLost);
        }
        let mut number = 0;
        self.state.send_modify(|state| {
            state.checkpoint = Some(checkpoint);
            state.given += 1;
            state.urgent |= urgent;
            number = state.given;
        });
        Ok(number)
    }

    pub(crate) fn ends(&self) -> Deadline {
        self.state.borrow().ends
    }

    /// Waits until somebody waits for a checkpoint to be saved.
    pub(crate) async fn urged(&self) {
        let _ = self.state.subscribe().wait_for(|state| state.urgent).await;
    }

    /// The checkpoint to send with a renewal, and its number.
    pub(crate) fn unsaved(&self) -> (Option<Bytes>, u64) {
        let state = self.state.borrow();
        (state.checkpoint.clone(), state.given)
    }

    /// A renewal was confirmed, with the checkpoint of this number.
    pub(crate) fn renewed(&self, ends: Deadline, saved: u64) {
        self.state.send_modify(|state| {
            state.ends = ends;
            state.saved = saved;
            if state.given == saved {
                state.checkpoint = None;
                state.urgent = false;
            }
        });
    }

    pub(crate) fn lose(&self) {
        self.state.send_modify(|state| state.lost = true);
    }
}
