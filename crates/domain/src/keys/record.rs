//! What is stored for a key. Its tenant, operation and key are its address, not part of it.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use super::outcome::GrantKind;
use crate::fingerprint::Fingerprints;
use crate::limits::{AUDIT_MAX, HISTORY_MAX};
use crate::response::Response;
use crate::time::Timestamp;

/// 16 random bytes that name one execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerId(pub [u8; 16]);

/// What happens to a key whose owner's lease ran out before it completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnOwnerLost {
    /// The next caller simply does the work.
    TakeOver,
    /// The next caller looks first, then acts. The default: taking over blindly may do work twice,
    /// and that has to be asked for.
    #[default]
    Reconcile,
    /// Nobody gets the claim until an operator settles it.
    Block,
}

/// A key's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What the key stands for. Never changes.
    pub fingerprints: Fingerprints,
    /// The policy for a lost owner. Never changes.
    pub on_owner_lost: OnOwnerLost,
    /// How long the answer is kept after completion.
    pub retention: Duration,
    /// The skew that was allowed when the key was claimed; records outlive their retention by twice
    /// this.
    pub allowed_skew: Duration,
    /// When the intent was made, if the caller said so.
    pub first_sent: Option<Timestamp>,
    /// Names and values to find the key by.
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// When the key was first claimed.
    pub created_at: Timestamp,
    /// When the record last changed. Never goes back.
    pub touched_at: Timestamp,
    /// The newest fence. While released: the fence that the next claim gets.
    pub fence: u64,
    /// How many claims were granted.
    pub attempts: u32,
    /// The attempts that ended, oldest first: the last 8.
    pub history: Vec<Attempt>,
    /// The last recovery point that an owner saved.
    pub checkpoint: Option<Bytes>,
    /// Where the key stands.
    pub state: State,
    /// What operators did, oldest first: the last 8.
    pub audit: Vec<Audit>,
}

/// Where a key stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Somebody holds the claim, under [`Record::fence`].
    Claimed(Claimed),
    /// The claim was given back with the work known not to be done.
    Released {
        /// Who gave it back, to recognise late copies of its requests.
        by: OwnerId,
        /// The fence that was given back.
        fence: u64,
        /// Whether it was a completion (FAILED_RETRYABLE), a release, or an operator.
        end: AttemptEnd,
        /// When the record may be removed.
        expires_at: Timestamp,
    },
    /// The work is over and its answer is kept.
    Completed(Answer),
    /// The owner does not know whether the work was done.
    Indeterminate {
        /// Who said so; it may still settle it under [`Record::fence`].
        by: OwnerId,
        /// When its claim began.
        claimed_at: Timestamp,
        /// When it said so.
        declared_at: Timestamp,
    },
    /// Completed, then erased.
    Forgotten {
        /// When the tombstone may be removed.
        expires_at: Timestamp,
    },
}

/// A held claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// Who holds it.
    pub owner: OwnerId,
    /// Under which circumstances it was granted, repeated to the owner if its first reply was lost.
    pub kind: GrantKind,
    /// When it was granted.
    pub claimed_at: Timestamp,
    /// When its lease ends.
    pub expires_at: Timestamp,
    /// The number of the newest renewal.
    pub renewal: u64,
}

/// How finished work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conclusion {
    /// Done.
    Succeeded,
    /// Failed, and would fail again.
    FailedFinal,
}

/// The kept answer of a completed key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// How the work ended.
    pub conclusion: Conclusion,
    /// What to answer; absent if the completion had no response.
    pub response: Option<Response>,
    /// When it completed.
    pub completed_at: Timestamp,
    /// Under which fence.
    pub fence: u64,
    /// Who held the claim, and completed it unless an operator did.
    pub owner: OwnerId,
    /// When the record may be removed: frozen here, never computed again.
    pub expires_at: Timestamp,
}

/// One execution that held the claim and no longer does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The fence that it held.
    pub fence: u64,
    /// Who it was.
    pub owner: OwnerId,
    /// When it got the claim.
    pub claimed_at: Timestamp,
    /// When it lost it.
    pub ended_at: Timestamp,
    /// How it lost it.
    pub end: AttemptEnd,
}

/// How an attempt ended without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    /// It gave the claim back.
    Released,
    /// It reported FAILED_RETRYABLE.
    FailedRetryable,
    /// Its lease ran out and another took over.
    Lapsed,
    /// It reported INDETERMINATE.
    Indeterminate,
    /// An operator settled it as not done.
    Reconciled,
}

/// What an operator did to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    /// When.
    pub at: Timestamp,
    /// Who, as given.
    pub actor: Box<str>,
    /// Why, as given.
    pub reason: Box<str>,
    /// What.
    pub action: AuditAction,
}

/// The acts of operators that change a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditAction {
    /// Settled a stuck key.
    Reconcile,
    /// Erased a payload.
    Forget,
}

/// Where a key stands for someone who looks at it at a given moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Claimed, and the lease runs.
    Claimed,
    /// Claimed, and the lease has run out.
    Lapsed,
    /// Given back, known not done.
    Released,
    /// Done.
    Succeeded,
    /// Failed for good.
    FailedFinal,
    /// Perhaps done.
    Indeterminate,
    /// Erased.
    Forgotten,
}

impl Record {
    /// Where the key stands at `now`.
    #[must_use]
    pub fn stage(&self, now: Timestamp) -> Stage {
        match &self.state {
            State::Claimed(claimed) if claimed.is_live(now) => Stage::Claimed,
            State::Claimed(_) => Stage::Lapsed,
            State::Released { .. } => Stage::Released,
            State::Completed(Answer { conclusion: Conclusion::Succeeded, .. }) => Stage::Succeeded,
            State::Completed(Answer { conclusion: Conclusion::FailedFinal, .. }) => {
                Stage::FailedFinal
            }
            State::Indeterminate { .. } => Stage::Indeterminate,
            State::Forgotten { .. } => Stage::Forgotten,
        }
    }

    /// When the record may be removed. A live, stuck or indeterminate claim never expires.
    #[must_use]
    pub fn expires_at(&self) -> Option<Timestamp> {
        match &self.state {
            State::Claimed(_) | State::Indeterminate { .. } => None,
            State::Released { expires_at, .. } | State::Forgotten { expires_at } => {
                Some(*expires_at)
            }
            State::Completed(answer) => Some(answer.expires_at),
        }
    }

    /// Since when, or from when on, somebody should look after the key: the end of a lease, or the
    /// moment at which it was declared indeterminate.
    #[must_use]
    pub fn stuck_at(&self) -> Option<Timestamp> {
        match &self.state {
            State::Claimed(claimed) => Some(claimed.expires_at),
            State::Indeterminate { declared_at, .. } => Some(*declared_at),
            _ => None,
        }
    }

    /// Who holds or last held the claim.
    #[must_use]
    pub fn owner(&self) -> Option<OwnerId> {
        match &self.state {
            State::Claimed(claimed) => Some(claimed.owner),
            State::Released { by, .. } | State::Indeterminate { by, .. } => Some(*by),
            State::Completed(answer) => Some(answer.owner),
            State::Forgotten { .. } => None,
        }
    }

    /// Whether the record has outlived its retention at `now`.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at().is_some_and(|expires_at| expires_at <= now)
    }

    /// When a record whose retention begins at `now` may be removed: the retention, and the skew of
    /// two clocks that may each be off. Once the record is gone, only the age of the intent keeps it
    /// from running again, so an intent of the near future counts from when it was made.
    pub(crate) fn retained_from(&self, now: Timestamp) -> Timestamp {
        let from = self.first_sent.map_or(now, |first_sent| now.max(first_sent));
        from.after(self.retention).after(self.allowed_skew.saturating_mul(2))
    }

    pub(crate) fn remember(&mut self, attempt: Attempt) {
        keep_last(&mut self.history, attempt, HISTORY_MAX);
    }

    pub(crate) fn record_act(&mut self, audit: Audit) {
        keep_last(&mut self.audit, audit, AUDIT_MAX);
    }

    /// Whether the claim with this fence ended so, as far as the record remembers: somebody else may
    /// have claimed since.
    pub(crate) fn ended(&self, fence: u64, owner: Option<OwnerId>, end: AttemptEnd) -> bool {
        self.history.iter().any(|attempt| {
            attempt.fence == fence
                && attempt.end == end
                && owner.is_none_or(|owner| owner == attempt.owner)
        })
    }

    /// Gives the claim of `owner` back: known not done, and the next claim has a new fence.
    pub(crate) fn release(
        &mut self,
        owner: OwnerId,
        claimed_at: Timestamp,
        end: AttemptEnd,
        now: Timestamp,
    ) {
        let fence = self.fence;
        self.remember(Attempt { fence, owner, claimed_at, ended_at: now, end });
        let expires_at = self.retained_from(now);
        self.state = State::Released { by: owner, fence, end, expires_at };
        self.fence = fence.saturating_add(1);
        self.touched_at = now;
    }
}

impl Claimed {
    /// Whether the lease runs at `now`.
    #[must_use]
    pub fn is_live(&self, now: Timestamp) -> bool {
        now < self.expires_at
    }
}

fn keep_last<T>(list: &mut Vec<T>, item: T, max: usize) {
    list.push(item);
    let excess = list.len().saturating_sub(max);
    list.drain(..excess);
}
