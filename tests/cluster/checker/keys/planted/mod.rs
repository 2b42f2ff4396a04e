//! Histories of a key: right ones that must pass, and one that breaks each promise.

use super::*;

mod doubt;
mod erased;

const LEASE_US: u64 = 1_000;

fn owner(number: u8) -> Owner {
    [number; 16]
}

fn call(asked: Asked, (began_us, ended_us): (u64, u64), answered: Answered) -> Call {
    Call { node: 0, began_us, ended_us, asked, answered, batch: None }
}

fn granted(by: u8, fence: u64, span: (u64, u64)) -> Call {
    let answered = Answered::Granted { fence, lease_us: LEASE_US, resumed: false };
    call(Asked::Claim { owner: owner(by), blocks: false }, span, answered)
}

fn resumed(by: u8, fence: u64, span: (u64, u64)) -> Call {
    let answered = Answered::Granted { fence, lease_us: LEASE_US, resumed: true };
    call(Asked::Claim { owner: owner(by), blocks: false }, span, answered)
}

fn claim(by: u8, span: (u64, u64), answered: Answered) -> Call {
    call(Asked::Claim { owner: owner(by), blocks: false }, span, answered)
}

fn renew(by: u8, fence: u64, span: (u64, u64), answered: Answered) -> Call {
    call(Asked::Renew { owner: owner(by), fence, lease_us: LEASE_US }, span, answered)
}

fn release(by: u8, fence: u64, span: (u64, u64), answered: Answered) -> Call {
    call(Asked::Release { owner: owner(by), fence }, span, answered)
}

fn complete(by: u8, fence: u64, body: &'static str, span: (u64, u64), answered: Answered) -> Call {
    call(Asked::Complete { owner: owner(by), fence, body: body.into() }, span, answered)
}

fn told(fence: u64, body: &'static str) -> Answered {
    Answered::Told { fence, body: body.into() }
}

fn replay(span: (u64, u64), answered: Answered) -> Call {
    call(Asked::Replay, span, answered)
}

const DONE: Answered = Answered::Accepted { late: false };

fn promises(calls: &[Call]) -> Vec<Promise> {
    let mut found: Vec<Promise> = judge(calls).into_iter().map(|broken| broken.promise).collect();
    found.sort();
    found.dedup();
    found
}

#[track_caller]
fn assert_right(calls: &[Call]) {
    let broken = judge(calls);
    assert!(broken.is_empty(), "{broken:?}");
}

#[track_caller]
fn assert_breaks(promise: Promise, calls: &[Call]) {
    let found = promises(calls);
    assert!(found.contains(&promise), "{promise:?} is broken, and {found:?} were found");
}

#[test]
fn a_life_of_a_key_is_right() {
    assert_right(&[
        replay((0, 1), Answered::NoSuchKey),
        granted(1, 10, (2, 4)),
        claim(2, (5, 6), Answered::Held),
        renew(1, 10, (7, 8), DONE),
        release(1, 10, (9, 12), DONE),
        claim(1, (13, 14), Answered::GivenBack),
        replay((13, 14), Answered::GivenBack),
        granted(2, 12, (15, 16)),
        replay((17, 18), Answered::Held),
        // Its lease has run out.
        granted(3, 13, (15 + LEASE_US, 17 + LEASE_US)),
        complete(2, 12, "late", (20 + LEASE_US, 21 + LEASE_US), Answered::Fenced),
        complete(3, 13, "done", (22 + LEASE_US, 23 + LEASE_US), DONE),
        complete(3, 13, "other", (24 + LEASE_US, 25 + LEASE_US), Answered::Conflict),
        claim(4, (26 + LEASE_US, 27 + LEASE_US), told(13, "done")),
        replay((28 + LEASE_US, 29 + LEASE_US), told(13, "done")),
        renew(3, 13, (30 + LEASE_US, 31 + LEASE_US), Answered::Fenced),
    ]);
}

#[test]
fn what_is_unknown_may_have_happened_at_any_time_since_or_never() {
    // The reply was lost, and the repeat resumes what it did.
    assert_right(&[claim(1, (0, 5), Answered::Unknown), resumed(1, 10, (6, 7))]);
    // It was granted to somebody who does not know.
    assert_right(&[
        claim(1, (0, 5), Answered::Unknown),
        claim(2, (6, 7), Answered::Held),
        granted(3, 11, (8, 9)),
    ]);
    // Carried out after its caller gave up.
    assert_right(&[
        granted(1, 10, (0, 1)),
        complete(1, 10, "a", (2, 3), Answered::Unknown),
        replay((4, 5), Answered::Held),
        replay((6, 7), told(10, "a")),
    ]);
    // Never carried out.
    assert_right(&[
        granted(1, 10, (0, 1)),
        release(1, 10, (2_000, 2_001), Answered::Unknown),
        granted(2, 11, (1_500, 1_600)),
    ]);
    // A lost claim of another can take over, too.
    assert_right(&[
        granted(1, 10, (0, 1)),
        claim(2, (1_100, 1_200), Answered::Unknown),
        renew(1, 10, (1_300, 1_301), Answered::Fenced),
    ]);
}

#[test]
fn calls_at_once_may_be_in_any_order() {
    assert_right(&[
        granted(1, 10, (0, 1)),
        complete(1, 10, "a", (2, 9), DONE),
        replay((3, 4), told(10, "a")),
        claim(2, (5, 6), told(10, "a")),
    ]);
    assert_right(&[
        granted(1, 10, (0, 1)),
        complete(1, 10, "a", (2, 9), DONE),
        replay((3, 8), Answered::Held),
        claim(2, (4, 6), told(10, "a")),
    ]);
}

#[test]
fn a_stale_read_is_seen() {
    assert_breaks(
        Promise::Linearizable,
        &[
            granted(1, 10, (0, 1)),
            complete(1, 10, "a", (2, 3), DONE),
            replay((4, 5), Answered::Held),
        ],
    );
    assert_breaks(
        Promise::Linearizable,
        &[
            granted(1, 10, (0, 1)),
            complete(1, 10, "a", (2, 9), DONE),
            replay((3, 4), told(10, "a")),
            claim(2, (5, 6), Answered::Held),
        ],
    );
    assert_breaks(
        Promise::Linearizable,
        &[granted(1, 10, (0, 1)), replay((2, 3), Answered::NoSuchKey)],
    );
    // Even where a lost claim blurs the view: a completed key is never held again.
    assert_breaks(
        Promise::Linearizable,
        &[
            granted(1, 10, (0, 1)),
            claim(2, (0, 1), Answered::Unknown),
            complete(1, 10, "a", (2, 3), DONE),
            claim(3, (4, 5), Answered::Held),
        ],
    );
}

#[test]
fn what_happened_before_it_was_asked_for_is_seen() {
    assert_breaks(
        Promise::Linearizable,
        &[
            granted(1, 10, (0, 1)),
            replay((2, 3), told(10, "a")),
            complete(1, 10, "a", (4, 5), DONE),
        ],
    );
    assert_breaks(
        Promise::Linearizable,
        &[claim(2, (0, 1), Answered::Held), granted(1, 10, (2, 3))],
    );
    assert_breaks(
        Promise::Linearizable,
        &[
            granted(1, 10, (0, 1)),
            replay((2, 3), Answered::GivenBack),
            release(1, 10, (4, 5), DONE),
        ],
    );
}

#[test]
fn a_renewal_of_a_claim_that_was_lost_is_seen() {
    assert_breaks(
        Promise::Linearizable,
        &[
            granted(1, 10, (0, 1)),
            granted(2, 11, (1_100, 1_200)),
            renew(1, 10, (1_300, 1_301), DONE),
        ],
    );
    assert_breaks(
        Promise::Linearizable,
        &[granted(1, 10, (0, 1)), release(1, 10, (2, 3), DONE), complete(1, 10, "a", (4, 5), DONE)],
    );
}

#[test]
fn an_owner_that_is_fenced_off_and_then_not_is_seen_whatever_was_lost() {
    let lost = claim(2, (0, 1), Answered::Unknown);
    let holds = [granted(1, 10, (2_000, 2_001)), renew(1, 10, (4_010, 4_011), DONE)];
    let fenced = |at_us: u64, call: fn(u8, u64, (u64, u64), Answered) -> Call| {
        call(1, 10, (at_us, at_us + 1), Answered::Fenced)
    };
    let with = |call: Call| holds.iter().cloned().chain([lost.clone(), call]).collect::<Vec<_>>();
    // Its lease is over, and the claim that was lost may have come.
    assert_right(&with(fenced(6_020, renew)));
    assert_breaks(Promise::Linearizable, &with(fenced(4_000, renew)));
    assert_breaks(Promise::Linearizable, &with(fenced(4_000, release)));
    // Nor can its owner be told that somebody else holds it.
    assert_breaks(Promise::Linearizable, &with(claim(1, (4_000, 4_001), Answered::Held)));
    // Whoever completes it was never fenced off.
    let fenced = complete(1, 10, "a", (6_020, 6_021), Answered::Fenced);
    let mut calls = with(complete(1, 10, "a", (6_030, 6_031), DONE));
    assert_right(&calls);
    calls.push(fenced);
    assert_breaks(Promise::Linearizable, &calls);
}

#[test]
fn a_key_that_is_held_after_it_is_completed_is_seen_whatever_was_lost() {
    assert_breaks(
        Promise::Linearizable,
        &[
            claim(2, (0, 1), Answered::Unknown),
            granted(1, 10, (0, 1)),
            replay((2, 3), told(10, "a")),
            complete(1, 10, "a", (0, 4), Answered::Unknown),
            replay((5, 6), Answered::Held),
        ],
    );
}

#[test]
fn a_batch_out_of_its_order_is_seen() {
    let twice = |first: Call, second: Call| {
        [first, second].map(|item| Call { batch: Some(1), ..item }).to_vec()
    };
    let claims = |second: Call| twice(granted(1, 10, (0, 1)), second);
    assert_right(&claims(claim(2, (0, 1), Answered::Held)));
    assert_right(&claims(resumed(1, 10, (0, 1))));
    assert_breaks(Promise::BatchOrder, &claims(granted(1, 10, (0, 1))));
    assert_breaks(Promise::BatchOrder, &claims(granted(2, 11, (0, 1))));
    let mut turned = claims(claim(2, (0, 1), Answered::Held));
    turned.swap(0, 1);
    turned[0].answered = Answered::GivenBack;
    assert_breaks(Promise::Linearizable, &turned);
    let completes = |second: Call| {
        let first = complete(1, 10, "a", (2, 3), DONE);
        [vec![granted(1, 10, (0, 1))], twice(first, second)].concat()
    };
    assert_right(&completes(complete(1, 10, "a", (2, 3), DONE)));
    assert_right(&completes(complete(1, 10, "b", (2, 3), Answered::Conflict)));
    assert_breaks(Promise::BatchOrder, &completes(complete(1, 10, "a", (2, 3), Answered::Fenced)));
    assert_breaks(Promise::BatchOrder, &completes(complete(1, 10, "b", (2, 3), Answered::Fenced)));
}

#[test]
fn a_fence_of_two_owners_or_given_twice_is_seen() {
    let again = |by| [granted(1, 10, (0, 1)), granted(by, 10, (2_000, 2_001))];
    assert_breaks(Promise::OneFence, &again(2));
    assert_breaks(Promise::OneFence, &again(1));
}

#[test]
fn a_fence_that_falls_is_seen() {
    assert_breaks(Promise::OneFence, &[granted(1, 10, (0, 1)), granted(2, 9, (2_000, 2_001))]);
}

#[test]
fn two_live_claims_are_seen() {
    assert_breaks(Promise::OneLiveClaim, &[granted(1, 10, (0, 1)), granted(2, 11, (500, 600))]);
    assert_breaks(
        Promise::OneLiveClaim,
        &[granted(1, 10, (0, 1)), renew(1, 10, (900, 950), DONE), granted(2, 11, (1_100, 1_200))],
    );
}

#[test]
fn an_owner_fenced_off_during_its_lease_is_seen() {
    assert_breaks(
        Promise::LiveClaimHolds,
        &[granted(1, 10, (0, 1)), renew(1, 10, (2, 3), Answered::Fenced)],
    );
    assert_breaks(
        Promise::LiveClaimHolds,
        &[granted(1, 10, (0, 1)), complete(1, 10, "a", (2, 3), Answered::Fenced)],
    );
}

#[test]
fn a_completion_that_is_lost_or_changed_is_seen() {
    let completed = [granted(1, 10, (0, 1)), complete(1, 10, "a", (2, 3), DONE)];
    let then = |call: Call| completed.iter().cloned().chain([call]).collect::<Vec<_>>();
    assert_breaks(Promise::CompletionKept, &then(granted(2, 11, (4, 5))));
    assert_breaks(Promise::CompletionKept, &then(replay((4, 5), told(10, "b"))));
    assert_breaks(Promise::CompletionKept, &then(complete(1, 10, "b", (4, 5), DONE)));
    assert_breaks(Promise::Linearizable, &then(replay((4, 5), Answered::NoSuchKey)));
}

#[test]
fn an_answer_of_nobody_is_seen() {
    assert_breaks(
        Promise::AnswerSent,
        &[granted(1, 10, (0, 1)), replay((2, 3), told(10, "from nowhere"))],
    );
}

#[test]
fn an_error_that_nothing_explains_is_seen() {
    let refused = Answered::Refused("RECORD_UNREADABLE".to_owned());
    assert_breaks(Promise::Expected, &[claim(1, (0, 1), refused)]);
}
