//! What holds for every sequence of commands, whoever sends them and whatever the clocks say.
//!
//! Each property is told from the trace of a random walk: from what was asked and answered, never by
//! asking the rules what they would have done.

#![allow(clippy::expect_used, reason = "a trace that makes no sense should stop the test")]

mod support;
#[path = "support/walk.rs"]
mod walk;

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use semel_domain::Change;
use semel_domain::keys::{
    Answer, ClaimOutcome, Command, CompleteOutcome, Completed, ForgetOutcome, Grant, Outcome,
    OwnerId, ReconcileOutcome, Record, ReleaseOutcome, RenewOutcome, ReplayOutcome, Resolution,
    State, decide,
};
use semel_domain::time::Timestamp;

use support::{BEGAN, RETENTION, SKEW, config, variants};
use walk::{Event, Handle, lives, steps, walk};

/// Whether an answer is a refusal, or the news that it had been done before.
fn changes_nothing(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Claim(ClaimOutcome::Granted(_))
        | Outcome::Complete(CompleteOutcome::Accepted { already: false, .. })
        | Outcome::Renew(RenewOutcome::Renewed { stale: false, .. })
        | Outcome::Release(ReleaseOutcome::Released { already: false })
        | Outcome::Reconcile(ReconcileOutcome::Settled { already: false, .. })
        | Outcome::Forget(ForgetOutcome::Forgotten { already: false, .. })
        | Outcome::Expire { removed: true } => false,
        Outcome::Claim(_)
        | Outcome::Complete(_)
        | Outcome::Renew(_)
        | Outcome::Release(_)
        | Outcome::Replay(_)
        | Outcome::Get(_)
        | Outcome::Reconcile(_)
        | Outcome::Forget(_)
        | Outcome::Expire { .. } => true,
    }
}

impl Event {
    /// The claim that was granted anew.
    fn granted(&self) -> Option<(Handle, &Grant)> {
        match (&self.command, &self.outcome) {
            (Command::Claim(claim), Outcome::Claim(ClaimOutcome::Granted(grant)))
                if !grant.resumed =>
            {
                Some((Handle { owner: claim.owner, fence: grant.fence }, grant))
            }
            _ => None,
        }
    }

    /// Whether the work was concluded here, by its owner or an operator.
    fn concluded(&self) -> bool {
        match (&self.command, &self.outcome) {
            (
                Command::Complete(complete),
                Outcome::Complete(CompleteOutcome::Accepted { already: false, .. }),
            ) => matches!(complete.completed, Completed::Concluded { .. }),
            (
                Command::Reconcile(reconcile),
                Outcome::Reconcile(ReconcileOutcome::Settled { already: false, .. }),
            ) => matches!(reconcile.resolution, Resolution::Concluded { .. }),
            _ => false,
        }
    }

    /// The answer that a caller was given.
    fn replayed(&self) -> Option<&Answer> {
        match &self.outcome {
            Outcome::Claim(ClaimOutcome::Replay(answer))
            | Outcome::Replay(ReplayOutcome::Replay(answer)) => Some(answer),
            _ => None,
        }
    }

    /// The record before and after, if this is one record's life going on.
    fn same_life(&self) -> Option<(&Record, &Record)> {
        let (before, after) = (self.before.as_ref()?, self.after.as_ref()?);
        let outlived = before.expires_at().is_some_and(|end| end <= self.at);
        (!outlived).then_some((before, after))
    }
}

/// Who may act on the key, told by the answers alone.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Right {
    Nobody,
    /// A claim, and when its lease ends.
    Held(Handle, Timestamp),
    /// Its owner does not know whether the work was done.
    Declared(Handle),
}

impl Right {
    fn holds(self, owner: OwnerId, fence: u64) -> bool {
        matches!(self, Self::Held(holder, _) if holder == Handle { owner, fence })
    }

    fn declared(self, owner: OwnerId, fence: u64) -> bool {
        self == Self::Declared(Handle { owner, fence })
    }

    /// Whether the one who had the right has lost it to whoever comes next.
    fn is_free(self, at: Timestamp) -> bool {
        match self {
            Self::Nobody | Self::Declared(_) => true,
            Self::Held(_, until) => until <= at,
        }
    }

    /// Checks one decision against who may act, and tells who may act after it.
    fn after(self, event: &Event) -> Result<Self, TestCaseError> {
        match (&event.command, &event.outcome) {
            (Command::Claim(claim), Outcome::Claim(ClaimOutcome::Granted(grant))) => {
                let handle = Handle { owner: claim.owner, fence: grant.fence };
                let before = self.holds(handle.owner, handle.fence);
                let may = if grant.resumed { before } else { self.is_free(event.at) };
                prop_assert!(may, "granted what somebody else holds");
                if let (true, Self::Held(_, until)) = (grant.resumed, self) {
                    prop_assert!(grant.expires_at >= until, "a lease was shortened");
                }
                return Ok(Self::Held(handle, grant.expires_at));
            }
            (Command::Complete(complete), Outcome::Complete(outcome)) => {
                let unknown = complete.completed == Completed::Indeterminate;
                let (owner, fence) = (complete.owner, complete.fence);
                let may = self.holds(owner, fence) || (self.declared(owner, fence) && !unknown);
                let did = matches!(outcome, CompleteOutcome::Accepted { already: false, .. });
                prop_assert_eq!(did, may, "only the holder completes, and it always can");
                if did {
                    let declared = Self::Declared(Handle { owner, fence });
                    return Ok(if unknown { declared } else { Self::Nobody });
                }
            }
            (Command::Renew(renew), Outcome::Renew(outcome)) => {
                let may = self.holds(renew.owner, renew.fence);
                let RenewOutcome::Renewed { expires_at, .. } = *outcome else {
                    prop_assert!(!may, "the holder can always renew");
                    return Ok(self);
                };
                prop_assert!(may, "only the holder renews");
                let Self::Held(handle, until) = self else { return Ok(self) };
                prop_assert!(expires_at >= until, "a lease was shortened");
                return Ok(Self::Held(handle, expires_at));
            }
            (Command::Release(release), Outcome::Release(outcome)) => {
                let may = self.holds(release.owner, release.fence);
                let did = *outcome == ReleaseOutcome::Released { already: false };
                prop_assert_eq!(did, may, "only the holder releases, and it always can");
                return Ok(if did { Self::Nobody } else { self });
            }
            (Command::Reconcile(reconcile), Outcome::Reconcile(outcome)) => {
                let stuck = match self {
                    Self::Nobody => false,
                    Self::Held(handle, until) => {
                        handle.fence == reconcile.fence && until <= event.at
                    }
                    Self::Declared(handle) => handle.fence == reconcile.fence,
                };
                let did = matches!(outcome, ReconcileOutcome::Settled { already: false, .. });
                prop_assert_eq!(did, stuck, "what is stuck is settled, and nothing else");
                return Ok(if did { Self::Nobody } else { self });
            }
            _ => {}
        }
        Ok(self)
    }
}

/// The outcome without what tells a repetition from the first time.
fn but_for_repetition(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Claim(ClaimOutcome::Granted(grant)) => {
            Outcome::Claim(ClaimOutcome::Granted(Box::new(Grant { resumed: true, ..*grant })))
        }
        Outcome::Complete(CompleteOutcome::Accepted { stage, expires_at, .. }) => {
            Outcome::Complete(CompleteOutcome::Accepted { already: true, stage, expires_at })
        }
        Outcome::Release(ReleaseOutcome::Released { .. }) => {
            Outcome::Release(ReleaseOutcome::Released { already: true })
        }
        Outcome::Reconcile(ReconcileOutcome::Settled { stage, .. }) => {
            Outcome::Reconcile(ReconcileOutcome::Settled { already: true, stage })
        }
        Outcome::Forget(ForgetOutcome::Forgotten { expires_at, .. }) => {
            Outcome::Forget(ForgetOutcome::Forgotten { already: true, expires_at })
        }
        Outcome::Expire { .. } => Outcome::Expire { removed: false },
        other => other,
    }
}

proptest! {
    #![proptest_config(config(128))]

    #[test]
    fn a_loser_never_writes(steps in steps(40)) {
        for event in walk(&steps, None) {
            if changes_nothing(&event.outcome) {
                prop_assert_eq!(&event.change, &Change::Keep, "{:?}", event);
            }
        }
    }

    #[test]
    fn who_may_only_look_never_writes(steps in steps(40)) {
        for event in walk(&steps, None) {
            let looks = match &event.command {
                Command::Claim(claim) => !claim.may_acquire,
                Command::Replay(_) | Command::Get => true,
                _ => false,
            };
            if looks {
                prop_assert_eq!(&event.change, &Change::Keep, "{:?}", event);
                prop_assert_eq!(event.granted(), None);
            }
        }
    }

    #[test]
    fn only_the_holder_of_the_newest_claim_can_act_on_it(steps in steps(40)) {
        let mut right = Right::Nobody;
        for event in walk(&steps, None) {
            right = right.after(&event).map_err(|error| {
                TestCaseError::fail(format!("{error}\nwith {right:?}, at {event:#?}"))
            })?;
        }
    }

    #[test]
    fn a_fence_is_never_given_twice_and_never_goes_back(steps in steps(60)) {
        let mut newest = 0;
        for event in walk(&steps, None) {
            if let Some((handle, _)) = event.granted() {
                prop_assert!(handle.fence > newest, "{} after {}", handle.fence, newest);
                newest = handle.fence;
            }
            if let Some((before, after)) = event.same_life() {
                prop_assert!(after.fence >= before.fence);
            }
        }
    }

    #[test]
    fn a_fingerprint_never_changes_while_the_record_lives(steps in steps(40)) {
        for event in walk(&steps, None) {
            if let Some((before, after)) = event.same_life() {
                prop_assert_eq!(&before.fingerprints, &after.fingerprints);
                prop_assert_eq!(before.on_owner_lost, after.on_owner_lost);
                prop_assert_eq!(before.first_sent, after.first_sent);
                prop_assert_eq!(before.retention, after.retention);
            }
        }
    }

    #[test]
    fn time_in_a_record_never_goes_back(steps in steps(40)) {
        for event in walk(&steps, None) {
            if let (Some(before), Some(after)) = (&event.before, &event.after) {
                prop_assert!(after.touched_at >= before.touched_at);
                prop_assert!(after.created_at >= before.created_at);
            }
            if let Some(record) = &event.after {
                prop_assert!(times_are_in_order(record), "{:?}", record);
            }
            if let Some((before, after)) = event.same_life() {
                prop_assert_eq!(before.created_at, after.created_at);
                if let (State::Completed(_), Some(_)) = (&before.state, after.expires_at()) {
                    prop_assert_eq!(before.expires_at(), after.expires_at(), "frozen");
                }
            }
            if let Change::Put(record) = &event.change {
                prop_assert_eq!(record.touched_at, event.at, "a change is dated");
            }
        }
    }

    #[test]
    fn an_answer_is_the_same_until_it_is_forgotten_or_its_time_is_over(steps in steps(40)) {
        let mut kept: Option<Answer> = None;
        for event in walk(&steps, None) {
            if let Some(answer) = event.replayed() {
                prop_assert_eq!(Some(answer), kept.as_ref());
                prop_assert!(answer.expires_at > event.at, "replayed when its time was over");
            }
            let now_kept = match event.after.as_ref().map(|record| &record.state) {
                Some(State::Completed(answer)) => Some(answer.clone()),
                _ => None,
            };
            if now_kept != kept {
                let forgotten = matches!(event.outcome, Outcome::Forget(ForgetOutcome::Forgotten { .. }));
                let over = kept.is_none_or(|answer| answer.expires_at <= event.at);
                prop_assert!(forgotten || over, "lost by {:?}", event);
                prop_assert!(now_kept.is_none() || event.concluded(), "made up by {:?}", event);
            }
            kept = now_kept;
        }
    }

    #[test]
    fn what_is_done_is_not_run_again_before_its_retention_ends(steps in steps(40)) {
        let mut until = Timestamp::default();
        for event in walk(&steps, None) {
            // The clock of the node that removed it may have been ahead of the clock that counts here.
            let sure = until.before(2 * SKEW);
            prop_assert!(event.granted().is_none() || event.at >= sure, "{:?}", event);
            if event.before.is_some() && event.at < until {
                prop_assert!(event.granted().is_none() && event.after.is_some(), "{:?}", event);
            }
            if event.concluded() {
                until = event.at.after(RETENTION).after(2 * SKEW);
            }
        }
    }

    #[test]
    fn what_outlived_its_retention_is_swept_and_nothing_else(steps in steps(40)) {
        for event in walk(&steps, None) {
            if let Outcome::Expire { removed } = event.outcome {
                let ends = event.before.as_ref().and_then(|record| match &record.state {
                    State::Claimed(_) | State::Indeterminate { .. } => None,
                    State::Released { expires_at, .. } | State::Forgotten { expires_at } => Some(*expires_at),
                    State::Completed(answer) => Some(answer.expires_at),
                });
                prop_assert_eq!(removed, ends.is_some_and(|end| end <= event.at));
                prop_assert_eq!(removed, event.change == Change::Delete);
            } else {
                prop_assert_ne!(&event.change, &Change::Delete);
            }
        }
    }

    #[test]
    fn deciding_twice_equals_deciding_once(steps in steps(40)) {
        for event in walk(&steps, None) {
            let (change, outcome) = decide(event.after.as_ref(), &event.command, event.now);
            match change {
                Change::Keep => {}
                Change::Put(record) => prop_assert_eq!(Some(record), event.after.clone()),
                Change::Delete => prop_assert!(false, "removed only the second time: {:?}", event),
            }
            prop_assert_eq!(but_for_repetition(outcome), but_for_repetition(event.outcome.clone()));
        }
    }

    #[test]
    fn a_hint_of_how_long_to_stay_away_is_never_zero_and_never_past_the_lease(steps in steps(40)) {
        for event in walk(&steps, None) {
            let (Outcome::Claim(ClaimOutcome::InProgress(held))
                | Outcome::Replay(ReplayOutcome::InProgress(held))) = &event.outcome else { continue };
            prop_assert!(held.lease_left > Duration::ZERO);
            if let Some(State::Claimed(claimed)) = event.before.as_ref().map(|record| &record.state)
                && claimed.expires_at > event.at
            {
                prop_assert_eq!(held.lease_left, claimed.expires_at.since(event.at));
            }
        }
    }
}

proptest! {
    #![proptest_config(config(512))]

    /// Not even after its record is gone, and though the caller's clock and those of the nodes differ.
    #[test]
    fn an_intent_that_says_when_it_was_made_is_concluded_at_most_once(
        steps in prop_oneof![1 => steps(40), 3 => lives()],
        ahead_ms in 0..2_000_u64,
    ) {
        let first_sent = BEGAN.before(SKEW).after(Duration::from_millis(ahead_ms));
        let mut concluded = false;
        for event in walk(&steps, Some(first_sent)) {
            prop_assert!(!concluded || event.granted().is_none(), "a second run: {:?}", event);
            concluded |= event.concluded();
        }
    }
}

/// Nothing in a record is later than its last change, but for what is still to come.
fn times_are_in_order(record: &Record) -> bool {
    let past = |at: Timestamp| record.created_at <= at && at <= record.touched_at;
    let attempts = record.history.iter().all(|attempt| {
        attempt.claimed_at <= attempt.ended_at && past(attempt.claimed_at) && past(attempt.ended_at)
    });
    let state = match &record.state {
        State::Claimed(claimed) => {
            past(claimed.claimed_at) && claimed.claimed_at < claimed.expires_at
        }
        State::Released { expires_at, .. } | State::Forgotten { expires_at } => {
            *expires_at > record.touched_at
        }
        State::Completed(answer) => {
            past(answer.completed_at) && answer.completed_at < answer.expires_at
        }
        State::Indeterminate { claimed_at, declared_at, .. } => {
            claimed_at <= declared_at && past(*claimed_at) && past(*declared_at)
        }
    };
    attempts && state && record.audit.iter().all(|act| past(act.at))
}

/// A property of walks that never come anywhere would hold for nothing.
#[test]
fn the_walks_meet_every_answer() {
    let rng = TestRng::deterministic_rng(RngAlgorithm::XorShift);
    let mut runner = TestRunner::new_with_rng(config(1), rng);
    let mut outcomes = Vec::new();
    for first_sent in [None, Some(BEGAN), Some(BEGAN.after(RETENTION))] {
        for _ in 0..100 {
            let steps = steps(60).new_tree(&mut runner).expect("a walk").current();
            outcomes.extend(walk(&steps, first_sent).into_iter().map(|event| event.outcome));
        }
    }
    assert_eq!(variants::missed("", &outcomes), BTreeSet::new());
    let grants = outcomes.iter().filter(|outcome| variants::name(outcome) == "Claim::Granted");
    assert!(grants.count() * 20 > outcomes.len(), "too few claims come through");
}
