//! Faults that other systems of this kind had, each told as the story of what went wrong there.

#![allow(clippy::panic, reason = "a story that takes another turn should stop")]

mod support;

use std::time::Duration;

use bytes::Bytes;
use semel_domain::Change;
use semel_domain::keys::layout::Address;
use semel_domain::keys::{
    Claim, ClaimOutcome, Command, CompleteOutcome, Completed, Conclusion, Forget, ForgetOutcome,
    Grant, GrantKind, InProgress, Outcome, OwnerId, Policy, Reconcile, ReconcileOutcome, Record,
    ReleaseOutcome, Renew, RenewOutcome, Replay, ReplayOutcome, Resolution, Stage, decide,
};
use semel_domain::name::{Key, NameError, Operation, Tenant};
use semel_domain::response::{Body, Content, Response};
use semel_domain::time::Timestamp;

use support::{
    A, B, BEGAN, C, Desk, FENCE, HOUR, LEASE, MICROSECOND, MILLISECOND, RETENTION, SECOND, SKEW,
    claim, complete, completed_by, every_state, lapsed_by, leased_until, mismatched, other_payload,
    payload, release, renew, response, sent, stored_as, succeeded, taking_over,
};

impl Desk {
    fn claim(&mut self, claim: Claim, now: Timestamp) -> ClaimOutcome {
        let Outcome::Claim(outcome) = self.ask(&Command::Claim(claim), now) else {
            panic!("a claim is answered as one")
        };
        outcome
    }

    fn granted(&mut self, claim: Claim, now: Timestamp) -> Grant {
        match self.claim(claim, now) {
            ClaimOutcome::Granted(grant) => *grant,
            other => panic!("not granted: {other:?}"),
        }
    }

    fn complete(
        &mut self,
        owner: OwnerId,
        fence: u64,
        completed: Completed,
        now: Timestamp,
    ) -> CompleteOutcome {
        let command = Command::Complete(complete(owner, fence, completed));
        let Outcome::Complete(outcome) = self.ask(&command, now) else {
            panic!("a completion is answered as one")
        };
        outcome
    }
}

fn accepted(outcome: &CompleteOutcome) -> bool {
    matches!(outcome, CompleteOutcome::Accepted { already: false, .. })
}

fn fenced(outcome: &CompleteOutcome) -> bool {
    matches!(outcome, CompleteOutcome::Fenced { .. })
}

/// The body of the answer that a claim was given.
fn replayed(outcome: ClaimOutcome) -> Response {
    let ClaimOutcome::Replay(answer) = outcome else { panic!("not replayed: {outcome:?}") };
    answer.response.unwrap_or_else(|| panic!("replayed without a response"))
}

fn found(fence: u64, resolution: Resolution) -> Command {
    Command::Reconcile(Reconcile { fence, resolution, actor: "ops".into(), reason: "".into() })
}

fn forget() -> Command {
    Command::Forget(Forget { actor: "ops".into(), reason: "".into() })
}

// 1. Losers never write.

#[test]
fn a_rejected_duplicate_can_not_delete_the_running_owners_claim() {
    let mut desk = Desk::default();
    let grant = desk.granted(claim(A), BEGAN);
    let running = desk.clone();

    // The duplicate is told that another is at work, and cleans up after itself all the same.
    assert!(matches!(desk.claim(claim(B), BEGAN.after(SECOND)), ClaimOutcome::InProgress(_)));
    for fence in [grant.fence, grant.fence + 1, 0] {
        let now = BEGAN.after(2 * SECOND);
        desk.ask(&Command::Release(release(B, fence)), now);
        desk.ask(&Command::Renew(renew(B, fence, 1)), now);
        for completed in
            [succeeded("not mine"), Completed::FailedRetryable, Completed::Indeterminate]
        {
            assert!(fenced(&desk.complete(B, fence, completed, now)));
        }
    }
    assert_eq!(desk, running, "not a byte is changed");
    assert!(accepted(&desk.complete(A, grant.fence, succeeded("paid"), BEGAN.after(3 * SECOND))));
}

#[test]
fn a_rejected_duplicate_can_not_delete_a_completed_answer() {
    let mut desk = Desk::of(completed_by(A));
    let done = desk.clone();
    let now = BEGAN.after(6 * SECOND);
    for owner in [A, B] {
        for fence in [FENCE - 1, FENCE, FENCE + 1] {
            desk.ask(&Command::Release(release(owner, fence)), now);
            desk.complete(owner, fence, Completed::FailedRetryable, now);
            desk.ask(&found(fence, Resolution::NotDone), now);
            desk.ask(&Command::Expire, now);
        }
    }
    assert_eq!(desk, done);
}

// 2. Compare state and fence at the write.

#[test]
fn a_late_recovery_can_not_run_over_a_completed_answer() {
    let mut desk = Desk::default();
    let first = desk.granted(claim(A), BEGAN);
    // B sees A at work, and means to recover once the lease is over; A completes meanwhile, late.
    assert!(matches!(desk.claim(claim(B), BEGAN.after(SECOND)), ClaimOutcome::InProgress(_)));
    let late = BEGAN.after(LEASE).after(SECOND);
    assert!(accepted(&desk.complete(A, first.fence, succeeded("paid"), late)));
    let done = desk.clone();

    assert_eq!(replayed(desk.claim(claim(B), late)), response("paid"));
    for fence in [first.fence, first.fence + 1] {
        assert!(fenced(&desk.complete(B, fence, succeeded("recovered"), late)));
        let outcome = desk.ask(&found(fence, Resolution::NotDone), late);
        assert!(matches!(
            outcome,
            Outcome::Reconcile(ReconcileOutcome::Conflict | ReconcileOutcome::Fenced { .. })
        ));
    }
    assert_eq!(desk, done);
}

#[test]
fn an_owner_that_was_taken_over_can_not_complete_over_its_successor() {
    let mut desk = Desk::of(taking_over(lapsed_by(A)));
    let late = BEGAN.after(LEASE);
    let second = desk.granted(claim(B), late);
    assert_eq!((second.kind, second.fence), (GrantKind::TakenOver, FENCE + 1));

    let running = desk.clone();
    assert!(fenced(&desk.complete(A, FENCE, succeeded("from the dead"), late)));
    assert!(fenced(&desk.complete(A, second.fence, succeeded("from the dead"), late)));
    desk.ask(&Command::Renew(renew(A, FENCE, 9)), late);
    desk.ask(&Command::Release(release(A, FENCE)), late);
    assert_eq!(desk, running);

    assert!(accepted(&desk.complete(B, second.fence, succeeded("paid"), late)));
    assert!(fenced(&desk.complete(A, FENCE, succeeded("paid"), late)), "not even with the same");
}

// 3. Absent is not zero.

#[test]
fn a_claim_that_was_just_made_is_not_orphaned_at_once() {
    let mut desk = Desk::default();
    let grant = desk.granted(Claim { lease: 100 * MILLISECOND, ..claim(A) }, BEGAN);
    assert_eq!(grant.lease, 100 * MILLISECOND);
    for now in [BEGAN, BEGAN.after(99 * MILLISECOND), BEGAN.before(HOUR)] {
        assert!(matches!(desk.claim(claim(B), now), ClaimOutcome::InProgress(_)), "{now:?}");
    }
}

#[test]
fn a_lease_with_nothing_left_is_over_and_not_unset() {
    let now = BEGAN.after(SECOND);
    let mut over = Desk::of(taking_over(leased_until(now, lapsed_by(A))));
    assert_eq!(over.granted(claim(B), now).kind, GrantKind::TakenOver);

    let mut almost = Desk::of(taking_over(leased_until(now.after(MICROSECOND), lapsed_by(A))));
    let held = InProgress { lease_left: MICROSECOND, held_for: SECOND };
    assert_eq!(almost.claim(claim(B), now), ClaimOutcome::InProgress(held), "a hint is never zero");
}

#[test]
fn an_intent_sent_at_time_zero_is_old_and_one_without_a_time_is_not() {
    let mut desk = Desk::default();
    let ancient = sent(Timestamp::default(), claim(A));
    assert_eq!(desk.claim(ancient, BEGAN), ClaimOutcome::Expired);
    assert_eq!(desk, Desk::default());
    assert_eq!(desk.granted(claim(A), BEGAN).kind, GrantKind::Claimed);
}

#[test]
fn a_retention_that_nobody_asked_for_is_the_policys_and_not_zero() {
    let mut desk = Desk::default();
    let grant = desk.granted(Claim { retention: None, ..claim(A) }, BEGAN);
    desk.complete(A, grant.fence, succeeded("paid"), BEGAN);
    assert_eq!(replayed(desk.claim(claim(B), BEGAN.after(RETENTION))), response("paid"));
}

// 4 and 12. The fingerprint is checked on every path, outranks every state, and is never lost.

#[test]
fn a_mismatch_while_the_work_runs_is_not_answered_as_in_progress() {
    let mut desk = Desk::default();
    desk.granted(claim(A), BEGAN);
    let running = desk.clone();
    assert_eq!(desk.claim(mismatched(claim(B)), BEGAN), ClaimOutcome::PayloadMismatch);
    assert_eq!(desk.claim(mismatched(claim(A)), BEGAN), ClaimOutcome::PayloadMismatch);
    assert_eq!(desk, running);
}

#[test]
fn no_state_returns_what_is_there_without_a_look_at_the_fingerprint() {
    let guess = Command::Replay(Replay { fingerprints: other_payload() });
    for (state, record) in every_state(A) {
        let mut desk = Desk::of(record);
        let now = BEGAN.after(LEASE);
        for owner in [A, B] {
            let outcome = desk.claim(mismatched(claim(owner)), now);
            assert_eq!(outcome, ClaimOutcome::PayloadMismatch, "{state}");
        }
        assert_eq!(desk.ask(&guess, now), Outcome::Replay(ReplayOutcome::Unknown), "{state}");
    }
}

#[test]
fn no_change_loses_the_fingerprint() {
    let now = BEGAN.after(LEASE);
    let commands = |fence| {
        [
            Command::Claim(claim(A)),
            Command::Claim(claim(B)),
            Command::Complete(complete(A, fence, succeeded("paid"))),
            Command::Complete(complete(A, fence, Completed::FailedRetryable)),
            Command::Complete(complete(A, fence, Completed::Indeterminate)),
            Command::Renew(renew(A, fence, 6)),
            Command::Release(release(A, fence)),
            found(fence, Resolution::NotDone),
            found(
                fence,
                Resolution::Concluded { conclusion: Conclusion::Succeeded, response: None },
            ),
            forget(),
        ]
    };
    let mut changes = 0;
    for (state, record) in every_state(A) {
        for command in commands(FENCE) {
            if let (Change::Put(after), _) = decide(Some(&record), &command, now) {
                assert_eq!(after.fingerprints, payload(), "{state}: {command:?}");
                changes += 1;
            }
        }
    }
    assert!(changes > 20, "only {changes} commands changed anything");
}

// 5. Complete by the claim's handle.

#[test]
fn a_handler_that_changed_its_input_can_not_complete_another_record() {
    // Two charges are at work. The handler of the first one computes its key again at the end, comes
    // to the key of the second, and completes what it finds there with the claim that it holds.
    let (mut mine, mut other) = (Desk::default(), Desk::default());
    let handle = mine.granted(claim(A), BEGAN);
    let others = other.granted(Claim { fingerprints: other_payload(), ..claim(B) }, BEGAN);
    assert_eq!(handle.fence, others.fence, "claimed in the same microsecond");
    let running = other.clone();
    assert!(fenced(&other.complete(A, handle.fence, succeeded("paid"), BEGAN)));
    assert_eq!(other, running);

    // A completion carries no payload that could be mistaken: the claim says which work it was.
    assert!(accepted(&mine.complete(A, handle.fence, succeeded("paid"), BEGAN)));
    assert_eq!(mine.record.map(|record| record.fingerprints), Some(payload()));
}

// 6. Unique owner id.

#[test]
fn of_two_identical_racers_only_one_believes_that_it_won() {
    let mut desk = Desk::default();
    let winner = desk.granted(claim(A), BEGAN);
    assert!(matches!(desk.claim(claim(B), BEGAN), ClaimOutcome::InProgress(_)));
    // The same execution asking again is no second winner: it gets the very claim that it has.
    let again = desk.granted(claim(A), BEGAN);
    assert_eq!(again, Grant { resumed: true, ..winner.clone() });
    // And who knows the fence but is somebody else can do nothing with it.
    assert!(fenced(&desk.complete(B, winner.fence, succeeded("paid"), BEGAN)));
}

#[test]
fn of_all_who_find_an_owner_lost_only_one_takes_over() {
    let mut desk = Desk::of(taking_over(lapsed_by(A)));
    let now = BEGAN.after(LEASE);
    assert_eq!(desk.granted(claim(B), now).fence, FENCE + 1);
    assert!(matches!(desk.claim(claim(C), now), ClaimOutcome::InProgress(_)));
    assert!(matches!(desk.claim(claim(A), now), ClaimOutcome::InProgress(_)), "it is A's no more");
}

// 9. Empty or blank keys are rejected.

#[test]
fn an_empty_or_blank_key_is_not_no_key() {
    assert_eq!(Key::parse(""), Err(NameError::Empty));
    for blank in [" ", "\u{a0}", "\u{2003}\u{3000}"] {
        assert_eq!(Key::parse(blank), Err(NameError::Blank), "{blank:?}");
    }
    let padded = Key::parse(" k").map(|key| key.as_str().to_owned());
    assert_eq!(padded.as_deref(), Ok(" k"), "and another is not trimmed into one");
}

// 10. Absolute instant in the record.

#[test]
fn a_node_with_another_configuration_does_not_move_the_end_of_a_retention() {
    let mut desk = Desk::default();
    let grant = desk.granted(claim(A), BEGAN);
    desk.complete(A, grant.fence, succeeded("paid"), BEGAN);
    let end = BEGAN.after(RETENTION).after(2 * SKEW);
    assert_eq!(desk.record.as_ref().and_then(Record::expires_at), Some(end));

    let last = end.before(MICROSECOND);
    for retention in [MICROSECOND, 30 * 24 * HOUR] {
        let policy = Policy { retention, allowed_skew: Duration::ZERO };
        let asked = Claim { policy, retention: Some(retention), ..claim(B) };
        assert_eq!(replayed(desk.claim(asked.clone(), last)), response("paid"));
        let answer = desk.complete(A, grant.fence, succeeded("paid"), last);
        let stage = Stage::Succeeded;
        let expires_at = Some(end);
        assert_eq!(answer, CompleteOutcome::Accepted { already: true, stage, expires_at });

        let kept = desk.clone();
        desk.ask(&Command::Expire, last);
        assert_eq!(desk, kept, "not a microsecond sooner");
        let mut later = desk.clone();
        assert_eq!(later.granted(asked, end).kind, GrantKind::Claimed, "nor later");
    }
    let outcome = desk.ask(&forget(), last);
    let expires_at = end;
    assert_eq!(outcome, Outcome::Forget(ForgetOutcome::Forgotten { already: false, expires_at }));
    assert_eq!(desk.ask(&Command::Expire, end), Outcome::Expire { removed: true });
}

#[test]
fn an_intent_is_not_run_again_between_two_clocks() {
    // Three clocks, each as far off as it may be: the caller's says now, the node that did the work
    // and the one asked again are slow, and the node that sweeps is fast.
    let almost = SKEW.saturating_sub(MICROSECOND);
    let slow = |at: Timestamp| at.before(almost);
    let fast = |at: Timestamp| at.after(almost);
    let mut desk = Desk::default();
    let grant = desk.granted(sent(BEGAN, claim(A)), slow(BEGAN));
    assert!(accepted(&desk.complete(A, grant.fence, succeeded("paid"), slow(BEGAN))));

    for millis in (0..70_000).step_by(10) {
        let now = BEGAN.after(Duration::from_millis(millis));
        desk.ask(&Command::Expire, fast(now));
        let outcome = desk.claim(sent(BEGAN, claim(B)), slow(now));
        assert!(!matches!(outcome, ClaimOutcome::Granted(_)), "run again after {millis} ms");
    }
    assert_eq!(desk.record, None, "and yet it is swept in the end");
}

// 11. Omitted, never cut.

#[test]
fn a_body_over_the_limit_is_not_cut_and_replayed_as_success() {
    let whole = response("a receipt longer than this node keeps");
    for content in [Content::OmittedTooLarge, Content::OmittedByCaller] {
        let mut desk = Desk::default();
        let grant = desk.granted(claim(A), BEGAN);
        let kept = stored_as(content, whole.clone());
        let done = |response: &Response| Completed::Concluded {
            conclusion: Conclusion::Succeeded,
            response: Some(response.clone()),
        };
        assert!(accepted(&desk.complete(A, grant.fence, done(&kept), BEGAN)));
        assert_eq!(replayed(desk.claim(claim(B), BEGAN)), kept, "nothing instead of a part");

        // The whole body sent again is the same completion; a part of it, or as many other bytes, is not.
        let again = desk.complete(A, grant.fence, done(&whole), BEGAN);
        assert!(matches!(again, CompleteOutcome::Accepted { already: true, .. }));
        let part = response("a receipt longer than");
        let other = response("a receipt shorter than this node keeps");
        let forged = Response {
            body: Body { length: whole.body.length, ..other.body.clone() },
            ..whole.clone()
        };
        for different in [part, other, forged] {
            let outcome = desk.complete(A, grant.fence, done(&different), BEGAN);
            assert_eq!(outcome, CompleteOutcome::Conflict);
        }
        assert_eq!(replayed(desk.claim(claim(B), BEGAN)), kept);
    }
}

#[test]
fn an_empty_body_is_not_an_omitted_one() {
    let empty = response("");
    assert_eq!(empty.body.content, Content::Plain(Bytes::new()));
    let mut desk = Desk::default();
    let grant = desk.granted(claim(A), BEGAN);
    desk.complete(A, grant.fence, succeeded(""), BEGAN);
    assert_eq!(replayed(desk.claim(claim(B), BEGAN)), empty);
}

// 14. Length-framed.

#[test]
fn fields_that_read_the_same_when_joined_are_not_mixed_up() {
    let address = |tenant, operation, key| -> Result<Address, NameError> {
        Ok(Address {
            tenant: Tenant::parse(tenant)?,
            operation: Operation::parse(operation)?,
            key: Key::parse(key)?,
        })
    };
    let record = completed_by(A);
    let stuck = lapsed_by(A);
    for (one, other) in [
        (address("a", "bc", "d"), address("ab", "c", "d")),
        (address("a", "b", "cd"), address("a", "bc", "d")),
        (address("a", "b/c", "d"), address("a", "b", "/cd")),
        (address("a", "a", "aa"), address("aa", "a", "a")),
        (address("a", "b", "c"), address("a", "b", "C")),
    ] {
        let (Ok(one), Ok(other)) = (one, other) else { panic!("these are names") };
        assert_ne!(one.record_key(), other.record_key());
        assert_ne!(one.index_entries(&record), other.index_entries(&record));
        assert_ne!(one.index_entries(&stuck), other.index_entries(&stuck));
        assert_ne!(one.derived_key(), other.derived_key());
    }
}

// And what a lost reply must not do.

#[test]
fn an_owner_whose_first_reply_was_lost_is_not_locked_out() {
    let mut desk = Desk::default();
    let lost = desk.granted(claim(A), BEGAN);
    let later = BEGAN.after(LEASE).after(SECOND);
    let again = desk.granted(claim(A), later);
    assert_eq!((again.fence, again.resumed, again.lease), (lost.fence, true, LEASE));
    assert!(accepted(&desk.complete(A, again.fence, succeeded("paid"), later)));
}

#[test]
fn a_late_copy_of_a_request_that_gave_up_does_not_claim_again() {
    let mut desk = Desk::default();
    let grant = desk.granted(claim(A), BEGAN);
    let outcome = desk.ask(&Command::Release(release(A, grant.fence)), BEGAN);
    assert_eq!(outcome, Outcome::Release(ReleaseOutcome::Released { already: false }));
    assert_eq!(desk.claim(claim(A), BEGAN), ClaimOutcome::Released);
    assert_eq!(desk.granted(claim(B), BEGAN).fence, grant.fence + 1);
}

#[test]
fn a_late_renewal_neither_shortens_a_lease_nor_takes_a_checkpoint_back() {
    let mut desk = Desk::default();
    let grant = desk.granted(claim(A), BEGAN);
    let saving = |renewal, checkpoint: &'static [u8], lease| {
        let renew = renew(A, grant.fence, renewal);
        let checkpoint = Some(Bytes::from_static(checkpoint));
        Command::Renew(Renew { checkpoint, lease, ..renew })
    };
    desk.ask(&saving(2, b"second", HOUR), BEGAN);
    let renewed = desk.clone();
    let late = desk.ask(&saving(1, b"first", LEASE), BEGAN.after(SECOND));
    let expires_at = BEGAN.after(HOUR);
    assert_eq!(late, Outcome::Renew(RenewOutcome::Renewed { stale: true, expires_at }));
    assert_eq!(desk, renewed);
}
